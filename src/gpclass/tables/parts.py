"""Parts of a table: some consecutive rows, and sums over all parts.

    total(function, *arguments)  =  Σ function(part, *arguments)

Results do not grow with the number of rows, and do not depend on how the rows are divided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from .problems import Problem, TableError

Total = Callable[..., Any]


class Part(NamedTuple):
    """Some consecutive rows of a table."""

    frame: pd.DataFrame
    name: str = ""  # for messages; empty if the part is the whole table

    def row(self, place: int) -> str:
        """Return the name of a row, for messages."""
        return f"{self.frame.index[place]}{f' of {self.name}' if self.name else ''}"

    def columns(self, names: Sequence[str]) -> list[pd.Series]:
        """Return the columns with these names."""
        place = {str(name): j for j, name in enumerate(self.frame.columns)}
        return [self.frame.iloc[:, place[name]] for name in names]

    def problems_of(self, error: TableError) -> tuple[Problem, ...]:
        """Return the problems of an error, with the name of the part."""
        return tuple((error.about(self.name) if self.name else error).problems)


def alone(part: Part) -> Total:
    """Return the function `total` of a table that is one part."""
    return lambda function, *arguments: function(part, *arguments)


@dataclass(frozen=True)
class Each:
    """Results for several columns, which are added column by column."""

    results: tuple[Any, ...]

    def __add__(self, other: Each) -> Each:
        return Each(tuple(a + b for a, b in zip(self.results, other.results, strict=True)))
