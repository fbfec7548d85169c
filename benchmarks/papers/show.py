"""Rows as Markdown: a table of figures, a list of statements, counts of verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scoreboard.results import number, table

from .names import PAPERS, TITLES, paper_of, title_of
from .rows import KINDS, Row, shown


def all_tables(rows: Iterable[Row]) -> str:
    """A summary, and all tables under headings."""
    tables = shown(rows)
    parts = [summary(tables)]
    parts += [f"## {title_of(name)}\n\n{one_table(some)}" for name, some in tables.items()]
    return "\n".join(parts)


def one_table(rows: Sequence[Row], wide: bool = False) -> str:
    figures = [row for row in rows if not row.is_claim]
    parts = [origin(rows)]
    if figures:
        parts.append(wide_table(figures) if wide else long_table(figures))
    several = len({row.size for row in rows}) > 1
    claims = [f"- **{row.verdict}**: {row.row}{aside(row) if several else ''}" for row in rows if row.is_claim]
    parts.append("\n".join(claims) + "\n" if claims else "")
    return "\n".join(part for part in parts if part)


def origin(rows: Sequence[Row]) -> str:
    """How the rows of a table were made."""
    first = rows[0]
    sizes = " and ".join(dict.fromkeys(row.size for row in rows if row.size))
    form = "at the size of the paper" if first.form == "full" and not sizes else f"reduced{': ' + sizes if sizes else ''}"
    splits = sorted({row.splits for row in rows if row.splits})
    over = f", {'–'.join(map(str, dict.fromkeys((splits[0], splits[-1]))))} split{'s' * (splits[-1] > 1)}" if splits else ""
    command = f"`{first.command}`, " if first.command else ""
    return f"{form[0].upper()}{form[1:]}{over}; {command}{first.date}, commit {first.commit}, {first.seconds:.0f} s.\n"


def long_table(figures: Sequence[Row]) -> str:
    """One line for each figure."""
    cells = (
        [row.row, row.measure, number(row.ours), number(row.theirs), number(row.standard_error, 2), row.verdict]
        for row in figures
    )
    return table(["", "measure", "ours", "paper", "standard error", "verdict"], cells)


def wide_table(figures: Sequence[Row]) -> str:
    """One line for each measure and one column for each row; cells are ours (theirs), bold if they differ, + if better."""
    columns, lines = list(dict.fromkeys(r.row for r in figures)), list(dict.fromkeys(r.measure for r in figures))
    cells = {(r.measure, r.row): r for r in figures}
    shown_lines = ([line, *(cell(cells.get((line, column))) for column in columns)] for line in lines)
    note = "Ours, and the paper's in brackets; **bold**: differs by more than two standard errors; +: better by as much.\n"
    return table(["", *columns], shown_lines) + "\n" + note


def cell(row: Row | None) -> str:
    if row is None:
        return "–"
    text = f"{number(row.ours)} ({number(row.theirs)})"
    return {"reproduced": text, "better": f"{text} +", "differs": f"**{text}**"}[row.kind]


def aside(row: Row) -> str:
    return f" ({row.size})" if row.size else ""


def counts(rows: Sequence[Row]) -> list[str]:
    return [str(sum(row.kind == kind for row in rows)) for kind in KINDS]


def summary(tables: dict[str, list[Row]]) -> str:
    """How many figures and statements of each table have which verdict."""
    return table(["", *KINDS], ([title_of(name), *counts(rows)] for name, rows in tables.items()))


def paper_summary(paper: str, tables: dict[str, list[Row]]) -> str:
    if paper not in PAPERS:
        raise ValueError(f"no paper {paper!r}; there are {', '.join(PAPERS)}")
    own = {name: rows for name, rows in tables.items() if paper_of(name) == paper}
    return table(["", *KINDS], ([TITLES[name], *counts(rows)] for name, rows in own.items()))
