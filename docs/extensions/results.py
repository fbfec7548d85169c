"""Sphinx extension: numbers, tables and figures from benchmarks/results. What is not stored there fails the build.

In a page:

    ```{paper-summary} nickisch          counts of verdicts, of one paper or of all
    ```{paper-table} nickisch-12.3       ours beside the paper's, with verdicts; `:wide:` for ours (paper's) in one cell
    ```{paper-tables}                    all tables of all papers
    ```{paper-figure} nickisch-9         a figure drawn from stored pieces; the content is its caption
    {measured}`speed; EP/*/2000; factorisations; .0f`       a number of a piece; * gives the smallest and largest
    {paper-value}`nickisch-12.3; EP; below the median, %; ours; .0f`     ours, theirs or verdict of a row
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective, SphinxRole

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))

from papers import figures, pieces, rows, show  # noqa: E402
from papers.names import PAPERS, paper_of  # noqa: E402

DRAWN = "_build/figures"  # below the folder of the pages


def setup(app):
    """Add directives and roles."""
    for name, directive in (
        ("paper-summary", Summary),
        ("paper-table", Table),
        ("paper-tables", Tables),
        ("paper-figure", Figure),
    ):
        app.add_directive(name, directive)
    app.add_role("measured", Measured())
    app.add_role("paper-value", PaperValue())
    return {"parallel_read_safe": True}


class Missing(ExtensionError):
    """A result that a page asks for is not stored."""


# what pages ask for ----------------------------------------------------------------------------------------------------


def measured(text: str, folder: Path = pieces.RESULTS) -> str:
    """Return the value that "source; key; name; format" asks for; a key with * gives a range."""
    source, key, name, form = fields(text, 4)
    found = pieces.matching(pieces.read(pieces.file_of(source, folder)), key)
    values = [piece[name] for piece in found if name in piece.values]
    if not values:
        raise Missing(f"results/{pieces.file_of(source).name} has no value {name!r} of a piece {key!r}")
    ends = dict.fromkeys(format(value, form).replace("-", "−") for value in (min(values), max(values)))
    return "–".join(ends)


def paper_value(text: str, folder: Path = pieces.RESULTS) -> str:
    """Return what "table; row; measure; ours | theirs | verdict; format" asks for."""
    table, row, measure, name, form = fields(text, 5)
    found = [r for r in paper_rows(folder).get(table, ()) if (r.row, r.measure) == (row, measure)]
    if not found or name not in ("ours", "theirs", "verdict"):
        raise Missing(f"no {name!r} of {measure!r} in row {row!r} of table {table!r} is stored")
    return format(getattr(found[0], name), form).replace("-", "−")


def fields(text: str, number: int) -> list[str]:
    """Return the parts of a role's text; the last one, a format, may be left out."""
    parts = [part.strip() for part in re.split(r"\s*;\s*", text)]
    if len(parts) not in (number - 1, number):
        raise Missing(f"{text!r} must have {number} parts, separated by semicolons")
    return [*parts, ""][:number]


def paper_rows(folder: Path = pieces.RESULTS) -> dict[str, list[rows.Row]]:
    """Return the rows of all tables, in full form where there is one."""
    return rows.shown(row for paper in PAPERS for row in rows.read(rows.file_of(paper, folder)))


# directives and roles --------------------------------------------------------------------------------------------------


class FromResults(SphinxDirective):
    """A directive that becomes Markdown made from stored results."""

    has_content = True
    optional_arguments = 1
    option_spec = {"wide": directives.flag}  # noqa: RUF012 (as Sphinx declares it)

    def run(self) -> list[nodes.Node]:
        """Parse the Markdown in place of the directive."""
        for file in pieces.RESULTS.glob("*.jsonl"):
            self.env.note_dependency(str(file))
        try:
            text = self.markdown()
        except (KeyError, ValueError) as error:
            raise Missing(f"{self.env.docname}, line {self.lineno}: {error}") from error
        node = nodes.Element()
        self.state.nested_parse(StringList(text.splitlines(), self.env.docname), self.content_offset, node)
        return node.children

    def argument(self) -> str:
        if not self.arguments:
            raise ValueError(f"{self.name} needs a name")
        return self.arguments[0]


class Summary(FromResults):
    """Counts of verdicts."""

    def markdown(self) -> str:
        """Return a table."""
        tables = paper_rows()
        return show.paper_summary(self.arguments[0], tables) if self.arguments else show.summary(tables)


class Table(FromResults):
    """One table of a paper."""

    def markdown(self) -> str:
        """Return the table, and how it was made."""
        return show.one_table(paper_rows()[self.argument()], wide="wide" in self.options)


class Tables(FromResults):
    """All tables; under bold titles, because a directive cannot contain headings."""

    def markdown(self) -> str:
        """Return a summary and the tables."""
        return re.sub(r"(?m)^## (.*)$", r"**\1**", show.all_tables(row for some in paper_rows().values() for row in some))


class Figure(FromResults):
    """A figure drawn from stored pieces."""

    def markdown(self) -> str:
        """Draw the figure; return an image and its caption."""
        name, caption = self.argument(), " ".join(line.strip() for line in self.content)
        source = pieces.file_of(paper_of(name))
        file = Path(self.env.srcdir) / DRAWN / f"{name}.png"
        if not file.exists() or file.stat().st_mtime < source.stat().st_mtime:
            figures.draw(name, file)
        return f"![{name}: our figure](/{DRAWN}/{name}.png)\n\n*{caption}*" if caption else f"![{name}](/{DRAWN}/{name}.png)"


class Measured(SphinxRole):
    """A number of a stored piece."""

    def run(self):
        """Return the number as text."""
        return [nodes.Text(located(self, measured))], []


class PaperValue(SphinxRole):
    """A number of a paper's table, ours or theirs."""

    def run(self):
        """Return the number as text."""
        return [nodes.Text(located(self, paper_value))], []


def located(role: SphinxRole, answer) -> str:
    """Answer a role's question; errors tell the page."""
    for file in pieces.RESULTS.glob("*.jsonl"):
        role.env.note_dependency(str(file))
    try:
        return answer(role.text)
    except (KeyError, ValueError, ExtensionError) as error:
        raise Missing(f"{role.env.docname}, line {role.lineno}: {error}") from error
