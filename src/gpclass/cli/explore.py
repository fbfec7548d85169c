"""The explorer: from a table to a page on this machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..assess.surface import sample_rows
from ..explore import Session, Table
from ..explore.server import check_installed, listening, serve
from ..tables import TableEncoder, row_names
from .console import Output
from .training import Columns, several_files, training_table


def explore(
    data: Path,
    columns: Columns,
    *,
    engine: str,
    kernel: str | None,
    likelihood: str,
    impute: str | None,
    most: int,
    port: int,
    browser: bool,
    seed: int,
    out: Output,
) -> None:
    """Serve the explorer of a table until Ctrl-C. Options are those of the command."""
    check_installed()
    table = table_of(data, columns, impute, most, seed)
    session = Session(table, seed)
    first = session.first(kernel, engine, likelihood)
    with listening(port) as bound:
        serve(session, first, bound, lambda address: _ready(address, table, browser, out))
    print("stopped", flush=True)


def table_of(data: Path, columns: Columns, impute: str | None, most: int, seed: int) -> Table:
    """Return the table of a file, a folder or a pattern of files: at most `most` rows, in the proportions of the classes."""
    X, y = training_table(data, columns)
    rows = sample_rows(np.unique(y, return_inverse=True)[1], most, seed)
    total = len(y) if len(rows) < len(y) else 0
    X, y = X.iloc[rows], y[rows]
    if len(np.unique(y)) < 2:
        raise ValueError(f"{most} rows have only one class: raise --rows")
    encoder = TableEncoder(impute=impute, target=columns.target, id=columns.id)
    inputs = encoder.fit_transform(X)
    names = [str(name) for name in row_names(X)]
    code = "" if several_files(data) else _code(data, columns, total, len(rows))
    title = data.name
    return Table(inputs, y, list(encoder.get_feature_names_out()), names, title, code, impute, total)


def _code(data: Path, columns: Columns, total: int, used: int) -> str:
    """Return the Python code that reads the table as this command does."""
    left_out = [*columns.drop, *([] if columns.id is None else [columns.id])]
    frame = f"read_table({str(data)!r}, target={columns.target!r})"
    frame += f".drop(columns={left_out!r})" if left_out else ""
    lines = ["from gpclass.tables import read_table, split_target", "", f"X, y = split_target({frame}, {columns.target!r})"]
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
