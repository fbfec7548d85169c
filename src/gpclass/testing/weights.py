"""Checks of engines with weighted observations; see `engines/observations.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engines.observations import Observed
from .claims import ANSWER_TOL, Claims, same_fit
from .designs import Problem, Rows
from .pieces import Array, close, raises

TINY_WEIGHT = 1e-10  # weight of a row that counts for nothing


def check_weights(engine: Any, likelihood: Any, problem: Problem, claims: Claims) -> None:
    """Check that weights are used as multiplicities, or refused if the engine or the likelihood does not support them."""
    n = len(problem.y)
    counts = 1 + np.arange(n) % 3  # whole numbers from 1 to 3
    if engine.weights == "none" or not _offered(engine, likelihood, counts):
        weighted = problem.replaced(y=Observed(problem.y, counts))  # type: ignore[arg-type]
        raises(TypeError, lambda: weighted.fit(engine, likelihood), "weights", "weights")
    elif claims.weights == "repeated":
        check_repeated(engine, likelihood, problem, counts)
    elif claims.weights == "powers":
        check_powers(engine, likelihood, problem)


def _offered(engine: Any, likelihood: Any, weight: Any) -> bool:
    return all(likelihood.offers(name) for name in engine.needed_by_weights(likelihood, weight))


def check_repeated(engine: Any, likelihood: Any, problem: Any, counts: Rows) -> None:
    """Check that weights that are whole numbers give the result of repeated rows."""
    index = np.repeat(np.arange(len(counts)), counts)
    first = np.searchsorted(index, np.arange(len(counts)))
    one = problem.replaced(y=Observed(problem.y, counts)).fit(engine, likelihood)
    copied = problem.reordered(index)
    other = copied.fit(engine, likelihood)
    what = "weights against repeated rows"
    same_fit(one, other, ANSWER_TOL, what, first)
    if "loo" in problem.answers:
        close(one.loo(), other.loo()[first], ANSWER_TOL, f"{what}: loo()")
    close(problem.likelihood_gradient(one), copied.likelihood_gradient(other), ANSWER_TOL, f"{what}: likelihood_gradient()")
    wanted = copied.gradient(other)
    for name, G in problem.gradient(one).items():
        summed = _summed(wanted[name], problem.rows.get(name, ()), first)
        close(G, summed, ANSWER_TOL * (1 + np.abs(summed)), f"{what}: derivatives in {name}")


def check_powers(engine: Any, likelihood: Any, problem: Any) -> None:
    """Check that weights of one change nothing, and that rows of hardly any weight count for nothing.

    For engines that use p^w as the likelihood of a row of weight w, with a single site.
    """
    n = len(problem.y)
    ones = problem.replaced(y=Observed(problem.y, np.ones(n))).fit(engine, likelihood)
    same_fit(ones, problem.fit(engine, likelihood), ANSWER_TOL, "weights of one")
    if not _offered(engine, likelihood, np.array([TINY_WEIGHT])):
        return
    kept = np.arange(n - 2)
    weight = np.where(np.arange(n) < n - 2, 1.0, TINY_WEIGHT)
    light = problem.replaced(y=Observed(problem.y, weight)).fit(engine, likelihood)
    fewer = problem.reordered(kept).fit(engine, likelihood)
    close(light.log_evidence, fewer.log_evidence, ANSWER_TOL, "rows of tiny weight against fewer rows: log_evidence")
    close(light.mean[kept], fewer.mean, ANSWER_TOL, "rows of tiny weight against fewer rows: mean")


def _summed(G: Array, axes: tuple[int, ...], first: Rows) -> Array:
    """Return derivatives summed over the copies of each row; copies are adjacent and begin at `first`."""
    for axis in axes:
        G = np.add.reduceat(G, first, axis=axis)
    return G
