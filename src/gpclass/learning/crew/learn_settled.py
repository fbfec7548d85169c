"""Learning from the rows of a crew, with sites that converge at each evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ...kernels import Kernel
from ..inducing import InducingInputs, InducingKernel, maximise_low_rank, shared_inputs
from ..learned import Learned
from ..objective import Objective
from .crews import Crew
from .settled_rows import SettledCrewFit, SettledRows
from .shard_sweeps import Covariances


@dataclass(frozen=True)
class CrewInputs(InducingInputs):
    """Design with inducing inputs for rows of a crew. The X and y of an objective with this design are only a sample."""

    rows: SettledRows = None  # type: ignore[assignment]

    def matrices(self, kernel: Kernel, X: np.ndarray) -> Covariances:
        inducing = InducingKernel(kernel, self.Z)
        return Covariances(inducing, inducing.gram())

    def rows_per_process(self, y: Any) -> int:
        return self.rows.crew.n_rows // max(1, self.rows.crew.processes)

    def fit(self, engine: Any, K: Covariances, y: Any, likelihood: Any, start: Any) -> SettledCrewFit:
        return self.rows.fit(engine, K, likelihood, start)

    def pullback(self, kernel: Kernel, X: np.ndarray, K: Covariances, fit: Any) -> tuple[np.ndarray, np.ndarray]:
        return fit.slopes.theta, self.in_theta(fit.slopes.dZ)


def learn_settled(
    crew: Crew,
    objective: Objective,
    labels: np.ndarray,
    Z: np.ndarray,
    unit: np.ndarray,
    starts: Sequence[np.ndarray],
    max_iter: int = 100,
    seed: int = 0,
) -> Learned:
    """Learn from the rows of a crew, with sites that converge at each evaluation, by the search of one process.

    Parameters
    ----------
    crew : Crew
        The rows.
    objective : Objective
        Kernel, likelihood, engine and priors. Its X and y are a sample of the rows, used for starts only.
    labels : ndarray of shape (C,)
        The class labels, in the order of `likelihood.class_targets`.
    Z : ndarray of shape (1 or C, M, D)
        Initial inducing inputs.
    unit : ndarray of shape (D,)
        Scale of the columns, for the search over inducing inputs.
    starts : sequence of ndarray
        Hyperparameters from which to start. An empty list keeps them fixed.
    max_iter : int, default=100
        Iterations of the optimiser per run.
    seed : int, default=0
        Seed of the sample of rows for calibration.

    Returns
    -------
    Learned
        The result, without a `trainer`. `left_out` are at most `held_rows.CALIBRATION_ROWS` rows; the shards keep the sites
        that it needs as long as the result exists.
    """
    engine, rows = objective.engine, SettledRows(crew, labels)
    design = CrewInputs(Z, unit, engine.learn_inputs and bool(starts), rows)
    whole = replace(objective, design=design, first=None)
    if starts:
        model, search = maximise_low_rank(whole, max_iter, starts)
        found, history, n_iter, problem = search.best, search.history, max(1, search.n_iter), search.problem
        assert found is not None, "a search without an evaluation raises an error"
        slopes = found.gradient[: objective.n_hyper]
        posterior = replace(found.fit.without_rows(), engine=engine, posterior=model.posterior)
    else:
        found, history, n_iter, problem, slopes = whole.fit(objective.theta), [], 1, "", None
        posterior = found.fit.without_rows()
    there: Any = found.design
    rows.rest()
    return Learned(
        posterior,
        found.kernel,
        found.likelihood,
        shared_inputs(there.Z),
        history,
        n_iter,
        rows_left_out=partial(rows.left_out, found.fit, seed),
        problem=problem,
        slopes=slopes,
    )
