"""Exact medians of the columns of a divided table, by a few passes that count numbers in ever smaller intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .contents import Contents
from .parts import Each, Part, Total

BINS = 1 << 12  # intervals of a pass over the numbers of a column
FEW = 1 << 14  # numbers of an interval that are collected to find the median among them
SIGN = np.uint64(1 << 63)


class Span(NamedTuple):
    """Numbers of a column in an interval of keys, see `_keys`."""

    column: str
    low: int
    high: int  # the last one


@dataclass(frozen=True)
class Search:
    """Search for the number of a given rank among the numbers in a span."""

    span: Span
    rank: int
    count: int

    @property
    def going(self) -> bool:
        """Whether the span has too many different numbers to collect them."""
        return self.count > FEW and self.span.low < self.span.high

    def narrowed(self, counts: np.ndarray) -> Search:
        """Return the search in one of the intervals of the span, given how many numbers each has."""
        column, low, high = self.span
        below = np.cumsum(counts)
        b = int(np.searchsorted(below, self.rank, side="right"))
        start = low + b * _width(self.span)
        span = Span(column, start, min(start + _width(self.span) - 1, high))
        return Search(span, self.rank - int(below[b] - counts[b]), int(counts[b]))


def medians(total: Total, numbers: dict[str, Contents]) -> dict[str, float]:
    """Return the medians of columns of numbers, exactly as `numpy.median` does.

    Parameters
    ----------
    total : callable
        As in `learned_columns`.
    numbers : dict of str to Contents
        The contents of each column.

    Returns
    -------
    dict of str to float
    """
    searches = []
    for name, cells in numbers.items():
        low, high = _keys(np.array([cells.low, cells.high])).tolist()
        middle = sorted({(cells.count - 1) // 2, cells.count // 2})
        searches += [Search(Span(name, low, high), rank, cells.count) for rank in middle]
    while spans := _spans(search for search in searches if search.going):
        counts = dict(zip(spans, total(counted, spans).results, strict=True))
        searches = [search.narrowed(counts[search.span]) if search.going else search for search in searches]
    found: dict[str, list[float]] = {name: [] for name in numbers}
    spans = _spans(search for search in searches if search.span.low < search.span.high)
    values = dict(zip(spans, total(collected, spans).results, strict=True)) if spans else {}
    for search in searches:
        some = values.get(search.span)
        found[search.span.column].append(_number(search.span.low) if some is None else sorted(some)[search.rank])
    return {name: float(np.mean(middle)) for name, middle in found.items()}


def _spans(searches: Any) -> tuple[Span, ...]:
    return tuple(dict.fromkeys(search.span for search in searches))


def counted(part: Part, spans: Sequence[Span]) -> Each:
    """Return how many numbers of a part are in each of `BINS` equal intervals of each span."""
    return Each(tuple(_counts(keys, span) for keys, span in _within(part, spans)))


def _counts(keys: np.ndarray, span: Span) -> np.ndarray:
    return np.bincount(((keys - np.uint64(span.low)) // np.uint64(_width(span))).astype(np.int64), minlength=BINS)


def collected(part: Part, spans: Sequence[Span]) -> Each:
    """Return the numbers of a part in each span."""
    return Each(tuple([_number(key) for key in keys.tolist()] for keys, _ in _within(part, spans)))


def _within(part: Part, spans: Sequence[Span]) -> list[tuple[np.ndarray, Span]]:
    found = []
    for values, span in zip(part.columns([span.column for span in spans]), spans, strict=True):
        keys = _keys(values.dropna().to_numpy(dtype=float))
        found.append((keys[(keys >= np.uint64(span.low)) & (keys <= np.uint64(span.high))], span))
    return found


def _width(span: Span) -> int:
    return (span.high - span.low) // BINS + 1


def _keys(numbers: np.ndarray) -> np.ndarray:
    """Return integers in the order of the numbers, from their bits."""
    bits = (numbers + 0.0).view(np.uint64)  # -0.0 and 0.0 are equal
    return np.where(bits & SIGN, ~bits, bits | SIGN)


def _number(key: int) -> float:
    """Return the number that has this key."""
    bits = np.uint64(key)
    return float((bits ^ SIGN if bits & SIGN else ~bits).view(np.float64))
