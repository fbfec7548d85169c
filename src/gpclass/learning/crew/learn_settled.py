"""Learning from the rows of a crew, with sites that converge at each evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...engines.inducing.sweep import InducingFit
from ...kernels import Kernel
from ..calibration import LeftOut
from ..inducing import InducingInputs, InducingKernel, maximise_low_rank
from ..objective import Evaluation, Objective
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


@dataclass(frozen=True)
class SettledModel:
    """The result of `learn_settled`.

    Attributes
    ----------
    posterior : InducingFit
        The fit, without rows.
    kernel : Kernel
        The learned kernel.
    likelihood : Likelihood
        The learned likelihood.
    Z : ndarray of shape (1 or C, M, D)
        Inducing inputs.
    history : list of Step
        The evaluations of the optimiser.
    n_iter : int
        Number of iterations of the optimiser.
    problem : str
        Why the result may not be a maximum, and what to do; empty if there is no problem.
    slopes : ndarray of shape (p,) or None
        Gradient of the objective in the hyperparameters; None if they were not learned.
    fit : SettledCrewFit
        The best fit of the search. The shards keep its sites as long as it exists: `sites_on(shard).of(fit.held.number)`.
    rows : SettledRows
        The rows.
    """

    posterior: InducingFit
    kernel: Kernel
    likelihood: Any
    Z: np.ndarray
    history: list[Any]
    n_iter: int
    problem: str
    slopes: np.ndarray | None
    fit: SettledCrewFit
    rows: SettledRows

    def left_out(self, seed: int) -> LeftOut:
        """Return class probabilities of some rows, each predicted without its own sites; see `SettledRows.left_out`."""
        return self.rows.left_out(self.fit, seed)


def learn_settled(
    crew: Crew,
    objective: Objective,
    labels: np.ndarray,
    Z: np.ndarray,
    unit: np.ndarray,
    starts: Sequence[np.ndarray],
    max_iter: int = 100,
) -> SettledModel:
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

    Returns
    -------
    SettledModel
    """
    engine, rows = objective.engine, SettledRows(crew, labels)
    design = CrewInputs(Z, unit, engine.learn_inputs and bool(starts), rows)
    whole = replace(objective, design=design, first=None)
    if not starts:
        found, history, n_iter, problem, slopes = whole.fit(objective.theta), [], 1, "", None
        posterior = found.fit.without_rows()
    else:
        model, search = maximise_low_rank(whole, max_iter, starts)
        found, history, n_iter, problem = _best(search.best), search.history, max(1, search.n_iter), search.problem
        slopes = found.gradient[: objective.n_hyper]
        posterior = replace(found.fit.without_rows(), engine=engine, posterior=model.posterior)
    there: Any = found.design
    rows.rest()
    parts = posterior, found.kernel, found.likelihood, there.Z, history, n_iter, problem, slopes
    return SettledModel(*parts, found.fit, rows)


def _best(found: Evaluation | None) -> Evaluation:
    assert found is not None, "a search without an evaluation raises an error"
    return found
