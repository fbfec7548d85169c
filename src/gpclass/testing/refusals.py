"""Checks of the errors and warnings of an engine for invalid input and for too few sweeps."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .claims import fields_of
from .designs import Problem
from .pieces import raises, require, takes_signs


def check_errors(engine: Any, likelihood: Any, problem: Problem) -> None:
    """Check that invalid input raises an error of the right type."""
    y = problem.y
    invalid: dict[str, Problem] = {
        **problem.invalid(),
        "y with two dimensions": problem.replaced(y=y[:, None]),
        "y with NaN": problem.replaced(y=np.where(np.arange(len(y)) == 1, np.nan, y)),
    }
    if takes_signs(likelihood):
        invalid["labels 2 and 1"] = problem.replaced(y=(3 - y) / 2)
        if likelihood.unlabelled_target != 0:
            invalid["labels 0 and 1"] = problem.replaced(y=(y + 1) / 2)
    elif likelihood.targets == "class labels":
        invalid["labels from 1 on"] = problem.replaced(y=y + 1)
    for what, bad in invalid.items():
        raises(ValueError, lambda bad=bad: bad.fit(engine, likelihood), what)  # type: ignore[misc]
    name = type(likelihood).__name__
    raises(TypeError, lambda: problem.fit(engine, type(likelihood)), "a likelihood class", f"{name}()")
    for need in engine.needed(likelihood):
        reduced = _without(likelihood, need)
        if not engine.serves(reduced):
            lacking = next(question for question in engine.needed(reduced) if not reduced.offers(question))
            what = f"a likelihood without {lacking}"
            raises(TypeError, lambda reduced=reduced: problem.fit(engine, reduced), what, lacking)  # type: ignore[misc]


def check_ending(engine: Any, likelihood: Any, problem: Problem) -> None:
    """Check that a run that stops early has `converged` False and warns with the number of sweeps and the setting."""
    if "max_iter" not in fields_of(engine):
        return
    short = dataclasses.replace(engine, max_iter=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = problem.fit(short, likelihood)
    said = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
    if fit.converged:  # an engine that solves the problem in one sweep
        require(not said, f"a converged run warns: {said}")
        return
    require(len(said) == 1, f"a run with max_iter=1 does not converge, and gives {len(said)} ConvergenceWarnings")
    for word in (type(engine).__name__, f"{fit.n_iter} sweep", "max_iter"):
        require(word in said[0], f"the warning of a run that stops early should contain {word!r}: {said[0]}")


def _without(likelihood: Any, question: str) -> Any:
    """Return the likelihood without one of its methods."""
    reduced: Any = object.__new__(type("Reduced", (type(likelihood),), {question: None}))
    reduced.__dict__.update(vars(likelihood))
    return reduced
