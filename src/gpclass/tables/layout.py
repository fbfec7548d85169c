"""The layout of a text file: its encoding, its separator and the names of its columns."""

from __future__ import annotations

import codecs
import csv
import io
import warnings
from collections.abc import Iterator, Sequence
from itertools import count, islice, pairwise
from pathlib import Path

from .guards import unguarded
from .problems import Option, Problem, TableError
from .settings import Reading
from .words import cut, is_number

SEPARATORS = {".csv": ",;\t", ".tsv": "\t", ".tab": "\t", ".txt": "\t,;"}  # usual ones, the first is the default
ALL_SEPARATORS = ",;\t|"
UNUSUAL = " :"  # suggested, but used on request only
MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
SOME = 20  # rows that are compared with the header
UNNAMED = "Unnamed: {}"  # as pandas calls columns without a name


class FileRemark(UserWarning):
    """A property of a file was detected, and is used although no option says so."""


# encoding -----------------------------------------------------------------------------------------------------------------


def decoded(content: bytes, encoding: str | None, path: Path) -> str:
    """Return the text of a file, or raise a TableError with the encoding that it probably has."""
    mark = next((name for start, name in MARKS.items() if content.startswith(start)), None)
    if encoding is None and mark == "utf-16":
        remark = f"{path} has the byte order mark of UTF-16 and is read as UTF-16 (--encoding utf-16)"
        warnings.warn(remark, FileRemark, stacklevel=2)
    try:
        return content.decode(encoding or mark or "utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        if encoding is not None:
            text = f"{path} is not {encoding} text (byte {error.start})"
            raise TableError.of(Problem("encoding", text, advice="; use another --encoding")) from error
        raise TableError.of(_encoding_problem(content, error.start, path)) from error


def _encoding_problem(content: bytes, start: int, path: Path) -> Problem:
    probable = probable_encoding(content)
    line = content.decode(probable, "replace").splitlines()
    place = content[:start].decode(probable, "replace").count("\n")
    cell = next((c for c in _words(line[place]) if not c.isascii()), line[place]) if place < len(line) else ""
    text = f"{path} is not UTF-8 text (byte {start})"
    text += f"; in {probable}, {f'row {place}' if place else 'the header'} has {cut(cell)}"
    advice = f"; save it as UTF-8, or use --encoding {probable}"
    code = f"read_table(path, reading=Reading(encoding={probable!r}))"
    return Problem("encoding", text, (), advice, (Option("--encoding", probable),), code)


def _words(line: str) -> list[str]:
    for separator in ALL_SEPARATORS:
        line = line.replace(separator, "\n")
    return [cell.strip('" ') for cell in line.split("\n")]


def probable_encoding(content: bytes) -> str:
    """Return the encoding that bytes, which are not UTF-8, probably have."""
    zeros = content[:1000].count(0)
    if zeros > len(content[:1000]) / 4:
        return "utf-16-le" if content[1:1000:2].count(0) > zeros / 2 else "utf-16-be"
    try:
        content.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "cp1252"


# separator ----------------------------------------------------------------------------------------------------------------


def records(content: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of the header, whose number is 0, and of each row."""
    header = None
    for number, cells in enumerate(csv.reader(io.StringIO(content, newline=""), delimiter=separator, skipinitialspace=True)):
        if len(cells) > 1 or (cells and cells[0].strip()):
            header = number if header is None else header
            yield number - header, cells


def separator_of(content: str, kind: str, given: str | None, path: Path) -> str:
    """Return the separator of a text, given the extension of its file.

    It is the one of the usual separators that gives the most columns. Another one is used with a warning, if it is the only
    one that divides all rows into the same number of cells.
    """
    if given is not None:
        return given
    first = next((line for line in content.splitlines() if line.strip()), "")
    usual = SEPARATORS[kind]
    best = max(usual, key=first.count)
    regular = {s: n for s in ALL_SEPARATORS if (n := regular_columns(content, s)) > 1}
    if regular_columns(content, best) > 1 or (first.count(best) and not regular):
        rivals = [s for s, n in regular.items() if s != best and n >= regular.get(best, 0)]
        if rivals:
            raise TableError.of(_which_separator([best, *rivals], path))
        return best
    if len(regular) == 1 and not first.count(best):
        found = next(iter(regular))
        warnings.warn(f"{path} is read with the separator {found!r} (--sep {_named(found)})", FileRemark, stacklevel=3)
        return found
    if regular:
        raise TableError.of(_which_separator(sorted(regular, key=lambda s: -regular[s]), path))
    odd = [s for s in UNUSUAL if s in first and regular_columns(content, s) > 1]
    if odd and not first.count(best):
        raise TableError.of(_which_separator(odd, path))
    return best


def _named(separator: str) -> str:
    """Return a separator as an option has it."""
    return {"\t": "tab", " ": "space"}.get(separator, separator)


def _which_separator(able: Sequence[str], path: Path) -> Problem:
    shown = " or ".join(repr(s) for s in able)
    text = f"the columns of {path} seem to be separated by {shown}"
    value = _named(able[0])
    code = f"read_table(path, reading=Reading(sep={able[0]!r}))"
    return Problem("separator", text, (), f"; use --sep {value}", (Option("--sep", value),), code)


def regular_columns(content: str, separator: str) -> int:
    """Return the number of columns by a separator, if the first rows have as many cells as the header; otherwise 0."""
    try:
        rows = [cells for _, cells in islice(records(content, separator), SOME + 1)]
    except csv.Error:
        return 0
    sizes = {_size(cells) for cells in rows}
    return sizes.pop() if len(sizes) == 1 else 0


def _size(cells: list[str]) -> int:
    """Return the number of cells without empty ones at the end."""
    return next((k + 1 for k in reversed(range(len(cells))) if cells[k].strip()), 0)


# names --------------------------------------------------------------------------------------------------------------------


def names_of(cells: Sequence[str], reading: Reading, path: Path) -> list[str]:
    """Return the names of the columns, given the cells of the first line.

    Columns without a name are called "Unnamed: 0" by their place, as pandas does. Names that occur twice raise a TableError,
    unless they are numbered (`Reading.rename_duplicates`).
    """
    if not reading.header:
        return [str(j + 1) for j in range(len(cells))]
    names = unguarded([name.strip() for name in cells])
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice and not reading.rename_duplicates:
        raise TableError.of(_twice(twice, path))
    found: list[str] = []
    taken = {name for name in names if name}  # generated names differ from these
    for j, name in enumerate(names):
        wanted = name or UNNAMED.format(j)
        if name and name not in found:
            found.append(name)
        else:
            found.append(next(n for n in _numbered(wanted) if n not in taken and n not in found))
    return found


def _numbered(name: str) -> Iterator[str]:
    """Yield a name, and then "name (2)", "name (3)" and so on."""
    yield name
    yield from (f"{name} ({k})" for k in count(2))


def _twice(names: Sequence[str], path: Path) -> Problem:
    shown = ", ".join(map(repr, names))
    advice = f"; give each a different name, or number them, as in '{names[0]} (2)' (--rename-duplicates)"
    text = f"{path} has more than one column called {shown}"
    code = "read_table(path, reading=Reading(rename_duplicates=True))"
    return Problem("twice", text, tuple(names), advice, (Option("--rename-duplicates"),), code)


def looks_like_data(cells: Sequence[str]) -> bool:
    """Return whether the first line of a file has numbers where names should be.

    Whole numbers at equal distances, such as years, are names: some programs number columns in this way.
    """
    numbers = [float(cell.replace(",", ".")) for cell in cells if is_number(cell.replace(",", "."))]
    steps = {after - before for before, after in pairwise(numbers)}
    counted = len(steps) == 1 and steps.pop() > 0 and all(number.is_integer() for number in numbers)
    few = len(numbers) < len(cells) - (len(cells) > 2)  # a label may be text
    return len(cells) > 1 and not few and not counted


def no_header(path: Path, n: int) -> Problem:
    """Return the problem of a file without a header."""
    text = f"the first line of {path} has numbers where the names of columns should be"
    advice = f"; add a header, or use --no-header, which names the columns 1 to {n}"
    code = "read_table(path, reading=Reading(header=False))"
    return Problem("header", text, (), advice, (Option("--no-header"),), code)
