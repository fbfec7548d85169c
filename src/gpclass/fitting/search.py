"""The search for hyperparameters of a classifier: by its engine, by a sampler, or by an engine for a sampler.

Then the result: the fitted attributes, and the calibration of the class probabilities.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..callers import outside
from ..engines import Engine
from ..learning import Calibration, Learned, LeftOut, Mixture, Objective, column_spread, learn, random_start
from ..learning.objective import FAILURES, TooCoarse
from ..learning.scan import scanned
from ..progress import interrupted, phase, stops_here
from .problem import continues, learner_of


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
    learner = learner_of(model, objective)
    if learner is not engine:
        score = partial(_left_out_score, calibrated=model.calibrate is not None)
        return _at_mode(objective, learner, starts, model.max_iter, seed, scan, model.n_jobs, score)
    return learn(objective, starts, model.max_iter, stream, seed, scan, model.n_jobs)


def _sampled(objective: Objective, scan: bool) -> Learned:
    """Return draws of latent values and hyperparameters, from the best start of a scan over lengthscales if asked for."""
    if scan:
        kernel, likelihood = objective.at(scanned(objective, objective.theta)[0])
        objective = replace(objective, kernel=kernel, likelihood=likelihood)
    draws = objective.engine.fit_hyper(objective)
    kernel, likelihood = objective.at(draws.theta.mean((0, 1)))
    return Learned(draws, kernel, likelihood, objective.X, [], draws.n_iter)


def _at_mode(
    objective: Objective,
    learner: Engine,
    starts: list[np.ndarray],
    max_iter: int,
    seed: int,
    scan: bool,
    n_jobs: Any,
    score: Callable[[Learned], float],
) -> Learned:
    """Return the posterior of the objective's engine at the hyperparameters that another engine learns.

    If both engines have leave-one-out probabilities, it is the posterior whose `score` is better: hyperparameters
    that are best for inducing points need not be the best for all rows. If they were not even better for more inducing
    points, the posterior on all rows is not computed. If it fails, there is the one on inducing points.
    """
    there = replace(objective, engine=learner)
    with there.threads():  # products of minibatches are too small for several
        learned = replace(learn(there, starts, max_iter, seed=seed, scan=scan, n_jobs=n_jobs), engine=learner)
    if objective.engine.draws:
        return _on_all_rows(objective, learned)
    if interrupted() or learned.enough_points:
        return learned
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            on_all = _on_all_rows(objective, learned)
            best = max(on_all, learned, key=score)
    except (*FAILURES, MemoryError) as error:
        warnings.warn(
            f"{type(objective.engine).__name__} failed on all rows, so the posterior is that on inducing points: {error}",
            ConvergenceWarning,
            stacklevel=outside(),
        )
        return learned
    except KeyboardInterrupt:
        if not stops_here("the posterior on inducing points"):
            raise
        return learned
    for warning in told if best is on_all else ():
        warnings.warn(warning.message, warning.category, stacklevel=outside())
    return best


def _on_all_rows(objective: Objective, learned: Learned) -> Learned:
    """Return the result with the posterior of the objective's engine, at the hyperparameters learned on inducing points.

    If the engine can and its rounding allows it, sweeps in single precision come first; those in double precision then only
    confirm their end.
    """
    first = None
    with phase("posterior on all rows"):
        if objective.offers_single:
            with suppress(TooCoarse):
                first = objective.fit_in_single(learned.theta, tol=objective.engine.tol).fit.scalar_sites
        posterior = objective.fit(learned.theta, first).fit
    return replace(
        learned, posterior=posterior, inputs=objective.X, rows=None, trainer=None, rows_left_out=None, engine=None
    )


def _left_out_score(learned: Learned, calibrated: bool = False) -> float:
    """Return the mean log probability of the labels of rows, each predicted without its row.

    The rows are those on whose labels neither hyperparameters nor inducing inputs depend: for others, leave-one-out
    probabilities of learned points are too good. Without such rows they are all. If the result will be `calibrated`, so are
    the probabilities.

    Minus infinity if there are none, if they are not finite, or if there are only those of rows that were held out: that is
    a result which has not seen all rows.
    """
    rows = learned.left_out()
    if rows is None or rows.held_out or not np.isfinite(rows.score):
        return -np.inf
    if calibrated:
        rows = rows._replace(log_p=Calibration.fitted(rows).log_probabilities(rows.log_p))
    return rows.score if learned.unseen is None else rows.some(learned.unseen).score


# the result ---------------------------------------------------------------------------------------------------------------


def conclude(model: Any, learned: Learned, engine: Any, mixture: Mixture | None = None) -> None:
    """Set the fitted attributes. With a mixture they describe its heaviest member, except `members_`.

    `engine` is that of the objective, which is not always that of the result.
    """
    engine = learned.engine or engine
    model._set_learned(learned, engine, model.row_map_)
    model._mixture, model._members, model._trainer = mixture, [], learned.trainer
    if mixture is not None:
        best = mixture.best
        model.posterior_, model.kernel_, model.likelihood_ = best.posterior, best.kernel, best.posterior.likelihood
    model.fitted_with_ = {"kernel": model.kernel, "likelihood": model.likelihood}
    for name in ("rows_", "log_evidence_"):  # of an earlier fit; samplers have no evidence
        model.__dict__.pop(name, None)
    if not engine.draws:
        model.log_evidence_ = model.posterior_.log_evidence


def calibrate(model: Any, left_out: Callable[[], LeftOut | None]) -> None:
    """Fit the calibration to rows that were predicted without themselves, if `left_out` returns any.

    After Ctrl-C there is no calibration, if the caller keeps the best result (`progress.keeping_best`).
    """
    model.calibration_ = Calibration()
    if model.calibrate is None:
        return
    try:
        with phase("leave-one-out probabilities, for calibration"), warnings.catch_warnings():
            # warnings of `loo` with draws do not matter for a calibration with two parameters
            warnings.filterwarnings("ignore", "leave-one-out probabilities of", UserWarning)
            rows = left_out()
    except KeyboardInterrupt:
        if not stops_here("the search, before the calibration"):
            raise
        return
    if rows is not None:
        model.calibration_ = Calibration.fitted(rows)
