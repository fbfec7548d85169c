"""`Reading`: how a text file is read."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, fields

from .numerals import GROUPS, Convention
from .problems import TableError

TAB = {"tab": "\t", "\\t": "\t", "space": " "}


@dataclass(frozen=True)
class Reading:
    """How a text file is read.

    Parameters
    ----------
    sep : str, optional
        The character between cells; "tab" is a tab. By default it is found in the header.
    decimal : {".", ","}, default="."
        The character before decimals.
    thousands : {"", ",", ".", " ", "'"}, default=""
        The character between groups of three digits. By default there is none.
    encoding : str, optional
        Name of the encoding, such as "cp1252". By default UTF-8, or UTF-16 if the file has its byte order mark.
    missing_values : sequence of str, default=()
        Texts of cells that are missing, besides empty cells and NA, NaN, N/A, null and None.
    header : bool, default=True
        Whether the first line has the names of the columns. Otherwise they are called 1, 2, …
    rename_duplicates : bool, default=False
        Whether columns of the same name are numbered: "a" and "a (2)". By default they are an error.
    skip_ragged : bool, default=False
        Whether rows with more cells than the header are left out. By default they are an error.
    skip_lines : int, default=0
        Number of lines before the header, such as titles or comments.
    """

    sep: str | None = None
    decimal: str = "."
    thousands: str = ""
    encoding: str | None = None
    missing_values: Sequence[str] = ()
    header: bool = True
    rename_duplicates: bool = False
    skip_ragged: bool = False
    skip_lines: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "sep", TAB.get(self.sep or "", self.sep))
        object.__setattr__(self, "missing_values", tuple(self.missing_values))
        if self.sep is not None and (len(self.sep) != 1 or self.sep in '"\r\n'):
            raise TableError(f"the separator must be one character, or tab; got {self.sep!r}")
        if self.decimal not in (".", ","):
            raise TableError(f"decimal must be a point or a comma; got {self.decimal!r}")
        if self.thousands and self.thousands not in GROUPS:
            raise TableError(f"thousands must be one of {' '.join(map(repr, GROUPS))}; got {self.thousands!r}")
        if self.thousands == self.decimal:
            raise TableError(f"{self.decimal!r} cannot be both the decimal and the thousands separator")
        if self.skip_lines < 0:
            raise TableError(f"skip_lines must not be negative; got {self.skip_lines}")
        try:
            codecs.lookup(self.encoding or "utf-8")
        except LookupError:
            usual = "usual ones are utf-8, cp1252, latin-1 and utf-16"
            raise TableError(f"there is no encoding {self.encoding!r}; {usual}") from None

    @property
    def convention(self) -> Convention:
        """How numbers are written."""
        return Convention(self.decimal, self.thousands)

    @property
    def is_usual(self) -> bool:
        """Whether all settings have their defaults."""
        return all(getattr(self, f.name) == f.default for f in fields(self))


USUAL = Reading()
