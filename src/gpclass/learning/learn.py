"""Learning with any kind of engine: from an objective to hyperparameters, a posterior and the inputs for predictions.

The engine decides which inputs represent the posterior: all training rows, an active set of rows, or inducing inputs. Each
kind has its own search; `learn` calls the right one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..kernels import Precomputed
from ..numerics import NotPositiveDefinite
from ..progress import phase
from .active_set import learn_active_set
from .augment import fit_augmented
from .doubts import at_bounds, below_guessing
from .inducing import InducingKernel
from .inducing_mnl import maximise_inducing
from .learn_inducing import learn_inducing
from .learned import Learned, best_search, learned_from
from .objective import Objective
from .optimise import maximise
from .rivals import rivals_of, whole_searches
from .scan import scanned
from .streams import Source

POSTERIOR = "posterior"  # name of the phase after the search
ROUNDING = 1e-10  # share of the largest eigenvalue of a matrix below which a negative one is rounding


def learn(
    objective: Objective,
    starts: Sequence[np.ndarray],
    max_iter: int,
    stream: tuple[Source, np.ndarray] | None = None,
    seed: int = 0,
    scan: bool = True,
    n_jobs: int | None = 1,
) -> Learned:
    """Optimise the hyperparameters and compute the posterior.

    Parameters
    ----------
    objective : Objective
        The objective.
    starts : sequence of ndarray
        Hyperparameters from which to start. An empty list keeps them fixed.
    max_iter : int
        Iterations of the optimiser per run.
    stream : tuple of Source and ndarray, optional
        The rows and the class labels, if the objective holds only a sample of the rows.
    seed : int, default=0
        Seed.
    scan : bool, default=True
        Whether a scan over lengthscales improves the first start, see `scan`.
    n_jobs : int or None, default=1
        Number of processes for runs from several starts, of engines that use all rows.

    Returns
    -------
    Learned
    """
    _check_inputs(objective)
    try:
        if scan and starts:
            with phase("scan over lengthscales"):
                starts = _scanned(objective, starts)
        learned = _by_design(objective, starts, max_iter, stream, seed, n_jobs)
    except NotPositiveDefinite as error:
        raise _with_eigenvalue(error, objective) from error
    n_rows = len(objective.X) if stream is None else stream[0].n_rows
    doubts = [] if objective.engine.draws else below_guessing(objective, learned.posterior.log_evidence, n_rows)
    if learned.slopes is not None:
        doubts += at_bounds(objective, learned.theta, learned.slopes)
    return replace(learned, doubts=tuple(doubts))


def _check_inputs(objective: Objective) -> None:
    """Raise an error if the engine needs inputs that can be chosen freely, but rows of covariances are given."""
    if objective.engine.design not in ("all rows", "active rows") and objective.kernel.takes == "covariances":
        raise TypeError(
            f"{type(objective.engine).__name__} uses inducing inputs, but a precomputed matrix, objects or sparse rows have "
            "none: use inference='ep' (two classes), 'nested-ep' (several), or 'ivm' for many rows"
        )


def _with_eigenvalue(error: NotPositiveDefinite, objective: Objective) -> NotPositiveDefinite:
    """Return the error with the smallest eigenvalue of a matrix that the user gave, if that is the reason."""
    if objective.kernel.takes != "covariances":
        return error
    eigenvalues = np.linalg.eigvalsh(Precomputed()(np.asarray(objective.X, float)))
    if eigenvalues[0] > -ROUNDING * eigenvalues[-1]:
        return error
    return NotPositiveDefinite(
        f"the given matrix is no covariance matrix: its eigenvalues are between {eigenvalues[0]:.3g} and "
        f"{eigenvalues[-1]:.3g}, but must not be negative"
    )


def _by_design(objective, starts, max_iter, stream, seed, n_jobs):
    design = objective.engine.design
    if stream is not None and design == "active rows":
        from .crew.active_rows import learn_active  # only for rows in several processes

        return learn_active(stream[0].crew, objective, stream[1], starts, seed)
    if design == "inducing inputs":
        return learn_inducing(objective, starts, max_iter, stream, seed)
    if design == "active rows":
        return _active(objective, starts)
    if design == "inducing pairs":
        return _inducing_mnl(objective, starts, max_iter)
    return _full(objective, starts, max_iter, n_jobs)


def after_scan(objective: Objective) -> Objective:
    """Return the objective at the best start of a scan over lengthscales."""
    kernel, likelihood = objective.at(scanned(objective, objective.theta)[0])
    return replace(objective, kernel=kernel, likelihood=likelihood)


def _scanned(objective, starts):
    """Return the starts with those of a scan over lengthscales in place of the first."""
    first, *further = scanned(objective, starts[0])
    if objective.engine.minibatches:  # a second run would double the time
        further = []
    return [first, *further, *starts[1:]]


def prior_covariances(engine: Any, kernel: Any, inputs: np.ndarray) -> Any:
    """Return the prior covariances of the inputs that represent a posterior, as learning computes them."""
    if engine.design == "inducing inputs":
        return InducingKernel(kernel, inputs if inputs.ndim == 3 else inputs[None]).gram()
    return kernel(inputs)


def _full(objective, starts, max_iter, n_jobs):
    if not starts:
        with phase(POSTERIOR):
            found = objective.fit(objective.theta)
        return Learned(found.fit, found.kernel, found.likelihood, objective.X, [], 1)
    fewer, rivals = objective.of_fewer_rows(), rivals_of(objective)
    search = maximise(objective, starts, max_iter, 0, fewer, rivals, n_jobs=n_jobs)
    with phase(POSTERIOR):
        return learned_from(search, objective.finish(search.best), objective.X)


def _active(objective, starts):
    learned = learn_active_set(objective, starts)
    return learned if objective.engine.augment is None else _augmented(objective, learned)


def _augmented(objective, learned):
    """Select the active set again, with transformed copies of its rows among the candidates."""
    found = fit_augmented(objective, learned.theta, learned.posterior, objective.engine.augment)
    # leaving a row out would leave its transformed copies in
    return replace(learned, posterior=found.fit, inputs=found.inputs, rows=found.sources, rows_left_out=lambda: None)


def _inducing_mnl(objective, starts, max_iter):
    if not starts:
        search = maximise_inducing(objective, max_iter=0)
    else:

        def inducing(some, start, hold=False, like=None, needed=None):
            at = None if like is None else like.at
            return maximise_inducing(some, start, 0 if hold else max_iter, at, needed)

        search = best_search(whole_searches(objective, starts, inducing))
    at = search.at
    assert at is not None, "a search ends with inducing variables"
    return learned_from(search, search.fit, at.Z, None if at.chosen is None else at.chosen.rows)
