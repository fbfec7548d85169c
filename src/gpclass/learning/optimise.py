"""Maximise an objective over hyperparameters by L-BFGS-B (scipy), with restarts.

An evaluation that fails (a kernel that overflows, a factorisation that breaks down) is reported to the line search as a
low value, so that it steps back. The best point ever evaluated is returned: restarts can only improve on it.

Where there are many rows, a run may begin where the same search among a few of them ended: that costs next to nothing and
saves about half of the evaluations.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from .objective import LOOSE, Evaluation, Objective


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
    problem: str = ""  # why its end may be no maximum, and what to do; empty if all is well


# Measured over 320 problems of 60 to 150 rows (EP and Laplace, with bias and ARD and without), these leave at most 3e-4
# nats; ten times looser ones up to 0.01, along a bias, where the evidence is flat and L-BFGS-B slow.
VALUE_TOL = 1e-5  # stop when an iteration gains less than this, in nats
SLOPE_TOL = 3e-3  # or when no parameter has a slope above this
STEEP = 0.03  # a slope that is worth a word at the end: at a curvature of one, 5e-4 nats are to be had
ROUGH = 1e-4  # engine tolerance at slopes of one and above; it falls with the slope, down to LOOSE
MAX_LINE = 30  # evaluations per line search
NEARBY = 0.1  # length of the first step after a search among fewer rows; it is one otherwise
FAILURES = (np.linalg.LinAlgError, FloatingPointError, ValueError, OverflowError)


def maximise(
    objective: Objective,
    starts: Sequence[np.ndarray],
    max_iter: int = 100,
    verbose: int = 0,
    fewer: Objective | None = None,
) -> Search:
    """Run L-BFGS-B from each of `starts`, or from where the search of an objective of `fewer` rows ends.

    Raises only if the objective cannot be evaluated at any of them.
    """
    search = Search()
    errors = []
    for number, start in enumerate(starts):
        start, reach = np.asarray(start, float), 1.0
        if fewer is not None:
            start, reach = _improved(fewer, start, max_iter), NEARBY
        try:
            _Run(objective, number, search, verbose).go(start, max_iter, reach)
        except _NoStart as failure:
            errors.append(failure.error)
    if verbose:
        sys.stderr.write("\n")
    if search.best is None:
        _raise_first(errors)
    return search


def _improved(fewer: Objective, start: np.ndarray, max_iter: int) -> np.ndarray:
    """Where a search among fewer rows ends; the start itself if it fails."""
    search = Search()
    try:
        _Run(fewer, 0, search, verbose=0).go(start, max_iter)
    except _NoStart:
        return start
    return start if search.best is None else search.best.theta


def check_search(estimator: Any) -> None:
    """Settings of a search that every estimator has: `optimizer`, `n_restarts`, `max_iter`."""
    if estimator.optimizer not in ("lbfgs", None):
        raise ValueError(f"optimizer must be 'lbfgs' or None, but is {estimator.optimizer!r}")
    for name, least in (("n_restarts", 0), ("max_iter", 1)):
        value = getattr(estimator, name)
        if not isinstance(value, Integral) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}, but is {value!r}")


def warn_if_unfinished(search: Any) -> None:
    if search.problem:
        warnings.warn(search.problem, ConvergenceWarning, stacklevel=3)  # the line that called the estimator's fit


class _NoStart(Exception):
    """The objective cannot be evaluated where a run begins."""

    def __init__(self, error: Exception):
        self.error = error


class _Enough(Exception):
    """An iteration gained next to nothing."""


class _Point(NamedTuple):
    """An evaluation without its matrices, of which no more than needed are to be alive."""

    theta: np.ndarray
    value: float
    gradient: np.ndarray


class _Run:
    """One run of L-BFGS-B. It minimises, so what goes to it has its sign turned."""

    def __init__(self, objective: Objective, number: int, search: Search, verbose: int):
        self.objective, self.number, self.search, self.verbose = objective, number, search, verbose
        self.bounds = objective.bounds
        self.iteration = 0
        self.gain = np.inf  # of the last iteration
        self.leads = False  # whether the best point of all is this run's
        self.tol = ROUGH  # of the engine
        self.warm: Any = search.best.fit if search.best is not None else None
        self.point: _Point  # the last one that was evaluated
        self.iterate: _Point  # the last one that L-BFGS-B accepted

    def go(self, start: np.ndarray, max_iter: int, reach: float = 1.0) -> None:
        """From `start`, with a first step no longer than `reach`."""
        self.begun, self.max_iter = time.perf_counter(), max_iter
        start = np.clip(start, *self.bounds.T)
        try:
            first = self._evaluate(start)
        except FAILURES as error:
            raise _NoStart(error) from error
        self._accept(first)
        # L-BFGS-B's first step is as long as the gradient when all variables are bounded; scaled so, it is as long as wanted
        unit = max(1.0, float(np.linalg.norm(first.gradient)) / reach)

        def scaled(theta):
            _, value, gradient = first if np.array_equal(theta, start) else self._evaluate_or_step_back(theta)
            return -value / unit, -gradient / unit

        # `ftol` is relative to the value, which has no natural zero: `_after_iteration` stops instead
        options = {"maxiter": max_iter, "ftol": 0.0, "gtol": SLOPE_TOL / unit, "maxls": MAX_LINE}
        settings: Any = {"method": "L-BFGS-B", "bounds": self.bounds, "callback": self._after_iteration, "options": options}
        try:
            result = minimize(scaled, start, jac=True, **settings)
            status, message = result.status, str(result.message)
        except _Enough:
            status, message = 0, f"the last iteration gained less than {VALUE_TOL:g}"
        self.search.n_iter += self.iteration
        if self.leads:
            self.search.message, self.search.problem = message, self._problem(status, message)

    def _evaluate(self, theta: np.ndarray) -> _Point:
        """The objective at θ, noted in the history."""
        history, where = self.search.history, (self.number, self.iteration, theta.copy())
        try:
            evaluation = self.objective.evaluate(theta, self.warm, self.tol)
        except FAILURES as error:
            history.append(Step(*where, np.nan, np.nan, 0, str(error)))
            raise
        fit = evaluation.fit
        history.append(Step(*where, evaluation.value, fit.log_evidence, fit.n_iter))
        if fit.converged:
            self.warm = fit
        if self.search.best is None or evaluation.value > self.search.best.value:
            self.search.best, self.leads = evaluation, True
        self.point = _Point(evaluation.theta, evaluation.value, evaluation.gradient)
        return self.point

    def _evaluate_or_step_back(self, theta: np.ndarray) -> _Point:
        try:
            return self._evaluate(theta)
        except FAILURES:
            # as if the value had fallen by what it promised to rise, and were level there: the line search steps back
            promise = abs(self.iterate.gradient @ (theta - self.iterate.theta))
            return _Point(theta, self.iterate.value - max(promise, VALUE_TOL), np.zeros_like(theta))

    def _after_iteration(self, _theta: np.ndarray) -> None:
        self.iteration += 1
        self.gain = self.point.value - self.iterate.value
        self._accept(self.point)  # a line search ends with the point that it takes
        if self.verbose:
            self._show()
        if self.gain < VALUE_TOL:
            raise _Enough

    def _accept(self, point: _Point) -> None:
        self.iterate = point
        # far away rough gradients will do
        self.tol = float(np.clip(ROUGH * np.max(np.abs(point.gradient)), LOOSE, ROUGH))

    def _show(self) -> None:
        assert self.search.best is not None, "a run begins with an evaluation"
        sys.stderr.write(
            f"run {self.number}  iteration {self.iteration:3d}  evaluations {len(self.search.history):3d}  "
            f"objective {self.iterate.value:.4f}  best {self.search.best.value:.4f}  at most {self._time_left()} left"
            + ("\r" if sys.stderr.isatty() else "\n")
        )

    def _time_left(self) -> str:
        """Of this run, if it took all the iterations that it may; most end earlier."""
        pace = (time.perf_counter() - self.begun) / self.iteration
        minutes, seconds = divmod(round(pace * (self.max_iter - self.iteration)), 60)
        return f"{minutes}:{seconds:02d}"

    def _problem(self, status: int, message: str) -> str:
        """What a user should know of a run that ended on a slope."""
        slope = self._slope_at_best()
        steps = [step for step in self.search.history if step.run == self.number]
        failed = [step for step in steps if step.message]
        failed_at_the_end = any(step.iteration >= self.iteration - 1 for step in failed)
        if slope < STEEP or (status == 0 and not failed_at_the_end):
            return ""
        if status == 1:
            text = f"reached its limit of {self.iteration} iterations, the last of which still gained {self.gain:.2g} nats"
            advice = "Raise max_iter."
        else:
            text = f"came to a halt in iteration {self.iteration} ({message.strip()}) where the slope is still {slope:.2g}"
            advice = "Set n_restarts, or priors."
        if failed:
            (most, _), *_ = Counter(step.message for step in failed).most_common(1)
            text += f"; {len(failed)} of its {len(steps)} evaluations failed, most often with: {most!r}"
            advice += " Scaled inputs, narrower bounds of the kernel or priors keep it away from where evaluations fail."
        return f"The search for hyperparameters {text}. The evidence may not be at its maximum. {advice}"

    def _slope_at_best(self) -> float:
        """The steepest slope that leads nowhere out of bounds."""
        assert self.search.best is not None, "a run begins with an evaluation"
        theta = self.search.best.theta
        return float(np.max(np.abs(np.clip(theta + self.search.best.gradient, *self.bounds.T) - theta), initial=0.0))


def _raise_first(errors: list[Exception]) -> None:
    first, others = errors[0], len(errors) - 1
    if not others:
        raise first
    kind = next(kind for kind in FAILURES if isinstance(first, kind))
    text = f"{first} (That was at the first start; {others} restart{'s' * (others > 1)} failed as well.)"
    raise kind(text) from first
