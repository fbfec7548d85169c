"""Numbers as people write them: decimal commas, thousands separators and units."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

GROUPS = {",": ",", ".": r"\.", " ": "[ \u00a0\u2009\u202f]", "'": "['’]"}  # thousands separators, as they are written
MINUS = "\u2212"
SIGNS, CODES = r"US\$|[$€£¥₹]", "USD|EUR|GBP|CHF|JPY"
CURRENCY = rf"(?:{SIGNS}|(?:{CODES})(?= ))"
ACCOUNTED = re.compile(rf"(?:{SIGNS}|{CODES}|%)?")  # units of numbers that are negative in parentheses
FIRST, MORE = "A-Za-zÀ-ɏµμΩ°%‰€$£¥₹″′\"'", "0-9²³⁻¹/·*^()\\-. "  # characters of units
WITH_UNIT = re.compile(
    rf"(?P<sign>[-+{MINUS}]?)(?P<before>{CURRENCY})?\s*(?P<number>[-+{MINUS}]?[\d.,](?:[\d.,'’\s]*[\d.,])?)\s*"
    rf"(?P<after>[{FIRST}][{FIRST}{MORE}]{{0,15}})?"
)


class Convention(NamedTuple):
    """How numbers are written."""

    decimal: str = "."
    thousands: str = ""


PLAIN = Convention()
COMMA = Convention(",")
# decimal and thousands separators in the order in which they are preferred
CONVENTIONS = (PLAIN, COMMA, *(Convention(d, t) for t in GROUPS for d in ".," if d != t))


@lru_cache
def _pattern(convention: Convention) -> re.Pattern[str]:
    point = re.escape(convention.decimal)
    whole = rf"(?:[1-9]\d{{,2}}(?:{GROUPS[convention.thousands]}\d{{3}})+|\d+)" if convention.thousands else r"\d+"
    return re.compile(rf"[-+{MINUS}]?(?:{whole}(?:{point}\d*)?|{point}\d+)(?:[eE][-+]?\d+)?")


def is_written(text: str, convention: Convention) -> bool:
    """Return whether a text is a number in a convention."""
    return bool(_pattern(convention).fullmatch(text.strip()))


def plain(text: str, convention: Convention) -> str:
    """Return a number in a convention as `float` accepts it."""
    text = text.strip().replace(MINUS, "-")
    if convention.thousands:
        text = re.sub(GROUPS[convention.thousands], "", text)
    return text.replace(convention.decimal, ".")


class Measure(NamedTuple):
    """A number with a unit, as text."""

    number: str
    unit: str  # empty if there is none

    def written(self) -> str:
        """Return the number and its unit."""
        return f"{self.number} {self.unit}".strip()


def measure(text: str) -> Measure | None:
    """Return the number and the unit of a text such as "13.89 cm" or "$1,200", or None if it is no number.

    Amounts in parentheses, such as "($5)", are negative.
    """
    text = text.strip()
    if in_parentheses(text):
        inner = measure(text[1:-1])
        signed = inner is None or inner.number[0] in f"+-{MINUS}" or not ACCOUNTED.fullmatch(inner.unit)
        return None if signed or inner is None else Measure(f"-{inner.number}", inner.unit)
    if is_written(text, PLAIN):  # 1e5 has no unit
        return Measure(text, "")
    found = WITH_UNIT.fullmatch(text)
    if found is None or (found["before"] and found["after"]) or (found["sign"] and found["number"][0] in f"+-{MINUS}"):
        return None
    unit = " ".join((found["before"] or found["after"] or "").split())
    return Measure(found["sign"] + found["number"].strip(), unit)


def in_parentheses(text: str) -> bool:
    """Return whether a text is in parentheses."""
    return text.startswith("(") and text.endswith(")")


def best_convention(numbers: Mapping[str, int]) -> tuple[Convention, float, bool]:
    """Return the convention in which most cells are numbers, their share, and whether another one fits as well.

    Parameters
    ----------
    numbers : mapping of str to int
        Texts, and the number of cells of each.

    Returns
    -------
    Convention, float, bool
        "1,200" may be 1200 or 1.2: if all cells are of this form, the comma is a thousands separator, and the last is True.
    """
    total = sum(numbers.values())
    counts = {c: sum(n for text, n in numbers.items() if is_written(text, c)) for c in CONVENTIONS}
    best = max(CONVENTIONS, key=lambda c: counts[c])  # the first of equal ones
    both = Convention(".", ",")
    doubtful = best == COMMA and counts[both] == counts[COMMA]
    return (both if doubtful else best), counts[best] / total, doubtful


def usual_unit(texts: Mapping[str, int]) -> tuple[str, float]:
    """Return the most frequent unit of texts, which have numbers of cells, and its share among the cells."""
    counts: dict[str, int] = {}
    for text, n in texts.items():
        found = measure(text)
        if found is not None and found.unit:
            counts[found.unit] = counts.get(found.unit, 0) + n
    if not counts:
        return "", 0.0
    unit = max(counts, key=lambda name: counts[name])
    return unit, counts[unit] / sum(texts.values())


def canonical(cells: Iterable[object], convention: Convention, with_units_only: bool = False) -> list[object] | None:
    """Return cells whose numbers are written with a point.

    The result is None if at most half of the texts are numbers in the convention. With `with_units_only`, cells without a
    unit are not changed. Numbers in parentheses are negative, but do not count: if most texts are such, they may be pairs.
    """
    new: list[object] = []
    known = total = 0
    for cell in cells:
        new.append(cell)
        if not isinstance(cell, str):
            continue
        total += 1
        found = measure(cell)
        if found is None or not is_written(found.number, convention) or (with_units_only and not found.unit):
            continue
        known += bool(found.unit) or not in_parentheses(cell.strip())
        new[-1] = Measure(plain(found.number, convention), found.unit).written()
    return new if known > total / 2 else None
