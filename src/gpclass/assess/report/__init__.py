"""A report on a model as one HTML file, with all figures inside and no network access.

facts    the content of the report: numbers and sentences
hyperparameters  relevance of the inputs, evidence surface, comparison with other kernels
verdict  the judgement in words
figures  figures as SVG
words    numbers as text
template.html, style.css   the page

Reports need jinja2 and matplotlib (`pip install gpclass[plot]`).
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

GENERATOR = b'<meta name="generator" content="gpclass '  # marks a report
HEAD_BYTES = 4096  # GENERATOR is within the first bytes of a report


def write_report(
    model: Any,
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    data: Any = None,
    engines: Sequence[str] | None = None,
    kernels: Sequence[str] | None = None,
    title: str | None = None,
) -> Path:
    """Write a report on a fitted model to an HTML file and return its path.

    Parameters
    ----------
    model : GPClassifier or Pipeline
        A fitted classifier, or a fitted pipeline whose last step is one.
    X, y : array-like or DataFrame of shape (m, n_features), array-like of shape (m,)
        Test rows and their labels. Training rows among them are recognised and scored by leave-one-out. If the engine has
        no leave-one-out probabilities, these rows are excluded; if no others remain, the report says that they cannot
        show how good the model is.
    path : str or path-like
        The file to write.
    data : tuple (X_train, y_train), optional
        The training rows and labels as passed to `fit`, for the comparison of engines.
    engines : sequence of str, optional
        Names of engines to compare, such as "laplace" and "ep". By default, those that are fast enough for the data.
    kernels : sequence of str, optional
        Kernels as text, such as "rbf + linear", whose evidence is compared with that of the model's kernel. By default a
        few usual ones; an empty sequence compares none.
    title : str, optional
        Title of the page.

    Returns
    -------
    Path
        The path of the file.

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
    environment = _environment()  # first, so that a missing package is reported before the work begins
    check_writable(path)
    facts = gather(model, X, y, data=data, engines=engines, kernels=kernels, title=title)
    page = render(facts, _figures(facts, model, data), environment)
    with replacing(path, "w", encoding="utf-8", errors="replace") as stream:  # an unpaired surrogate becomes “?”
        stream.write(page)
    return Path(path)


def is_report(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is a report written by `write_report`."""
    with open(path, "rb") as stream:
        return GENERATOR in stream.read(HEAD_BYTES)


def render(facts: Facts, drawn: dict[str, Any], environment: Any = None) -> str:
    """Return the HTML page as text. All text from the data is escaped; figures are SVG."""
    environment = _environment() if environment is None else environment
    style = files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    return environment.from_string(_template()).render(facts=facts, drawn=drawn, style=style)


def _figures(facts: Facts, model, data) -> dict[str, Any]:
    last = classifier(model)
    return {
        "reliability": figures.reliability(facts.labels, facts.judged.p, last.classes_),
        "calibration": None if facts.before is None else figures.calibration(facts, last.classes_),
        "kernels": None if facts.kernels is None else figures.kernels(facts.kernels),
        "weights": figures.weights(facts.weights) if facts.weights else None,
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
