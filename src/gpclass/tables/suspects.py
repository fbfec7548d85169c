"""Columns of text that are not categories: dates, numbers that are written in unusual ways, names of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .advice import odd_writing, on_odd_cells, options_of, writing_of, written
from .dates import DATE, problem_of_dates
from .numerals import PLAIN, best_convention, is_written, measure, usual_unit
from .problems import Option, Problem
from .words import cut, is_number, listed

MANY_LEVELS = 50  # a text column with more levels, and more than half as many levels as rows, holds names, not categories
MANY_NAMES = 20  # and so does one with more rows in which every row has a level of its own
FEW_LEVELS = 8  # numbers with a unit that have more levels, or more than half as many as rows, are measurements

Levels = Mapping[str, tuple[int, str]]  # the number of rows of each text and its first row, in the order of these rows


def problem_of_texts(levels: Levels, name: str, comma: bool = False) -> Problem | None:
    """Return the problem of a column of texts that are dates, numbers or names, or None if they are categories.

    With `comma`, other columns have decimal commas, and 1,200 is 1.2.
    """
    counts = rows_of(levels)
    n = sum(counts.values())

    def share(which: Callable[[str], object]) -> float:
        return sum(count for text, count in counts.items() if which(text)) / n

    if share(DATE.fullmatch) > 0.9:
        return problem_of_dates(name, [text for text in counts if DATE.fullmatch(text)])
    found = _measurements(counts, levels, name, comma) or _numerals(counts, name, comma)
    if found is not None:
        return found
    if 0 < share(is_number) < 1 and share(_is_plain) > 0.5:
        return _marks(levels, name)
    if (len(levels) > MANY_LEVELS and len(levels) > n / 2) or len(levels) == n > MANY_NAMES:
        return _names(levels, name, n)
    return None


def rows_of(levels: Levels) -> dict[str, int]:
    """Return the number of rows of each text."""
    return {text: count for text, (count, _) in levels.items()}


def has_decimal_commas(counts: Mapping[str, int]) -> bool:
    """Return whether texts, with their numbers of rows, are numbers with decimal commas, not thousands separators."""
    convention, share, _ = best_convention(_numbers(counts))
    return share > 0.5 and convention.decimal == ","


def _numbers(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the texts without their units, with numbers of rows."""
    found: dict[str, int] = {}
    for text, count in counts.items():
        one = measure(text)
        key = one.number if one is not None and one.unit else text
        found[key] = found.get(key, 0) + count
    return found


def _measurements(counts: Mapping[str, int], levels: Levels, name: str, comma: bool) -> Problem | None:
    """Return the problem of numbers with units."""
    unit, share = usual_unit(counts)
    several = len(counts) > FEW_LEVELS or (len(counts) > 2 and len(counts) > sum(counts.values()) / 2)
    if not several or share <= 0.5:
        return None
    first = next(text for text in counts if (found := measure(text)) is not None and found.unit == unit)
    text = f"column {name!r} has numbers with a unit, such as {cut(first)} in row {levels[first][1]}"
    options = (Option("--units", name), *options_of(writing_of(_numbers(counts), comma).convention))
    code = f"TableEncoder(units=[{name!r}])"
    advice = f"; remove the unit ({code}; {written(options)}), or leave the column out (--drop {name})"
    return Problem("units", text, (name,), advice, options, code)


def _numerals(counts: Mapping[str, int], name: str, comma: bool) -> Problem | None:
    """Return the problem of numbers with decimal commas or thousands separators."""
    found = odd_writing(counts, comma)
    if found is None:
        return None
    first = next(text for text in counts if is_written(text, found.convention) and not is_number(text))
    kind = "decimal commas" if found.convention.decimal == "," else "thousands separators"
    text = f"column {name!r} has numbers with {kind}, such as {first!r}"
    return Problem("numbers", text, (name,), *found.advice(name))


def _is_plain(text: str) -> bool:
    """Return whether a text is a number with a point; it may be negative in a way that `float` does not read."""
    found = measure(text)
    return is_number(text) or (found is not None and not found.unit and is_written(found.number, PLAIN))


def _marks(levels: Levels, name: str) -> Problem:
    """Return the problem of a few texts among numbers."""
    odd = [text for text in levels if not is_number(text)]
    text = f"column {name!r} is mostly numbers, but row {levels[odd[0]][1]} has {cut(odd[0])}"
    if len(odd) > 1:
        text += f", and other rows have {listed(odd[1:])}"
    return Problem("mixed", text, (name,), *on_odd_cells(odd, name))


def _names(levels: Levels, name: str, n: int) -> Problem:
    """Return the problem of texts that are nearly all different."""
    first = next(iter(levels))
    text = f"column {name!r} has {len(levels)} different texts in {n} rows, such as {cut(first)}"
    text += ": these are names, not categories"
    advice = f". Leave the column out (--drop {name}), or use it as row names (--id {name})"
    option = Option("--id" if len(levels) == n else "--drop", name)
    return Problem("names", text, (name,), advice, (option,), f"X.drop(columns={name!r})")
