"""Sphinx extension: docstrings of this package as reference pages.

- Fields of data classes become parameters: with their types, defaults, and the comments beside them in the source.
- Two columns of text in the docstring of a module become a table.
- Long signatures are shortened: parameters, types and defaults are in the list below them.
- |x| is a length, not a substitution.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import re
import textwrap
import tokenize

LONGEST = 110  # characters of a signature
TWO_COLUMNS = re.compile(r"^(\S+(?: \S+)*)\s{2,}(\S.*)$")
NAME_AND_TEXT = re.compile(r"^(.{42}\S*) (\S.*)$")  # a long entry that leaves only one space


def setup(app):
    """Connect to Sphinx, before napoleon reads the sections."""
    app.connect("autodoc-process-docstring", process_docstring, priority=400)
    app.connect("autodoc-process-signature", shorten)
    app.connect("autodoc-process-bases", hide_object)
    app.connect("autodoc-skip-member", skip_fields)
    return {"parallel_read_safe": True}


def process_docstring(app, what, name, obj, options, lines) -> None:
    """Change the lines of a docstring in place."""
    if what == "module":
        lines[:] = [new for paragraph in paragraphs(lines) for new in (*as_table(paragraph), "")]
    elif what == "class" and not any(line in ("Parameters", "Attributes") for line in lines):
        lines += parameters(obj)
    lines[:] = [line.replace("|", r"\|") for line in lines]


def paragraphs(lines: list[str]) -> list[list[str]]:
    """Return the paragraphs, without the empty lines between them."""
    text = "\n".join(lines).strip("\n")
    return [paragraph.split("\n") for paragraph in re.split(r"\n\s*\n", text)]


def as_table(paragraph: list[str]) -> list[str]:
    """Return a table if the lines have two columns, a literal block if they are indented, and otherwise the lines."""
    rows = textwrap.dedent("\n".join(paragraph)).split("\n")
    found = [TWO_COLUMNS.match(row) or NAME_AND_TEXT.match(row) for row in rows]
    if len(rows) > 1 and all(found):
        cells = [(f"   * - ``{match[1]}``", f"     - {match[2]}") for match in found if match]
        return [".. list-table::", "   :class: names", "", *(line for pair in cells for line in pair)]
    if all(line.startswith("    ") for line in paragraph):
        return ["::", "", *paragraph]
    return paragraph


def parameters(cls: type) -> list[str]:
    """Return a section "Parameters" with the fields of a data class or named tuple; nothing for other classes."""
    defaults = field_defaults(cls)
    if not defaults:
        return []
    known: dict[str, tuple[str, str]] = {}
    for base in reversed(cls.__mro__):
        known |= annotated(base)
    lines = ["", "Parameters", "----------"]
    for name, default in defaults.items():
        annotation, comment = known.get(name, ("", ""))
        lines += [f"{name} : {', '.join(filter(None, (annotation, default)))}", f"    {comment}"]
    return [*lines, ""]


def field_defaults(cls: type) -> dict[str, str]:
    """Return the fields that the constructor takes, each with the text of its default."""
    if hasattr(cls, "_field_defaults"):
        return {name: shown(cls._field_defaults.get(name, dataclasses.MISSING)) for name in cls._fields}
    if not dataclasses.is_dataclass(cls):
        return {}
    return {field.name: shown(field.default) for field in dataclasses.fields(cls) if field.init}


def shown(default) -> str:
    """Return "default=…", or nothing if there is none or it is long."""
    text = repr(default)
    return f"default={text}" if default is not dataclasses.MISSING and len(text) < 40 and "<" not in text else ""


def annotated(cls: type) -> dict[str, tuple[str, str]]:
    """Return annotation and comment of each name that the body of a class annotates."""
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):  # built-in, or made at run time
        return {}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {token.start[0]: token.string.lstrip("#: ") for token in tokens if token.type == tokenize.COMMENT}
    body = ast.parse(source).body[0]
    if not isinstance(body, ast.ClassDef):
        return {}
    names = [node for node in body.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)]
    return {node.target.id: (ast.unparse(node.annotation), comments.get(node.end_lineno or 0, "")) for node in names}


def shorten(app, what, name, obj, options, signature, returns):
    """Return a signature of at most LONGEST characters, cut after a parameter."""
    if signature is None or len(signature) <= LONGEST or what not in ("class", "function", "method"):
        return None
    kept = signature[: LONGEST - 6].rsplit(", ", 1)[0]
    while kept.count("(") - kept.count(")") != 1 or kept.count("[") != kept.count("]"):  # cut inside a default
        kept = kept.rsplit(", ", 1)[0]
    return f"{kept.removesuffix(', *')}, ...)", returns


def hide_object(app, name, obj, options, bases) -> None:
    """Leave "object" out of the bases."""
    bases[:] = [base for base in bases if base is not object]


def skip_fields(app, what, name, obj, skip, options):
    """Leave the fields of named tuples out of the members: they are parameters."""
    return True if type(obj).__name__ == "_tuplegetter" else None
