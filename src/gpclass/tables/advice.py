"""Advice on cells that are not read as numbers: the options that read them, or how to write them."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from .numerals import COMMA, GROUPS, PLAIN, Convention, best_convention, measure, plain
from .problems import Option
from .words import FEW_MARKS

BOTH = "; if 1,200 is 1200, use --thousands ,, and if it is 1.2, use --decimal ,"


class Advice(NamedTuple):
    """What can be done, as the end of a sentence, as options, and as Python code for a file and for a data frame X."""

    text: str
    options: tuple[Option, ...] = ()
    python: str = ""
    frame: str = ""


def options_of(convention: Convention) -> tuple[Option, ...]:
    """Return the options that say how numbers are written; none if they are written with points."""
    found = (("--decimal", convention.decimal, "."), ("--thousands", convention.thousands, ""))
    return tuple(Option(name, value) for name, value, usual in found if value != usual)


def on_writing(convention: Convention, name: str) -> Advice:
    """Return advice on a column of numbers in a convention: to write them otherwise, or to use options."""
    options = options_of(convention)
    ways = {"--decimal": "with points", "--thousands": "without separators"}
    how = " and ".join(ways[option.name] for option in options)
    code = f"read_table(path, reading=Reading({', '.join(f'{o.name[2:]}={o.value!r}' for o in options)}))"
    frame = f"{with_points(convention, name)}.astype(float)"
    return Advice(f"; write them {how}, or use {written(options)}", options, code, frame)


def with_points(convention: Convention, name: str) -> str:
    """Return Python code for the texts of a column of a data frame X with points before decimals, without separators."""
    code, (decimal, thousands) = f"X[{name!r}]", convention
    code += f".str.replace({GROUPS[thousands]!r}, '', regex=True)" if thousands else ""
    return code if decimal == "." else f"{code}.str.replace({decimal!r}, '.')"


class Writing(NamedTuple):
    """How the numbers of a column are written, and whether another way is possible."""

    convention: Convention
    doubtful: bool = False

    def advice(self, name: str) -> Advice:
        """Return advice on a column for the first of two ways that are possible."""
        found = on_writing(self.convention, name)
        if not self.doubtful:
            return found
        text = f"{found.text}, if 1,200 is 1200 (otherwise --decimal ,)"
        return found._replace(text=text, frame=f"{found.frame}  # if 1,200 is 1200")

    def later_advice(self, name: str, texts: int) -> Advice:
        """Return advice on a column of a table to predict, which has this number of such texts.

        For a single text with two readings there is no option: the wrong reading would not be noticed.
        """
        return Advice(BOTH) if self.doubtful and texts == 1 else self.advice(name)


def writing_of(numbers: Mapping[str, int], comma: bool) -> Writing:
    """Return how numbers, each of which has a number of cells, are written; with `comma`, others have decimal commas."""
    convention, _, doubtful = best_convention(numbers)
    return Writing(COMMA) if doubtful and comma else Writing(convention, doubtful)


def odd_writing(cells: Mapping[str, int], comma: bool) -> Writing | None:
    """Return how most cells are written, or None if most of them are no numbers, or written with points."""
    found = writing_of(cells, comma)
    return None if found.convention == PLAIN or best_convention(cells)[1] <= 0.5 else found


def on_odd_cells(odd: Collection[str], name: str) -> Advice:
    """Return advice on cells of a column of numbers that are no numbers.

    A few may be marks of missing values. More, most of which have digits, are values that are written in another way:
    neither they nor the column are offered to be left out.
    """
    code = f"read_table(path, reading=Reading(missing_values={list(odd)!r}))"
    negative = next((text for text in odd if as_number(text) is not None), None)
    if negative is not None:
        return Advice(f"; write numbers with a point and a hyphen: {as_number(negative)} for {negative!r}")
    with_digits = sum(any(map(str.isdigit, text)) for text in odd)
    if len(odd) > FEW_MARKS and with_digits > len(odd) / 2:
        return Advice("; write them as numbers, or leave cells empty whose values are missing")
    empty = "; if that means a missing value, leave the cell empty"
    if len(odd) > FEW_MARKS:
        dropped = f"X.drop(columns={name!r})"
        return Advice(f"{empty}, or leave the column out", (Option("--drop", name),), dropped)
    frame = f"X.replace({{{name!r}: {list(odd)!r}}}, numpy.nan)"
    return Advice(f"{empty}, or use --missing-values {','.join(odd)!r}", marks(odd), code, frame)


def marks(cells: Iterable[str]) -> tuple[Option, ...]:
    """Return the options that make cells missing values."""
    return tuple(Option("--missing-values", cell) for cell in cells)


def as_number(text: str) -> str | None:
    """Return a number as `float` accepts it, whatever its convention, or None if a text is no number, or has a unit."""
    found = measure(text)
    if found is None or found.unit:
        return None
    convention, share, _ = best_convention({found.number: 1})
    return plain(found.number, convention) if share else None


def written(options: Iterable[Option]) -> str:
    """Return options as they are typed in a shell."""
    return " ".join(f"{option.name} {shell_word(option.value)}" for option in options)


def shell_word(word: str) -> str:
    """Return a word as it is typed in a shell, in the quotes that are easiest to read."""
    return f'"{word}"' if "'" in word and not set(word) & set('"$`\\!') else shlex.quote(word)
