"""All problems of a file at once, and the command that solves them.

If a table cannot be read, its problems say which options help. The table is read again with these options, which may bring
up further problems, until it can be read. So the command that is shown has been tried.
"""

from __future__ import annotations

import os
import subprocess
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from ..tables import Option, Problem, TableError
from ..tables.advice import shell_word
from ..tables.problems import grouped
from .console import Refused
from .reading_options import Given, joined

MOST = 20  # readings of a table
LISTS = ("--drop", "--dates", "--units", "--missing-values")  # options whose values are separated by commas
MAKE_OR_FILL = ("--missing-values", "--impute")  # options that make cells empty, or fill them
T = TypeVar("T")


class Remediable(Protocol):
    """Options of a table: `columns.Columns`, or `models.Asked`."""

    def options(self) -> dict[str, str | bool]:
        """Return the values of the options by name. Those that are not set are empty or false."""
        ...

    def with_option(self, option: Option) -> Any:
        """Return these options with one more."""
        ...


R = TypeVar("R", bound=Remediable)


def diagnosed(attempt: Callable[[R], T], chosen: R, given: Given) -> T:
    """Return attempt(chosen), or raise a `Refused` that lists all problems of the table.

    Parameters
    ----------
    attempt : callable
        Reads a table with some options, and raises a TableError if it cannot be used.
    chosen : Columns or Asked
        The options.
    given : Given
        The command.
    """
    try:
        return attempt(chosen)
    except TableError as error:
        found, tried, solved = _searched(attempt, chosen, error)
        raise refusal(found, chosen, tried if solved else None, given) from error


def _searched(attempt: Callable[[R], Any], chosen: R, error: TableError) -> tuple[list[Problem], R, bool]:
    """Return all problems, the options that solve as many as possible, and whether they solve all."""
    found: dict[tuple[str, str], Problem] = {}
    used: list[Option] = []
    tried, left = chosen, error.problems
    for _ in range(MOST):
        for problem in left:
            found.setdefault((problem.kind, problem.text), problem)
        options = list(dict.fromkeys(option for problem in left for option in problem.options))
        better = _with_options(tried, options)
        if better == tried:
            break
        used += options
        tried, left = better, _problems(attempt, better)
        if not left:
            break
    return _of_the_table(attempt, chosen, list(found.values()), used), tried, not left


def _with_options(chosen: R, options: Iterable[Option]) -> R:
    for option in options:
        chosen = chosen.with_option(option)
    return chosen


def _problems(attempt: Callable[[R], Any], chosen: R) -> list[Problem]:
    """Return the problems of the table with some options."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            attempt(chosen)
        except TableError as error:
            return error.problems
    return []


def _of_the_table(attempt: Callable[[R], Any], chosen: R, found: list[Problem], used: list[Option]) -> list[Problem]:
    """Return the problems without empty cells that only marks of missing values made."""
    others = [option for option in used if option.name not in MAKE_OR_FILL]
    if len(others) == len(used) or not any(problem.kind == "empty" for problem in found):
        return found
    there = [problem for problem in _problems(attempt, _with_options(chosen, others)) if problem.kind == "empty"]
    return [*(problem for problem in found if problem.kind != "empty"), *there]


def refusal(problems: Iterable[Problem], chosen: Remediable, remedied: Remediable | None, given: Given) -> Refused:
    """Return the exception that lists the problems, and the command that solves them if `remedied` is not None."""
    found, known = grouped(problems), chosen.options()
    data: list[dict[str, Any]] = []
    for problem in found:
        options = [option for option in problem.options if option.name in known]
        data.append(
            {
                "column": problem.column,
                "columns": list(problem.columns),
                "kind": problem.kind,
                "text": problem.text,
                "option": written(options) or None,
                "python": problem.python or None,
            }
        )
    changed = {} if remedied is None else {n: v for n, v in remedied.options().items() if v != known[n]}
    command = quoted(command_words(given.context, changed)) if changed else None
    name = given.context.params.get("data", "the table")
    return Refused(_lines(found, data, command, str(name)), {"problems": data, "command": command})


def _lines(found: Sequence[Problem], data: Sequence[dict[str, Any]], command: str | None, name: str) -> list[str]:
    last = [] if command is None else [f"try: {command}"]
    if len(found) == 1:
        return [" ".join(found[0].message.split()), *last]
    told = [f"  {' '.join(p.text.split())}{_remedy(p, d['option'])}" for p, d in zip(found, data, strict=True)]
    return [f"{name} has {len(found)} problems:", *told, *last]


def _remedy(problem: Problem, option: str | None) -> str:
    return f"  →  {option}" if option else problem.advice or "  →  no option helps: correct the file"


def written(options: Iterable[Option]) -> str:
    """Return options as they are typed in a shell; several values of one option are a list."""
    values: dict[str, list[str]] = {}
    for option in options:
        values.setdefault(option.name, []).append(option.value)
    lists = {name: joined(some) if name in LISTS else some[0] for name, some in values.items()}
    return quoted([word for pair in lists.items() for word in pair if word])


def quoted(words: Sequence[str]) -> str:
    """Return words as they are typed in a shell."""
    return subprocess.list2cmdline(words) if os.name == "nt" else " ".join(map(shell_word, words))


def command_words(context: Any, changed: dict[str, str | bool]) -> list[str]:
    """Return the words of the command that was given, with other values of some options."""
    arguments: list[str] = []
    options: list[str] = []
    for parameter in context.command.params:
        name, value = max(parameter.opts, key=len), context.params.get(parameter.name)
        was_given = getattr(context.get_parameter_source(parameter.name), "name", "") == "COMMANDLINE"
        if parameter.param_type_name == "argument":
            arguments += [] if value is None else [_text(value)]
        elif name in changed or was_given:
            value = changed.get(name, value)
            options += [name] if value is True else [] if value in (False, "") else [name, _text(value)]
    files = ["--", *arguments] if any(word.startswith("-") for word in arguments) else []
    return [*context.command_path.split(), *([] if files else arguments), *options, *files]


def _text(value: Any) -> str:
    return str(getattr(value, "value", value))  # enumerations have one
