"""The search for hyperparameters of a classifier: by its engine, by a sampler, or by an engine for a sampler."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..choose import engine_for
from ..learning import Learned, Objective, column_spread, learn, random_start
from ..learning.scan import scanned
from .problem import continues


def search(
    model: Any, objective: Objective, distance: float, rng: np.random.Generator, stream: tuple[Any, np.ndarray] | None = None
) -> Learned:
    """Learn the hyperparameters and compute the posterior.

    Parameters
    ----------
    model : GPClassifier
        The classifier, with its settings of the search.
    objective : Objective
        The objective.
    distance : float
        Typical distance between rows, in units of the kernel, for random starts.
    rng : numpy.random.Generator
        Random numbers.
    stream : tuple of Source and ndarray, optional
        All rows and the class labels, if the objective holds only a sample.

    Returns
    -------
    Learned
    """
    seed, engine = int(rng.integers(2**31)), objective.engine
    if model.optimizer is None or not len(objective.theta):
        return learn(objective, [], model.max_iter, stream, seed)
    scan = not continues(model)
    if engine.draws and engine.sample_hyper:
        return _sampled(objective, scan)
    starts = [objective.theta]
    if model.n_restarts:
        spread = column_spread(objective.X, objective.kernel.seen)
        starts += [random_start(objective, distance, spread, rng) for _ in range(model.n_restarts)]
    if engine.draws:
        return _sampled_at_mode(objective, starts, model.max_iter, scan)
    return learn(objective, starts, model.max_iter, stream, seed, scan, model.n_jobs)


def _sampled(objective: Objective, scan: bool) -> Learned:
    """Return draws of latent values and hyperparameters, from the best start of a scan over lengthscales if asked for."""
    if scan:
        kernel, likelihood = objective.at(scanned(objective, objective.theta)[0])
        objective = replace(objective, kernel=kernel, likelihood=likelihood)
    draws = objective.engine.fit_hyper(objective)
    kernel, likelihood = objective.at(draws.theta.mean((0, 1)))
    return Learned(draws, kernel, likelihood, objective.X, [], draws.n_iter)


def _sampled_at_mode(objective: Objective, starts: list[np.ndarray], max_iter: int, scan: bool) -> Learned:
    """Return draws of latent values at the hyperparameters that the engine of "auto" learns."""
    auto = replace(objective, engine=engine_for(objective.likelihood, len(objective.X)))
    learned = learn(auto, starts, max_iter, scan=scan)
    # the posterior of that engine may not be represented on all rows
    draws = objective.fit(learned.theta).fit
    return Learned(draws, learned.kernel, learned.likelihood, objective.X, learned.history, learned.n_iter)
