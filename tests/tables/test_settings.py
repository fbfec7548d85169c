"""How a text file is read: names of separators, values that are refused, defaults."""

import pytest

from gpclass.tables import USUAL, Reading, TableError


@pytest.mark.parametrize(
    ("given", "sep"), [("tab", "\t"), ("\\t", "\t"), ("\t", "\t"), ("space", " "), (" ", " "), ("|", "|"), (None, None)]
)
def test_separators_by_name(given, sep):
    assert Reading(sep=given).sep == sep


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"sep": "ab"}, "separator must be one character"),
        ({"sep": ""}, "separator must be one character"),
        ({"sep": '"'}, "separator must be one character"),
        ({"sep": "\n"}, "separator must be one character"),
        ({"decimal": ""}, "a point or a comma"),
        ({"decimal": "'"}, "a point or a comma"),
        ({"thousands": "_"}, "thousands must be one of ',' '.' ' ' "),
        ({"thousands": "."}, "'.' cannot be both"),
        ({"skip_lines": -1}, "skip_lines must not be negative; got -1"),
        ({"encoding": "utf-9"}, "usual ones are utf-8"),
    ],
)
def test_settings_that_are_refused(settings, told):
    with pytest.raises(TableError) as caught:
        Reading(**settings)
    assert told in str(caught.value)


@pytest.mark.parametrize("settings", [{"decimal": ","}, {"thousands": ","}, {"skip_lines": 3}, {"header": False}])
def test_other_settings_are_not_usual(settings):
    assert Reading().is_usual
    assert Reading(missing_values=[]) == USUAL
    assert not Reading(**settings).is_usual


def test_missing_values_are_kept_as_a_tuple():
    """So that settings can be compared and hashed."""
    assert hash(Reading(missing_values=["?", "-"])) == hash(Reading(missing_values=("?", "-")))
