"""One HTML file that says how good a model is, and how far to trust it: no network, figures inside.

facts    what it says: numbers and words
verdict  the judgement in plain words
figures  SVG
words    numbers as text
template.html, style.css   the page

It needs jinja2 and matplotlib (`pip install gpclass[plot]`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...files import check_writable, replacing
from ..models import classifier
from . import figures
from .facts import Facts, gather
from .words import number, percent

__all__ = ["Facts", "gather", "is_report", "render", "write_report"]

GENERATOR, HEAD = b'<meta name="generator" content="gpclass ', 4096  # how the template says who made it, and where


def write_report(
    model: Any,
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    data: Any = None,
    engines: Sequence[str] | None = None,
    title: str | None = None,
) -> Path:
    """Write a report on a fitted model to an HTML file, and return its path.

    Parameters
    ----------
    model : fitted GPClassifier, or pipeline that ends in one
    X, y : test rows, as the model takes them (array or frame), and their labels
        Rows that the model was trained on are recognised, and their figures are leave-one-out. Where the engine has no
        leave-one-out probabilities they are set aside; if no others are left, the report says that it cannot judge.
    path : where to write
    data : (X_train, y_train) as `fit` was given them, for the comparison of engines
    engines : names of engines to compare, such as "laplace", "ep"; by default some that are quick enough
    title : of the page

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import train_test_split
    >>> from gpclass import GPClassifier
    >>> from gpclass.assess.report import write_report
    >>> X, X_test, y, y_test = train_test_split(*load_iris(return_X_y=True), random_state=0)
    >>> clf = GPClassifier().fit(X, y)
    >>> write_report(clf, X_test, y_test, "iris.html", data=(X, y))      # doctest: +SKIP
    """
    environment = _environment()  # first, for what is missing should be told before the work
    check_writable(path)
    facts = gather(model, X, y, data=data, engines=engines, title=title)
    page = render(facts, _figures(facts, model, data), environment)
    with replacing(path, "w", encoding="utf-8", errors="replace") as stream:  # half a character of a table is a “?”
        stream.write(page)
    return Path(path)


def is_report(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a report that `write_report` wrote."""
    with open(path, "rb") as stream:
        return GENERATOR in stream.read(HEAD)


def render(facts: Facts, drawn: dict[str, Any], environment: Any = None) -> str:
    """The page as text: all that comes from the data is escaped, figures are SVG."""
    environment = _environment() if environment is None else environment
    style = files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    return environment.from_string(_template()).render(facts=facts, drawn=drawn, style=style)


def _figures(facts: Facts, model, data) -> dict[str, Any]:
    last = classifier(model)
    return {
        "reliability": figures.reliability(facts.labels, facts.judged.p, last.classes_),
        "relevance": figures.relevance(facts.relevance, model),
        "evidence": None if facts.evidence is None else figures.evidence(facts.evidence),
        "map": figures.decision_map(model, data),
    }


def _template() -> str:
    return files(__package__).joinpath("template.html").read_text(encoding="utf-8")


def _environment() -> Any:
    try:
        import jinja2
        import matplotlib  # noqa: F401
    except ImportError as error:
        missing = error.name if error.name in ("jinja2", "matplotlib") else "jinja2 and matplotlib"
        raise ImportError(f"Reports need {missing}: pip install gpclass[plot]") from error
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["number"] = number
    environment.filters["percent"] = percent
    return environment
