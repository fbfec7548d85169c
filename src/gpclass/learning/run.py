"""One run of L-BFGS-B over hyperparameters, which ends with a Newton step.

If the engine supports it and there are enough rows, a run has two parts. The first is in single precision, which halves the
cost of factorisations; it ends early if single precision is too coarse. The second, in double precision, continues from its
end with its curvature. Only evaluations in double precision are results.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import scipy

from ..progress import interrupted, phase, stops_here, tell
from .curvature import free_gradient, largest_slope, updated_curvature
from .history import INTERRUPTED, Search, Step, evaluations_of
from .objective import FAILURES, SEARCH_TOL, Evaluation, Objective, TooCoarse
from .warm import WarmStart

# On 320 problems of 60 to 150 rows (EP and Laplace, with and without bias and ARD), searches with these tolerances ended at
# most 3e-4 nats below the maximum. With ten times looser ones it was up to 0.01, along a bias, where the evidence is flat
# and L-BFGS-B is slow.
VALUE_TOL = 1e-5  # stop when an iteration gains less than this, in nats
SLOPE_TOL = 3e-3  # or when no parameter has a slope above this
LEFT_GAIN = 2e-3  # or when the predicted gain of a Newton step, an upper estimate, is below this; that step ends the run
LEFT_GAIN_ON_FEWER = 5e-3  # the same for a search on fewer rows; a larger one would cost more on all rows than it saves
FALL_OF_GAIN = 0.5  # the last step must reduce the predicted gain to this fraction
SURE_GAIN = 3e-4  # largest predicted gain of a further Newton step after the last step; above it, the run continues
VALUE_NOISE = 200.0  # in roundings of the posterior: smaller changes of values in single precision are taken from slopes
STEEP_SLOPE = 0.03  # slope at the end that causes a warning: at a curvature of one, 5e-4 nats could still be gained
TOL_PER_SLOPE = 1e-3  # engine tolerance per slope: gradients have errors of 1 %; from SEARCH_TOL to LARGEST_TOL
LARGEST_TOL = 3e-3  # engine tolerance at large slopes
GAIN_DOUBT = 3.0  # factor on the predicted gain of a Newton step, since a curvature from a few iterations is inaccurate
MAX_LINE = 30  # maximum number of evaluations per line search
MAX_LINE_SINGLE = 5  # the same in single precision, where further ones would follow the rounding


class NoStart(Exception):
    """The objective cannot be evaluated at the start of a run."""

    def __init__(self, error: Exception):
        self.error = error


class _Enough(Exception):
    """A run meets a stopping criterion."""


class _Point(NamedTuple):
    """An evaluation without its matrices, which would take memory."""

    theta: np.ndarray
    value: float
    gradient: np.ndarray


class Run:
    """One run of L-BFGS-B. It minimises, so it gets the negative objective."""

    def __init__(
        self,
        objective: Objective,
        number: int,
        search: Search,
        metric: np.ndarray | None = None,
        value_tol: float = VALUE_TOL,
        needed: float | None = None,
        confirm: bool = True,
        left: float = LEFT_GAIN,
    ):
        self.objective, self.number, self.search = objective, number, search
        self.value_tol = value_tol  # stop when an iteration gains less than this, in nats
        self.needed = needed  # stop when it is clear whether the maximum is above this value
        # stop when the predicted gain of a Newton step is below this, in nats. Not used if inducing inputs move: they are
        # many and move slowly, so that the curvature is not known well enough
        self.left = left if objective.tail == 1 else 0.0
        self.confirm = confirm  # whether that step is taken, in double precision and at the tolerance of the engine
        self.single = objective.offers_single  # precision of the next evaluation
        self.before = search.best  # result of earlier runs
        self.bounds = objective.bounds
        self.metric = metric  # inverse curvature from the same search on fewer rows
        self.inverse_curvature = metric  # estimate from this search
        self.iteration = 0
        self.counted = 0  # iterations that the search has counted
        self.gain = np.inf  # of the last iteration
        self.nearly = False  # whether the run stopped because the predicted gain of a Newton step is small
        self.leads = False  # whether this run found the best point of the search
        self.tol = TOL_PER_SLOPE  # of the engine
        self.warm = WarmStart(search.best.fit if search.best is not None else None)
        self.point: Any = None  # the last point that was evaluated
        self.iterate: Any = None  # the last accepted point
        self.units: np.ndarray  # of the parameters, there

    def go(self, start: np.ndarray, max_iter: int) -> None:
        """Run from `start` and record the evaluations in the search. Raise NoStart if that cannot be evaluated."""
        start, single, met = np.clip(start, *self.bounds.T), self.single, False
        if single:
            with suppress(TooCoarse):  # then the run continues in double precision
                met = self._climb(start, max_iter)
            if met and (not self.confirm or interrupted()):
                return
            self.single = False
        if not met:
            if self.iterate is not None:
                start, self.metric = self.iterate.theta, self.inverse_curvature
            met = self._climb(start, max(1, max_iter - self.iteration))
            single = False
        # end with a Newton step in double precision, and continue if it does not confirm the end
        while met and (self.nearly or single) and self.confirm and not interrupted():
            if self._last_step(single) or self.iteration >= max_iter:
                return
            # the predicted gain was wrong: require a smaller one next time, and after that do not use it
            self.left = 0.1 * LEFT_GAIN if self.left == LEFT_GAIN else 0.0
            self.metric, single = self.inverse_curvature, False
            met = self._climb(self.iterate.theta, max_iter - self.iteration, self.iterate)

    def _last_step(self, from_single: bool) -> bool:
        """Take a Newton step, with a converged posterior at its end; return whether that is the end of the run.

        `from_single` says whether the last iterate was evaluated in single precision. If so, value and slopes of the new
        point are not compared with those of the iterate.
        """
        last = self.iterate
        before, slopes = self._newton_gain(last), free_gradient(last.theta, last.gradient, self.bounds)
        step = 0.0 if self.inverse_curvature is None else self.inverse_curvature @ slopes
        self.tol = 0.0
        try:
            point = self._evaluate(np.clip(last.theta + step, *self.bounds.T))
        except FAILURES:
            point = self._evaluate(last.theta)
        self.iteration += 1
        self.search.n_iter += 1
        self.counted = self.iteration
        after, slope = self._newton_gain(point), largest_slope(point.theta, point.gradient, self.bounds)
        # slopes that remain after a Newton step belong to directions that are flatter than the estimated curvature
        done = after < min(SURE_GAIN, max(FALL_OF_GAIN * before, 0.1 * SURE_GAIN)) or slope < SLOPE_TOL
        higher = from_single or point.value > last.value - SURE_GAIN
        if from_single:
            self.iterate = point
        elif higher:
            self.gain = point.value - last.value
            self._accept(point)
        else:
            self._learn_curvature(point)
        self._tell()
        if done and higher and self.leads:
            self.search.message, self.search.problem = f"another Newton step would gain less than {SURE_GAIN:g}", ""
        return done and higher

    def _climb(self, start: np.ndarray, max_iter: int, first: _Point | None = None) -> bool:
        """Run from `start` in the current precision; return whether a stopping criterion was met.

        `first` is the point `start`, if it was evaluated before.
        """
        self.nearly = False
        if first is None:
            try:
                with phase("first evaluation"):
                    first = self._evaluate(start)
            except FAILURES as error:
                raise NoStart(error) from error
            self._accept(first)
            self._tell()
        root, box = self._coordinates(start)
        # if all variables are bounded, the first step of L-BFGS-B is the gradient; scaling limits it to one unit
        unit = max(1.0, float(np.max(np.abs(root @ (root.T @ first.gradient)) / self.units, initial=0.0)))

        def scaled(z):
            _, value, gradient = self._evaluate_or_step_back(start + root @ z) if np.any(z) else first
            return -value / unit, -(root.T @ gradient) / unit

        # `ftol` is relative to the value, which has no natural zero, and `gtol` refers to z, so `_after_iteration` stops
        options = {"maxiter": max_iter, "ftol": 0.0, "gtol": 0.0, "maxls": MAX_LINE_SINGLE if self.single else MAX_LINE}
        settings: Any = {"method": "L-BFGS-B", "bounds": box, "callback": self._after_iteration, "options": options}
        try:
            self._stop_if_done()
            result = scipy.optimize.minimize(scaled, np.zeros_like(start), jac=True, **settings)
            status, message = result.status, str(result.message)
        except _Enough as reason:
            status, message = 0, str(reason)
        except KeyboardInterrupt:
            if not stops_here(evaluations_of(self.search)):
                raise
            status, message = 0, INTERRUPTED
        self.search.n_iter += self.iteration - self.counted
        self.counted = self.iteration
        if self.leads:
            self.search.message, self.search.problem = message, self._problem(status, message)
        return status == 0

    def _evaluate(self, theta: np.ndarray) -> _Point:
        """Evaluate the objective at θ and record it in the history."""
        history, where = self.search.history, (self.number, self.iteration, theta.copy())
        evaluate = self.objective.evaluate_in_single if self.single else self.objective.evaluate
        precision = "single" if self.single else "double"
        try:
            evaluation = evaluate(theta, self.warm.at(theta), self.tol)
        except (TooCoarse, *FAILURES) as error:
            history.append(Step(*where, np.nan, np.nan, 0, str(error), precision))
            raise
        fit = evaluation.fit
        if self.single and self.iterate is not None:
            evaluation = self._measured(evaluation)
        history.append(Step(*where, evaluation.value, fit.log_evidence, fit.n_iter, "", precision))
        if fit.converged:
            self.warm.remember(theta, fit)
        if self.search.best is not None and self.search.best.single and not self.single:
            self.search.best, self.leads = self.before, False  # only values of the same precision are compared
        if self.search.best is None or evaluation.value > self.search.best.value:
            self.search.best, self.leads = evaluation, True
        self.point = _Point(evaluation.theta, evaluation.value, evaluation.gradient)
        return self.point

    def _measured(self, evaluation: Evaluation) -> Evaluation:
        """Return an evaluation in single precision, with a value from the slopes if it is close to the last iterate.

        Log determinants lose digits to the rounding of large entries of K, slopes much less.
        """
        step = evaluation.theta - self.iterate.theta
        rise = float(0.5 * (evaluation.gradient + self.iterate.gradient) @ step)
        if abs(rise) > VALUE_NOISE * evaluation.fit.posterior.rounding:
            return evaluation
        return replace(evaluation, value=self.iterate.value + rise)

    def _evaluate_or_step_back(self, theta: np.ndarray) -> _Point:
        inside = np.clip(theta, *self.bounds.T)
        try:
            if np.max(np.abs(theta - inside), initial=0.0) > 1e-9:  # more than rounding
                raise FloatingPointError("a step left the bounds")
            return self._evaluate(inside)
        except FAILURES:
            # report a fall as large as the predicted rise, and a zero gradient, so that the line search steps back
            rise = abs(self.iterate.gradient @ (theta - self.iterate.theta))
            return _Point(theta, self.iterate.value - max(rise, VALUE_TOL), np.zeros_like(theta))

    def _after_iteration(self, _theta: np.ndarray) -> None:
        self.iteration += 1
        self.gain = self.point.value - self.iterate.value
        self._accept(self.point)  # the last point of a line search is the accepted one
        self._tell()
        if self.gain < self.value_tol:
            raise _Enough(f"the last iteration gained less than {self.value_tol:g}")
        self._stop_if_done()

    def _newton_gain(self, point: _Point) -> float:
        """Return an upper estimate of the gain of a Newton step from a point; infinite if unknown."""
        if self.inverse_curvature is None:
            return np.inf
        gradient = free_gradient(point.theta, point.gradient, self.bounds)
        # the curvature along biases, which the estimate may not include yet, is at least one in their units
        along_biases = 0.5 * float(np.sum((self.units * gradient)[self.objective.shifts] ** 2))
        return max(GAIN_DOUBT * float(0.5 * gradient @ self.inverse_curvature @ gradient), along_biases)

    def _stop_if_done(self) -> None:
        if interrupted():
            raise _Enough(INTERRUPTED)
        if largest_slope(self.iterate.theta, self.iterate.gradient, self.bounds) < SLOPE_TOL:
            raise _Enough(f"no slope is above {SLOPE_TOL:g}")
        newton_gain = self._newton_gain(self.iterate)
        if self.needed is not None:
            further = newton_gain if self.iteration == 0 else max(newton_gain, self.objective.tail * self.gain)
            if not self.iterate.value <= self.needed < self.iterate.value + further:
                raise _Enough(f"it is clear whether {self.needed:g} can be reached")
        if newton_gain < self.left:
            self.nearly = True
            raise _Enough(f"a Newton step would gain less than {self.left:g}")

    def _coordinates(self, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return root, with θ = start + root z, and bounds of z. With a curvature from fewer rows, it is about one in z.

        The bounds of θ are not a box in z. So if the start is far from them, z is unbounded, and evaluations with θ outside
        the bounds fail.
        """
        room = np.min(np.abs(self.bounds - start[:, None]), initial=np.inf)
        if self.metric is None or room < 1.0:
            return np.diag(self.units), (self.bounds - start[:, None]) / self.units[:, None]
        value, vector = np.linalg.eigh(self.metric)
        return vector * np.sqrt(np.maximum(value, 1e-8 * value[-1])), np.tile([-1e9, 1e9], (len(start), 1))

    def _accept(self, point: _Point) -> None:
        if self.iterate is not None:
            self._learn_curvature(point)
        self.iterate = point
        self.units = self.objective.units_at(point.theta)
        # inaccurate gradients suffice far from the maximum
        self.tol = float(np.clip(TOL_PER_SLOPE * np.max(np.abs(point.gradient)), SEARCH_TOL, LARGEST_TOL))

    def _learn_curvature(self, point: _Point) -> None:
        step, drop = point.theta - self.iterate.theta, self.iterate.gradient - point.gradient
        self.inverse_curvature = updated_curvature(self.inverse_curvature, step, drop, self.units)

    def _tell(self) -> None:
        """Report the log evidence of the best point so far, which at the end of the search is that of the result."""
        best = self.search.best
        assert best is not None, "a run begins with an evaluation"
        tell(f"iteration {self.iteration}, {evaluations_of(self.search)}, log evidence {best.fit.log_evidence:.2f}")

    def _problem(self, status: int, message: str) -> str:
        """Return the warning for a run that ended at a large slope, or an empty string."""
        best = self.search.best
        assert best is not None, "a run begins with an evaluation"
        slope = largest_slope(best.theta, best.gradient, self.bounds)
        steps = [step for step in self.search.history if step.run == self.number]
        failed = [step for step in steps if step.message and step.precision == "double"]
        failed_at_the_end = any(step.iteration >= self.iteration - 1 for step in failed)
        if slope < STEEP_SLOPE or (status == 0 and not failed_at_the_end):
            return ""
        if status == 1:
            text = f"reached its limit of {self.iteration} iterations, the last of which still gained {self.gain:.2g} nats"
            advice = "Raise max_iter."
        else:
            text = f"stopped in iteration {self.iteration} ({message.strip()}) where the slope is still {slope:.2g}"
            advice = "Set n_restarts, or priors."
        if failed:
            (most, _), *_ = Counter(step.message for step in failed).most_common(1)
            text += f"; {len(failed)} of its {len(steps)} evaluations failed, most often with: {most!r}"
            advice += " Scale the inputs, or set narrower bounds or priors, to avoid points where evaluations fail."
        return f"The search for hyperparameters {text}. The evidence may not be at its maximum. {advice}"
