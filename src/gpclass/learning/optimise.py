"""Maximise an objective over hyperparameters by L-BFGS-B (scipy), with restarts.

An evaluation that fails (a kernel that overflows, a factorisation that breaks down) is reported to the line search as a
very low value, so that it steps back. The best point ever evaluated is returned: restarts can only improve on it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from .objective import Evaluation, Objective


class Step(NamedTuple):
    """One evaluation of the objective, as kept in the history."""

    run: int  # 0 is the run from the kernel as given, then the restarts
    iteration: int  # of the optimiser within the run
    theta: np.ndarray
    objective: float  # log evidence + log prior; NaN if the evaluation failed
    log_evidence: float
    sweeps: int
    message: str = ""  # why it failed, if it did


@dataclass
class Search:
    """State and result of a search."""

    best: Evaluation | None = None
    history: list[Step] = field(default_factory=list)
    n_iter: int = 0  # optimiser iterations, all runs together
    message: str = ""  # how the best run ended


VALUE_TOL = 1e-4  # stop when an iteration gains less than this, in nats
SLOPE_TOL = 1e-2  # or when no log parameter has a slope above this: the evidence then lacks some 1e-5 nats
FAILURES = (np.linalg.LinAlgError, FloatingPointError, ValueError, OverflowError)


def maximise(
    objective: Objective, starts: Sequence[np.ndarray], max_iter: int = 100, verbose: int = 0
) -> Search:
    """Run L-BFGS-B from each of `starts`; the first one's failure is the caller's to see, the others' are not."""
    search = Search()
    for run, start in enumerate(starts):
        _one_run(objective, np.asarray(start, float), run, max_iter, verbose, search)
    if verbose:
        sys.stderr.write("\n")
    return search


def _one_run(objective, start, run, max_iter, verbose, search):
    bounds = objective.bounds
    start = np.clip(start, bounds[:, 0], bounds[:, 1])
    warm: Any = search.best.fit if search.best is not None else None
    lowest, iteration = np.inf, 0
    run_best = -np.inf

    def negative(theta):
        nonlocal warm, lowest, run_best
        try:
            evaluation = objective.evaluate(theta, warm)
        except FAILURES as error:
            if run == 0 and search.best is None:
                raise
            search.history.append(Step(run, iteration, theta.copy(), np.nan, np.nan, 0, str(error)))
            # worse than anything seen, level: the line search interpolates back
            worst = lowest if np.isfinite(lowest) else -search.best.value
            return worst + 1e3 * (1 + abs(worst)), np.zeros_like(theta)
        fit = evaluation.fit
        search.history.append(Step(run, iteration, theta.copy(), evaluation.value, fit.log_evidence, fit.n_iter))
        if fit.converged:
            warm = fit
        lowest = max(lowest, -evaluation.value) if np.isfinite(lowest) else -evaluation.value
        run_best = max(run_best, evaluation.value)
        if search.best is None or evaluation.value > search.best.value:
            search.best = evaluation
        return -evaluation.value, -evaluation.gradient

    def progress(intermediate_result):
        nonlocal iteration
        iteration += 1
        if verbose:
            end = "\r" if sys.stderr.isatty() else "\n"
            sys.stderr.write(
                f"run {run}  iteration {iteration:3d}  evaluations {len(search.history):3d}  "
                f"objective {-unit * intermediate_result.fun:.4f}  best {search.best.value:.4f}{end}"
            )

    first = negative(start)
    # L-BFGS-B's first step is as long as the gradient when all variables are bounded; scaled so, it has length one
    unit = max(1.0, float(np.linalg.norm(first[1])))

    def scaled(theta):
        value, gradient = first if np.array_equal(theta, start) else negative(theta)
        return value / unit, gradient / unit

    result = minimize(
        scaled,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        callback=progress,
        options={"maxiter": max_iter, "ftol": VALUE_TOL / unit, "gtol": SLOPE_TOL / unit, "maxls": 30},
    )
    search.n_iter += result.nit
    if search.best is not None and run_best >= search.best.value:
        search.message = str(result.message)
