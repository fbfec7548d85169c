"""Names of kernels, likelihoods and engines."""

import pytest

from gpclass.engines import Engine
from gpclass.inference import EP
from gpclass.registry import name_of, register, registered


@pytest.fixture
def table(monkeypatch):
    """A copy of the table, so that no test leaves names behind."""
    from gpclass import registry

    monkeypatch.setattr(registry, "_classes", {kind: dict(classes) for kind, classes in registry._classes.items()})


def test_a_class_is_known_by_its_name_or_by_that_of_the_class(table):
    mine = type("Mine", (Engine,), {})
    assert name_of(mine) is None
    assert register(mine, "mine") is mine
    assert registered("engine")["mine"] is mine
    assert name_of(mine) == "mine"
    other = register(type("Other", (Engine,), {}))
    assert name_of(other) == "Other"
    assert list(registered("engine"))[-2:] == ["mine", "Other"]  # in the order of registration


def test_a_name_is_given_once(table):
    with pytest.raises(ValueError, match=r"gpclass\.engines\.full\.ep\.EP is already registered under the name 'ep'"):
        register(type("Mine", (Engine,), {}), "ep")
    assert registered("engine")["ep"] is EP
    first, again = (type("Anew", (Engine,), {"__module__": "notebook"}) for _ in range(2))
    register(first)
    register(again)  # defined again, as in a notebook
    assert registered("engine")["Anew"] is again


def test_only_kernels_likelihoods_and_engines(table):
    with pytest.raises(TypeError, match="derive it from Kernel, Likelihood or Engine"):
        register(dict)


def test_the_table_cannot_be_changed_from_outside(table):
    registered("engine").clear()
    assert registered("engine")["ep"] is EP
