"""Learning with any kind of engine: from an objective to hyperparameters, a posterior and the inputs for predictions.

The engine decides which inputs represent the posterior: all training rows, an active set of rows, or inducing inputs. Each
kind has its own search; `learn` calls the right one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..kernels import Precomputed
from ..numerics import NotPositiveDefinite
from ..progress import phase
from .active_set import learn_active_set
from .augment import fit_augmented
from .doubts import at_bounds, below_guessing
from .history import best_of
from .inducing_mnl import maximise_inducing
from .learn_inducing import learn_inducing
from .learned import Learned, learned_from
from .objective import Objective
from .optimise import Start, maximise
from .rivals import rivals_of, whole_searches
from .scan import scanned_starts
from .streams import Source

POSTERIOR = "posterior"  # name of the phase after the search
ROUNDING = 1e-10  # negative eigenvalues of a matrix below this fraction of the largest one are rounding


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
    engine = objective.engine
    if engine.design in ("inducing inputs", "inducing pairs") and objective.kernel.takes == "covariances":
        raise TypeError(
            f"{type(engine).__name__} uses inducing inputs, but a precomputed matrix, objects or sparse rows have "
            "none: use inference='ep' (two classes), 'nested-ep' (several), or 'ivm' for many rows"
        )
    try:
        found = [Start(theta) for theta in starts]
        if scan and starts:
            with phase("scan over lengthscales"):
                first, *further = scanned_starts(objective, starts[0])
            # with minibatches, runs from further starts would multiply the time
            found = [first, *([] if engine.minibatches else further), *found[1:]]
            starts = [one.theta for one in found]
        match engine.design:
            case "inducing inputs":
                learned = learn_inducing(objective, starts, max_iter, stream, seed)
            case "inducing pairs":
                learned = _learn_inducing_pairs(objective, starts, max_iter)
            case "active rows":
                learned = _learn_active_rows(objective, starts, stream, seed)
            case _:
                learned = _learn_all_rows(objective, found, max_iter, n_jobs)
    except NotPositiveDefinite as error:
        raise _with_eigenvalue(error, objective) from error
    n_rows = len(objective.X) if stream is None else stream[0].n_rows
    doubts = [] if engine.draws else below_guessing(objective, learned.posterior.log_evidence, n_rows)
    if learned.slopes is not None:
        doubts += at_bounds(objective, learned.theta, learned.slopes)
    return replace(learned, doubts=tuple(doubts))


def _with_eigenvalue(error: NotPositiveDefinite, objective: Objective) -> NotPositiveDefinite:
    """Return the error with the smallest eigenvalue of a matrix that the user gave, if that is the reason."""
    if objective.kernel.takes != "covariances":
        return error
    eigenvalues = np.linalg.eigvalsh(Precomputed()(np.asarray(objective.X, float)))
    if eigenvalues[0] > -ROUNDING * eigenvalues[-1]:
        return error
    return NotPositiveDefinite(
        f"the given matrix is not a covariance matrix: its eigenvalues are between {eigenvalues[0]:.3g} and "
        f"{eigenvalues[-1]:.3g}, but must not be negative"
    )


def _learn_all_rows(objective, starts, max_iter, n_jobs):
    if not starts:
        with phase(POSTERIOR):
            found = objective.fit(objective.theta)
        return Learned(found.fit, found.kernel, found.likelihood, objective.X, [], 1)
    fewer, rivals = objective.of_fewer_rows(), rivals_of(objective)
    search = maximise(objective, starts, max_iter, 0, fewer, rivals, n_jobs=n_jobs)
    with phase(POSTERIOR):
        return learned_from(search, objective.finish(search.best), objective.X)


def _learn_active_rows(objective, starts, stream, seed):
    if stream is not None:
        from .crew.active_rows import learn_active  # only for rows in several processes

        source, labels = stream
        return learn_active(source.crew, objective, labels, starts, seed)
    learned, augment = learn_active_set(objective, starts), objective.engine.augment
    if augment is None:
        return learned
    # select again, with transformed copies of the active rows among the candidates
    found = fit_augmented(objective, learned.theta, learned.posterior, augment)
    # leaving a row out would leave its transformed copies in
    return replace(learned, posterior=found.fit, inputs=found.inputs, rows=found.sources, rows_left_out=lambda: None)


def _learn_inducing_pairs(objective, starts, max_iter):
    if not starts:
        search = maximise_inducing(objective, max_iter=0)
    else:

        def inducing(some, start, hold=False, like=None, needed=None):
            at = None if like is None else like.at
            return maximise_inducing(some, start, 0 if hold else max_iter, at, needed)

        search = best_of(whole_searches(objective, starts, inducing))
    at = search.at
    assert at is not None, "a search ends with inducing variables"
    return learned_from(search, search.fit, at.Z, None if at.chosen is None else at.chosen.rows)
