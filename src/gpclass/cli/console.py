"""Printing: results go to stdout, everything else to stderr; an error is one line and an exit code."""

from __future__ import annotations

import functools
import inspect
import json
import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..progress import Display, listening, rest, say
from ..progress.phases import current

BAD_INPUT, UNEXPECTED, INTERRUPTED = 2, 1, 130  # exit codes
QUIET = 0.7  # seconds of a command before it shows its progress
LONGEST = 300  # characters of a warning
OPTIONS = {"n_restarts": "--restarts"}  # the option of each setting of the estimator that warnings advise
EXIT_CODES = (
    "Exit codes: 0 success; 2 the command or its input is not valid, stderr says why; "
    "1 an unexpected error (set GPCLASS_DEBUG=1 for the traceback); 130 interrupted by Ctrl-C."
)


class Output:
    """Prints results and remarks according to the options --json and --quiet."""

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json, self.quiet = as_json, quiet

    def result(self, data: dict[str, Any], *shown: Any) -> None:
        """Print the results: `data` with --json, otherwise `shown`, unless --quiet is set."""
        rest()
        if self.as_json:
            print(json.dumps(plain(data), indent=2, ensure_ascii=False, allow_nan=False))
        elif not self.quiet:
            console = Console(highlight=False, soft_wrap=False, force_jupyter=False)  # also in a notebook to stdout
            for thing in shown:
                console.print(thing)

    def remark(self, text: str) -> None:
        """Print a line to stderr, unless --quiet is set."""
        if not self.quiet and not say(text):
            print(text, file=sys.stderr)


def plain(data: Any) -> Any:
    """Convert data to types that JSON supports; NaN and infinity become null."""
    if isinstance(data, dict):
        return {str(key): plain(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [plain(value) for value in data]
    if hasattr(data, "tolist"):  # NumPy arrays and scalars; NumPy is not imported here so that --help is fast
        return plain(data.tolist())
    if isinstance(data, float) and not math.isfinite(data):
        return None
    return data


def facts(pairs: Sequence[tuple[str, Any]]) -> Table:
    """Return a table of two columns without lines."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(escape(name), escape(str(value)))
    return table


def grid(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> Table:
    """Return a table with a header; the first `left` columns are text, the others numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(header):
        table.add_column(escape(name), justify="left" if i < left else "right", overflow="fold", no_wrap=i == 0)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    return table


def number(value: float | None, digits: int = 3) -> str:
    """Return a number as text; a dash if it is None or not finite."""
    return "–" if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


@contextmanager
def short_warnings(output: Output) -> Iterator[None]:
    """Print each warning once, as one line on stderr."""
    seen: set[str] = set()

    def show(message, category, filename, lineno, file=None, line=None):
        text = with_options(" ".join(str(message).split()))
        text = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
        if text not in seen:
            seen.add(text)
            output.remark(f"warning: {text}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)  # includes ConvergenceWarning and UnseenLevelWarning
        warnings.showwarning = show
        yield


def with_options(text: str) -> str:
    """Return a warning with the names of options in place of those of settings in Python."""
    return re.sub(r"\b(?:" + "|".join(OPTIONS) + r")\b", lambda found: OPTIONS[found[0]], text)


@contextmanager
def progress(quiet: bool) -> Iterator[None]:
    """Show the progress of a command on stderr, unless --quiet is set or another command has called this one."""
    if quiet or current() is not None:
        yield
        return
    with Display(delay=QUIET) as display, listening(display):
        yield


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Show the progress of a command. Turn exceptions into one line on stderr and an exit code."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            with progress(kwargs.get("quiet", False)):
                function(*args, **kwargs)
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt as error:
            raise _exit(str(error) or "interrupted", INTERRUPTED) from None
        except BrokenPipeError:  # the reader, such as head, closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except Exception as error:
            if os.environ.get("GPCLASS_DEBUG"):
                raise
            if isinstance(error, Refused):
                raise error.shown(bool(kwargs.get("as_json"))) from error
            if isinstance(error, (ValueError, OSError, ImportError, MemoryError, NoTraining, NoCluster)):
                raise _exit(_message(error), BAD_INPUT) from error
            text = f"unexpected error: {type(error).__name__}: {_message(error)} (set GPCLASS_DEBUG=1 for the traceback)"
            raise _exit(text, UNEXPECTED) from error

    # help texts would keep the line breaks of the docstring, whatever the width of the terminal
    run.__doc__ = "\n\n".join(" ".join(part.split()) for part in (inspect.getdoc(function) or "").split("\n\n"))
    return run


class NoTraining(Exception):
    """The model does not offer what a command needs."""


class NoCluster(Exception):
    """The cluster cannot be used."""


class Refused(Exception):
    """The input of a command cannot be used.

    Attributes
    ----------
    lines : list of str
        Why, and what can be done.
    data : dict
        The same for --json.
    """

    def __init__(self, lines: Sequence[str], data: dict[str, Any]) -> None:
        super().__init__(lines[0])
        self.lines, self.data = list(lines), data

    def shown(self, as_json: bool) -> typer.Exit:
        """Print the lines on stderr, and the data on stdout with --json; return the exit."""
        if as_json:
            print(json.dumps(plain(self.data), indent=2, ensure_ascii=False, allow_nan=False))
        print("\n".join([f"gpclass: {self.lines[0]}", *self.lines[1:]]), file=sys.stderr)
        return typer.Exit(BAD_INPUT)


def _exit(text: str, code: int) -> typer.Exit:
    print(f"gpclass: {text}", file=sys.stderr)
    return typer.Exit(code)


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split()) or type(error).__name__
