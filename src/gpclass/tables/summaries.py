"""What an encoder learns of the columns of a table, from sums over its parts.

First `scanned` finds the kind of each column, then `contents` counts its cells, and `medians` finds exact medians.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from .columns import Column, kind_of
from .contents import Contents, contents
from .conversions import Declared
from .medians import medians
from .parts import Total
from .problems import Problem
from .scans import Scan
from .suspects import has_decimal_commas, problem_of_texts, rows_of


def learned_columns(
    total: Total,
    scan: Scan,
    indicators: bool,
    names: Sequence[str],
    declared: Mapping[str, Declared],
) -> tuple[tuple[Column, ...], list[Problem]]:
    """Return the descriptions of the columns of a table, and the problems of those that cannot be inputs.

    Parameters
    ----------
    total : callable
        `total(function, *arguments)` returns the sum of function(part, *arguments) over all parts, in their order.
    scan : Scan
        total(scanned).
    indicators : bool
        Whether columns with empty cells get an indicator.
    names : sequence of str
        The columns to describe.
    declared : mapping of str to Declared
        The forms of dates and of numbers with units, which are plain numbers in the parts.

    Returns
    -------
    tuple of Column, list of Problem
        The former is empty if there are problems.
    """
    which = [j for j, name in enumerate(scan.names) if name in names]
    names = tuple(scan.names[j] for j in which)
    kinds = tuple(kind_of(scan.columns[j]) for j in which)
    found: tuple[Contents, ...] = total(contents, names, kinds).results
    problems = _problems(names, kinds, found)
    if problems:
        return (), problems
    middle = medians(total, {name: cells for name, kind, cells in zip(names, kinds, found, strict=True) if kind == "number"})
    columns = []
    for name, kind, cells, empty in zip(names, kinds, found, scan.empty[which], strict=True):
        column = _column(name, kind, cells, middle.get(name, 0.0))
        if name in declared:
            form = declared[name]
            column = replace(column, kind=form.kind, unit=form.unit, form=form.form, clock=form.clock)
            column = replace(column, first=cells.low) if form.kind == "date" else column
        columns.append(replace(column, indicator=indicators and bool(empty)))
    return tuple(columns), []


def _problems(names: Sequence[str], kinds: Sequence[str], found: Sequence[Contents]) -> list[Problem]:
    """Return the problems of columns, given the counts of their cells."""
    texts = {name: cells.levels for name, kind, cells in zip(names, kinds, found, strict=True) if kind == "category"}
    comma = any(has_decimal_commas(rows_of(levels)) for levels in texts.values() if levels)
    problems: list[Problem] = []
    for name, cells in zip(names, found, strict=True):
        problems += cells.problems
        if not cells.problems and texts.get(name):
            suspect = problem_of_texts(texts[name], name, comma)
            problems += [] if suspect is None else [suspect]
    return problems


def _column(name: str, kind: str, cells: Contents, median: float) -> Column:
    if kind == "category":
        levels = sorted(cells.levels)
        counts = [cells.levels[level].rows for level in levels]
        return Column(name, kind, tuple(levels), fill=levels[int(np.argmax(counts))])
    median = float(cells.true / cells.count >= 0.5) if kind == "boolean" else median
    return Column(name, kind, fill=median, median=median)
