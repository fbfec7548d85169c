"""The beginning of a text file: files of other formats, lines before the header, and row names without a name."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from .layout import ALL_SEPARATORS, SOME, FileRemark, records, regular_columns
from .problems import Option, Problem, TableError
from .words import cut, is_number

FORMATS = {  # by their first bytes
    b"PK\x03\x04": "an Excel file or another zip archive; save the sheet as CSV, or unpack the archive",
    b"\xd0\xcf\x11\xe0": "an Excel file; save the sheet as CSV",
    b"PAR1": "a Parquet file; give its name the extension .parquet",
    b"\x1f\x8b": "a compressed file; give its name the extension .csv.gz",
    b"%PDF": "a PDF document; save the table as CSV",
    b"SQLite format 3": "an SQLite database; export the table as CSV",
}
WEB_PAGE = re.compile(rb"\s*<(!doctype html|html)", re.IGNORECASE)
JSON = re.compile(rb'\s*(\[\s*)?\{\s*"')
HEAD = 1 << 20  # characters in which the first rows are looked for
LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")


def refuse_other_formats(content: bytes, path: Path) -> None:
    """Raise a TableError if the first bytes of a file are those of a format that is not text."""
    found = next((name for start, name in FORMATS.items() if content.startswith(start)), None)
    if found is None and WEB_PAGE.match(content):
        found = "a web page, not a table; download the file itself"
    if found is None and JSON.match(content):
        found = "a JSON document; save the table as CSV"
    if found is not None:
        raise TableError(f"{path} is {found}")


def without_lines(content: str, count: int) -> str:
    """Return a text without its first lines."""
    start = 0
    for _ in range(count):
        start = LINE.match(content, start).end()  # type: ignore[union-attr]  # matches every text
    return content[start:]


def _head(content: str) -> str:
    """Return the first lines of a text: readers of rows copy what they are given."""
    if len(content) <= HEAD:
        return content
    end = max(content.rfind("\n", 0, HEAD), content.rfind("\r", 0, HEAD)) + 1
    return content[: end or None]


def lines_before_header(content: str, given: str | None, path: Path) -> Problem | None:
    """Return the problem of titles or comments before the header, or None.

    Such lines have at most half as many cells as the rows below them, and no cell of the header below them is a number.

    Parameters
    ----------
    content : str
        The text of the file.
    given : str or None
        The separator, if the user has given one.
    path : Path
        The file, for the message.
    """
    separators, content = ALL_SEPARATORS if given is None else given, _head(content)
    if any(regular_columns(content, s) > 1 for s in separators):
        return None
    beginnings = list(islice((m.group() for m in LINE.finditer(content)), SOME))
    for count in range(1, len(beginnings)):
        if not beginnings[count].strip():
            continue
        below = without_lines(content, count)
        widths = {s: n for s in separators if (n := regular_columns(below, s)) > 1}
        if not widths:
            continue
        separator = max(widths, key=lambda s: widths[s])
        header = [cell.strip('" ') for cell in beginnings[count].strip("\r\n").split(separator)]
        fewer = all(line.count(separator) < max(1, widths[separator] // 2) for line in beginnings[:count])
        return _before(count, beginnings[0], path) if fewer and _are_names(header) else None
    return None


def _are_names(cells: Sequence[str]) -> bool:
    return all(cells) and len(set(cells)) == len(cells) and not any(map(is_number, cells))


def _before(count: int, first: str, path: Path) -> Problem:
    lines = "line" if count == 1 else f"{count} lines"
    text = f"the first {lines} of {path} {'is' if count == 1 else 'are'} not part of the table: {cut(first.strip())}"
    code = f"read_table(path, reading=Reading(skip_lines={count}))"
    advice = f"; remove {'it' if count == 1 else 'them'}, or use --skip-lines {count}"
    return Problem("beginning", text, (), advice, (Option("--skip-lines", str(count)),), code)


def with_first_name(content: str, separator: str, path: Path) -> str:
    """Return the text with an empty name before the header, if the first column is row names without a name.

    R's `write.table` writes such files: all rows have one cell more than the header, and their first cells are numbers from
    1 or different texts.
    """
    content = content.lstrip("\r\n")
    header, *rows = (cells for _, cells in islice(records(_head(content), separator), SOME + 1))
    names = [cells[0].strip() for cells in rows]
    longer = all(len(cells) == len(header) + 1 for cells in rows) and any(cells[-1].strip() for cells in rows)
    counted = names == [str(k + 1) for k in range(len(names))]
    texts = len(set(names)) == len(names) > 1 and not any(is_number(name) for name in names)
    if not (longer and (counted or texts) and _are_names([cell.strip() for cell in header])):
        return content
    warnings.warn(
        f"the rows of {path} have one cell more than the header, as those of R: the first column is read as row names",
        FileRemark,
        stacklevel=4,
    )
    return separator + content
