"""The explorer: from a table to a page on this machine."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from ..assess.surface import sample_rows
from ..explore import Session, Table
from ..explore.server import check_installed, listening, serve
from ..progress import rest
from ..tables import USUAL, row_names
from .columns import Columns
from .console import Output
from .reading_options import Given
from .remedies import diagnosed
from .training import several_files, training_table


def explore(
    data: Path,
    columns: Columns,
    *,
    engine: str,
    kernel: str | None,
    likelihood: str,
    given: Given,
    most: int,
    port: int,
    browser: bool,
    seed: int,
    out: Output,
) -> None:
    """Serve the explorer of a table until Ctrl-C. Options are those of the command."""
    check_installed()
    table = diagnosed(lambda some: table_of(data, some, most, seed), columns, given)
    rest()  # the page has its own progress
    session = Session(table, seed)
    first = session.first(kernel, engine, likelihood)
    with listening(port) as bound:
        serve(session, first, bound, lambda address: _ready(address, table, browser, out))
    print("stopped", flush=True)


def table_of(data: Path, columns: Columns, most: int, seed: int) -> Table:
    """Return the table of a file, a folder or a pattern of files: at most `most` rows, in the proportions of the classes."""
    X, y = training_table(data, columns)
    rows = sample_rows(np.unique(y, return_inverse=True)[1], most, seed)
    total = len(y) if len(rows) < len(y) else 0
    X, y = X.iloc[rows], y[rows]
    if len(np.unique(y)) < 2:
        raise ValueError(f"{most} rows have only one class: raise --rows")
    encoder = columns.encoder()
    inputs = encoder.fit_transform(X)
    names = [str(name) for name in row_names(X)]
    code = "" if several_files(data) or columns.changes_labels else _code(data, columns, total, len(rows))
    encoded = bool(columns.dates or columns.units)  # by the code, before the classifier
    missing = None if encoded else columns.impute
    return Table(inputs, y, list(encoder.get_feature_names_out()), names, data.name, code, missing, total)


def _code(data: Path, columns: Columns, total: int, used: int) -> str:
    """Return the Python code that reads the table as this command does."""
    left_out, needed, reading = list(columns.no_inputs), ["read_table", "split_target"], ""
    if columns.reading != USUAL:
        needed.append("Reading")
        changed = {name: value for name, value in asdict(columns.reading).items() if value != asdict(USUAL)[name]}
        reading = f", reading=Reading({', '.join(f'{name}={value!r}' for name, value in changed.items())})"
    frame = f"read_table({str(data)!r}, target={columns.target!r}{reading})"
    frame += f".drop(columns={left_out!r})" if left_out else ""
    code = [f"X, y = split_target({frame}, {columns.target!r})"]
    if columns.dates or columns.units:
        needed.append("TableEncoder")
        made = columns.encoder().set_params(target=None, id=None)
        code.append(f"X = {made!r}.fit_transform(X)")
    lines = [f"from gpclass.tables import {', '.join(sorted(needed))}", "", *code]
    if total:
        lines.append(f"# the page shows {used} of these {total} rows: figures of all rows differ")
    return "\n".join(lines)


def _ready(address: str, table: Table, browser: bool, out: Output) -> None:
    print(address, flush=True)
    if table.total:
        out.remark(f"a sample of {len(table.y)} of {table.total} rows is shown; --rows changes the number")
    out.remark("only this machine can open the address; Ctrl-C ends the explorer")
    if browser:
        import webbrowser

        webbrowser.open(address)
