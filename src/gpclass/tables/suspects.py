"""Columns of text that are not categories: dates, numbers that are written in unusual ways, names of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .dates import DATE, problem_of_dates
from .numerals import PLAIN, Convention, best_convention, is_written, measure, usual_unit
from .problems import Option, Problem
from .words import FEW_MARKS, cut, is_number, listed

MANY_LEVELS = 50  # a text column with more levels, and more than half as many levels as rows, holds names, not categories
MANY_NAMES = 20  # and so does one with more rows in which every row has a level of its own
FEW_LEVELS = 8  # numbers with a unit that have more levels, or more than half as many as rows, are measurements

Levels = Mapping[str, tuple[int, str]]  # the number of rows of each text and its first row, in the order of these rows


def problem_of_texts(levels: Levels, name: str, comma: bool = False) -> Problem | None:
    """Return the problem of a column of texts that are dates, numbers or names, or None if they are categories.

    With `comma`, other columns have decimal commas, and 1,200 is 1.2.
    """
    counts = {text: count for text, (count, _) in levels.items()}
    n = sum(counts.values())

    def share(which: Callable[[str], object]) -> float:
        return sum(count for text, count in counts.items() if which(text)) / n

    if share(DATE.fullmatch) > 0.9:
        return problem_of_dates(name, [text for text in counts if DATE.fullmatch(text)])
    found = _measurements(counts, levels, name, comma) or _numerals(counts, levels, name, comma)
    if found is not None:
        return found
    if 0.5 < share(is_number) < 1:
        return _marks(levels, name)
    if (len(levels) > MANY_LEVELS and len(levels) > n / 2) or len(levels) == n > MANY_NAMES:
        return _names(levels, name, n)
    return None


def has_decimal_commas(levels: Levels) -> bool:
    """Return whether texts are numbers with decimal commas, and not with thousands separators."""
    convention, share, _ = best_convention(_numbers(levels))
    return share > 0.5 and convention.decimal == ","


def _numbers(levels: Levels) -> dict[str, int]:
    """Return the texts without their units, with numbers of rows."""
    found: dict[str, int] = {}
    for text, (count, _) in levels.items():
        one = measure(text)
        key = text if one is None else one.number
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
    options = (Option("--units", name), *convention_options(levels, comma))
    code = f"TableEncoder(units=[{name!r}])"
    advice = f"; remove the unit ({code}; {written(options)}), or leave the column out (--drop {name})"
    return Problem("units", text, (name,), advice, options, code)


def _numerals(counts: Mapping[str, int], levels: Levels, name: str, comma: bool) -> Problem | None:
    """Return the problem of numbers with decimal commas or thousands separators."""
    convention, share, doubtful = best_convention(counts)
    if convention == PLAIN or share <= 0.5:
        return None
    options = convention_options(levels, comma)
    code = f"read_table(path, reading=Reading({', '.join(f'{o.name[2:]}={o.value!r}' for o in options)}))"
    first = next(text for text in counts if is_written(text, convention) and not is_number(text))
    kind = "decimal commas" if any(o.name == "--decimal" for o in options) else "thousands separators"
    doubt = ", if 1,200 is 1200 (otherwise --decimal ,)" if doubtful and not comma else ""
    advice = f"; write them with points, or use {written(options)}{doubt}"
    text = f"column {name!r} has numbers with {kind}, such as {first!r}"
    return Problem("numbers", text, (name,), advice, options, code)


def convention_options(levels: Levels, comma: bool) -> tuple[Option, ...]:
    """Return the options that say how numbers are written; none if they are written with points."""
    convention, _, doubtful = best_convention(_numbers(levels))
    if doubtful and comma:
        convention = Convention(",")
    found = (("--decimal", convention.decimal, "."), ("--thousands", convention.thousands, ""))
    return tuple(Option(name, value) for name, value, usual in found if value != usual)


def _marks(levels: Levels, name: str) -> Problem:
    """Return the problem of a few texts among numbers."""
    odd = [text for text in levels if not is_number(text)]
    text = f"column {name!r} is mostly numbers, but row {levels[odd[0]][1]} has {cut(odd[0])}"
    if len(odd) > 1:
        text += f", and other rows have {listed(odd[1:])}"
    marks, code = ",".join(odd), f"read_table(path, reading=Reading(missing_values={odd!r}))"
    advice = "; if that means a missing value, leave the cell empty"
    if len(odd) > FEW_MARKS:
        dropped = f"X.drop(columns={name!r})"
        return Problem("mixed", text, (name,), f"{advice}, or leave the column out", (Option("--drop", name),), dropped)
    return Problem("mixed", text, (name,), f"{advice}, or use --missing-values {marks!r}", _missing(odd), code)


def _missing(marks: list[str]) -> tuple[Option, ...]:
    return tuple(Option("--missing-values", mark) for mark in marks)


def _names(levels: Levels, name: str, n: int) -> Problem:
    """Return the problem of texts that are nearly all different."""
    first = next(iter(levels))
    text = f"column {name!r} has {len(levels)} different texts in {n} rows, such as {cut(first)}"
    text += ": these are names, not categories"
    advice = f". Leave the column out (--drop {name}), or use it as row names (--id {name})"
    option = Option("--id" if len(levels) == n else "--drop", name)
    return Problem("names", text, (name,), advice, (option,), f"X.drop(columns={name!r})")


def written(options: tuple[Option, ...]) -> str:
    """Return options as they are written in a command, without quotes."""
    return " ".join(f"{option.name} {option.value}" for option in options)
