"""Shell completion of names of engines, kernels, likelihoods, data sets and columns. No heavy module is imported."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import typer

from .names import ENGINES, KERNELS, LIKELIHOODS

BEGINNING = 1 << 16  # bytes of a file in which its header is looked for
TABLE = re.compile(r"\.(csv|tsv|tab|txt)(\.gz)?$")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*$")


def engine(incomplete: str) -> list[str]:
    """Return the engines whose names begin with a text."""
    return _beginning(incomplete, ("auto", *ENGINES))


def engines(incomplete: str) -> list[str]:
    """Return lists of engines: the last name is completed."""
    return _last_of_list(incomplete, ENGINES)


def likelihood(incomplete: str) -> list[str]:
    """Return the likelihoods whose names begin with a text."""
    return _beginning(incomplete, ("auto", *LIKELIHOODS))


def kernel(incomplete: str) -> list[str]:
    """Return kernel expressions: the last name is completed."""
    found = NAME.search(incomplete)
    begun = found.group() if found else ""
    return [incomplete[: len(incomplete) - len(begun)] + name for name in _beginning(begun, ("auto", *KERNELS))]


def column(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the columns of the table whose names begin with a text."""
    return _beginning(incomplete, header(_table(ctx)))


def columns(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return lists of columns of the table: the last name is completed."""
    return _last_of_list(incomplete, [name for name in header(_table(ctx)) if "," not in name])


def _table(ctx: typer.Context) -> Path | None:
    """Return the table of the command that is being typed."""
    if ctx.params.get("data"):
        return Path(str(ctx.params["data"]))
    # while the value of an option is missing, the arguments have not been parsed: the shell's line has them
    line = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
    paths = (Path(word.strip("'\"").replace("\\ ", " ")) for word in line.split())
    return next((path for path in paths if TABLE.search(path.name.lower()) and path.is_file()), None)


def header(path: Path | None) -> list[str]:
    """Return the names of the columns of a text file. Only its beginning is read; no names if that is not possible."""
    import csv
    import gzip

    if path is None:
        return []
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else open(path, "rb") as stream:
            beginning = stream.read(BEGINNING)
    except OSError:
        return []
    wide = beginning[:2] in (b"\xff\xfe", b"\xfe\xff")
    text = beginning.decode("utf-16" if wide else "utf-8-sig", "replace")
    first = next((line for line in text.splitlines() if line.strip()), "")
    if not first.isprintable() and "\t" not in first:
        return []  # a Parquet file
    separator = max(",;\t|", key=first.count)
    cells = next(csv.reader([first], delimiter=separator, skipinitialspace=True), [])
    return [cell.strip() for cell in cells if cell.strip()]


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.lower().startswith(incomplete.lower())]


def _last_of_list(incomplete: str, names: Iterable[str]) -> list[str]:
    before, comma, begun = incomplete.rpartition(",")
    taken = before.split(",")
    return [before + comma + name for name in _beginning(begun, names) if name not in taken]
