"""From an objective to what a classifier predicts with: hyperparameters, a posterior, and the inputs it rests on.

What a posterior rests on is the engine's choice: all training rows, an active set of them, or inducing inputs. Each way has
its own search; this is where they meet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..sparse import IVM, SparseVariationalMNL
from .active_set import fit_active, maximise_active
from .inducing_mnl import maximise_inducing
from .objective import Objective
from .optimise import Search, Step, maximise


@dataclass(frozen=True)
class Learned:
    """The end of learning."""

    posterior: Any
    kernel: Any
    likelihood: Any
    inputs: np.ndarray  # those that a prediction needs covariances with
    history: list[Step]
    n_iter: int
    rows: np.ndarray | None = None  # of the training data, where these inputs are some of them
    problem: str = ""  # why the end of the search may be no maximum, and what to do; see `warn_if_unfinished`


def learn(objective: Objective, starts: Sequence[np.ndarray], max_iter: int, verbose: int = 0) -> Learned:
    """Search for hyperparameters from each of `starts`; none of them leaves hyperparameters as the objective has them."""
    if isinstance(objective.engine, IVM):
        return _active(objective, starts, verbose)
    if isinstance(objective.engine, SparseVariationalMNL):
        return _inducing_mnl(objective, starts, max_iter, verbose)
    return _full(objective, starts, max_iter, verbose)


def _full(objective, starts, max_iter, verbose):
    if not starts:
        fit, kernel, likelihood, _ = objective.fit(objective.theta)
        return Learned(fit, kernel, likelihood, objective.X, [], 1)
    search = maximise(objective, starts, max_iter, verbose, objective.of_fewer_rows())
    return _learned(search, objective.finish(search.best), objective.X)


def _active(objective, starts, verbose):
    if not starts:
        fit, kernel, likelihood = fit_active(objective, objective.theta)
        return Learned(fit, kernel, likelihood, objective.X[fit.rows], [], 1, fit.rows)
    search = _best([maximise_active(objective, start, verbose) for start in starts])
    fit = search.best.fit
    return _learned(search, fit, objective.X[fit.rows], fit.rows)


def _inducing_mnl(objective, starts, max_iter, verbose):
    if not starts:
        search = maximise_inducing(objective, max_iter=0)
    else:
        search = _best([maximise_inducing(objective, start, max_iter, verbose) for start in starts])
    at = search.at
    assert at is not None, "a search ends somewhere"
    return _learned(search, search.fit, at.Z, None if at.chosen is None else at.chosen.rows)


def _best(searches: list[Any]) -> Any:
    """The best of several, with the histories of all."""
    best = max(searches, key=lambda search: search.best.value)
    best.history = [step for search in searches for step in search.history]
    best.n_iter = sum(search.n_iter for search in searches)
    return best


def _learned(search: Search, fit, inputs, rows=None) -> Learned:
    assert search.best is not None, "a search that could not begin has raised"
    best, n_iter = search.best, max(1, search.n_iter)
    return Learned(fit, best.kernel, best.likelihood, inputs, search.history, n_iter, rows, search.problem)
