"""Problems of tables, each with its remedies, and the error that lists them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from .words import listed

TOGETHER = 4  # this many problems of one kind are reported as one


class Option(NamedTuple):
    """An option of the command line, such as --drop name. Flags have no value."""

    name: str
    value: str = ""
    instead: str = ""  # the value that this one replaces, such as a misspelt name


@dataclass(frozen=True)
class Problem:
    """A reason why a table cannot be used.

    Attributes
    ----------
    kind : str
        What is wrong, in one word, such as "dates", "empty" or "encoding".
    text : str
        What is wrong: the column, and an example with its row.
    columns : tuple of str
        The columns; empty if the problem is one of the whole file.
    advice : str
        What can be done, as the end of a sentence.
    options : tuple of Option
        Options of the command line that solve the problem; empty if none does.
    python : str
        Python code that solves the problem.
    frame : str
        Python code that solves the problem in a data frame X, if that of a file is another.
    """

    kind: str
    text: str
    columns: tuple[str, ...] = ()
    advice: str = ""
    options: tuple[Option, ...] = ()
    python: str = ""
    frame: str = ""

    @property
    def column(self) -> str | None:
        """The first of the columns, or None."""
        return self.columns[0] if self.columns else None

    @property
    def message(self) -> str:
        """The text with the advice."""
        return self.text + self.advice


class TableError(ValueError):
    """A table or a table file cannot be used; the message says where and what to do.

    Attributes
    ----------
    problems : list of Problem
        All problems that were found. Problems of one kind in many columns are one.
    """

    def __init__(self, message: str, problems: Sequence[Problem] | None = None) -> None:
        super().__init__(message)
        self.problems = [Problem("other", message)] if problems is None else list(problems)

    @staticmethod
    def of(*problems: Problem) -> TableError:
        """Return the error about some problems. One problem is one sentence, several are a list."""
        found = grouped(problems)
        if len(found) == 1:
            return TableError(found[0].message, found)
        lines = (f"  - {p.text}{f'; use {p.python}' if p.python else p.advice}" for p in found)
        return TableError("\n".join([f"the table has {len(found)} problems:", *lines]), found)

    def in_frame(self) -> TableError:
        """Return this error with advice for a data frame X, which may come from no file."""
        if not any(problem.frame for problem in self.problems):
            return self
        return TableError.of(*(_advised(p, f"; correct the cells, or use {p.frame}") for p in self.problems))

    def about(self, where: str) -> TableError:
        """Return this error with the name of a file or a part before each message."""
        if len(self.problems) == 1:
            return TableError(f"{where}: {self}", [replace(p, text=f"{where}: {p.text}") for p in self.problems])
        return TableError.of(*(replace(p, text=f"{where}: {p.text}") for p in self.problems))


def _advised(problem: Problem, advice: str) -> Problem:
    """Return a problem with advice for a data frame, if it has some."""
    return replace(problem, advice=advice, python=problem.frame) if problem.frame else problem


def grouped(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems without repetition, where many of one kind are one problem."""
    by_kind: dict[str, list[Problem]] = {}
    for problem in dict.fromkeys(problems):
        by_kind.setdefault(problem.kind, []).append(problem)
    found: list[Problem] = []
    for kind, some in by_kind.items():
        found += some if len(some) < TOGETHER or kind == "other" else [_together(some)]
    return found


def _together(problems: Sequence[Problem]) -> Problem:
    columns = tuple(dict.fromkeys(name for p in problems for name in p.columns))
    options = tuple(dict.fromkeys(option for p in problems for option in p.options))
    several, kind = len(problems), f"{len(columns)} columns have the same problem: {listed(columns)}"
    if len(columns) < several:
        kind = f"{several} problems are of one kind" + (f", in {listed(columns)}" if columns else "")
    text = f"{kind}. The first: {problems[0].text}"
    return replace(problems[0], text=text, columns=columns, options=options)


@dataclass
class Findings:
    """Problems that are collected, and then reported by one error."""

    problems: list[Problem] = field(default_factory=list)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Collect the problems of a TableError that is raised in the block."""
        try:
            yield
        except TableError as error:
            self.problems += error.problems

    def add(self, *problems: Problem) -> None:
        """Add problems."""
        self.problems += problems

    def report(self) -> None:
        """Raise a TableError if there are problems."""
        if self.problems:
            raise TableError.of(*self.problems)
