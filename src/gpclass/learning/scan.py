"""A scan over lengthscales, which decides where a search starts.

As a function of the lengthscale, the evidence has several maxima, and a search from the typical distance between rows does
not find one at a much shorter lengthscale. So all lengthscales of the kernel are multiplied by common factors, from the
distance between neighbours to several times the typical distance, and the objective is evaluated at each factor, loosely and
on few rows. If the scan finds one maximum, the search starts there. If it finds several, short searches on the same rows and
a comparison on more rows decide between them.

Slopes at neighbouring factors also show the curvature along the common factor, which the search then need not learn: it is
large as a rule, and the slopes of the other parameters change along it too. With it they give the first step of the search.

Few rows cannot show structure that is shorter than the distance between them. If the evidence of few rows is not clearly
better than that of guessing, the scan is repeated on more rows. If that does not help, the given start remains a candidate.

The scan uses an engine for all rows, whatever the design of the objective is, so it is the same for all designs.

Objectives whose kernels differ, in their units or in their shape, are compared in the same way (`best_objective`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .. import inference  # noqa: F401  (registers the engines)
from ..engines.observations import Observed
from ..kernels import Kernel
from ..numerics.columns import column_spread, lengthscale_span
from ..progress import interrupted, phase
from ..registry import registered
from .curvature import for_more_rows, free_gradient, updated_curvature
from .doubts import guessing_evidence
from .objective import FAILURES, Evaluation, Objective
from .optimise import Start, improved

SCAN_TOL = 3e-2  # engine tolerance: the errors of values are far below the differences that matter here
FACTOR_STEP = np.log(2)  # distance of the factors, in logs
SCANNED_VALUES = 200  # rows times latent functions of the first scan
LEAST_SCANNED_ROWS = 100  # rows of the first scan, at least
WIDER_FACTOR = 4  # factor on the number of rows for the second scan, and for the comparison of several maxima
STRUCTURE_GAIN = 5.0  # nats above guessing that count as structure
ABANDONED_BELOW = 10.0  # nats below the best at which a maximum of the scan is abandoned
KEPT_BELOW = 3.0  # nats below the best, after the comparison, up to which a maximum is an additional start
LEAST_SCAN_GAIN = 0.5  # nats that the scan must gain to replace the given start
POLISH_ITERATIONS = 8  # iterations of the short searches
# Curvature of the log evidence that a search expects before it knows more, in nats per squared unit. That of a single
# lengthscale is lower as a rule, but first steps that are too long cost more evaluations than short ones. With these values
# and the curvature along the common factor, searches on 29 tables of 80 to 128 rows took 228 evaluations; with 4, 16 and 32
# for lengthscales 257, 227 and 247, and without any expectation 356
LENGTHSCALE_CURVATURE, OTHER_CURVATURE = 8.0, 2.0


@dataclass(frozen=True)
class _Line:
    """The objective along the common factor of the lengthscales, from short to long."""

    thetas: list[np.ndarray]
    values: np.ndarray  # minus infinity if the evaluation failed
    evidence: float  # the largest log evidence
    given: int  # index of the given start
    near: dict[int, Evaluation]  # the best point and those next to it, with slopes

    def maxima(self) -> list[int]:
        """Return the indices of the local maxima that are not far below the best, in decreasing order of their values."""
        around = np.concatenate([[-np.inf], self.values, [-np.inf]])
        tops = (self.values >= around[:-2]) & (self.values >= around[2:])
        found = np.flatnonzero(tops & (self.values > np.max(self.values) - ABANDONED_BELOW))
        return found[np.argsort(-self.values[found], kind="stable")].tolist()


def scanned(objective: Objective, start: np.ndarray) -> list[np.ndarray]:
    """Return the points of `scanned_starts`."""
    return [found.theta for found in scanned_starts(objective, start)]


def scanned_starts(objective: Objective, start: np.ndarray) -> list[Start]:
    """Return the starts of a search, found by a scan over lengthscales from the given start.

    Parameters
    ----------
    objective : Objective
        The objective, for any engine.
    start : ndarray of shape (p,)
        The given hyperparameters of kernel and likelihood.

    Returns
    -------
    list of Start
        The most promising start. Others follow if the comparison on more rows leaves doubt.
    """
    start = np.clip(start, *objective.bounds.T)
    moves = varying_lengthscales(objective.kernel)
    if not moves.any():
        return [Start(start)]
    few, wide = _samples(objective)
    line = _scan(few, start, moves)
    if len(wide.X) > len(few.X) and line.evidence < guessing_evidence(few) + STRUCTURE_GAIN:
        few, line = wide, _scan(wide, start, moves)
    tops = line.maxima()[:2]
    if not tops:  # all evaluations failed
        return [Start(start)]
    if line.values[tops[0]] < line.values[line.given] + LEAST_SCAN_GAIN:
        tops[0] = line.given
    if line.evidence < guessing_evidence(few) + STRUCTURE_GAIN and line.given not in tops:
        tops.append(line.given)  # the scan does not justify another start
    if len(tops) == 1:
        found, used = [_begun(few, line, tops[0], moves)], few
    else:
        found, used = _compared(few, wide, [line.thetas[i] for i in tops]), wide
    return [one._replace(metric=for_more_rows(one.metric, len(used.X), len(objective.X))) for one in found]


def best_objective(objectives: Sequence[Objective], margins: Sequence[float]) -> int:
    """Return the index of the objective whose kernel has the largest evidence on few rows.

    Parameters
    ----------
    objectives : sequence of Objective
        Objectives of the same rows with different kernels.
    margins : sequence of float
        Nats that are subtracted from each evidence: by so much it must exceed that of an objective without margin.

    Returns
    -------
    int
    """
    if len(objectives) == 1:
        return 0
    with phase("comparison of kernels on few rows"):
        best = int(np.argmax([_evidence(each) - margin for each, margin in zip(objectives, margins, strict=True)]))
    if interrupted():  # nothing that could be a result has been learned
        raise KeyboardInterrupt
    return best


def _evidence(objective: Objective) -> float:
    """Return the log evidence of some rows after a short search on fewer; minus infinity if it fails."""
    few, wide = _samples(objective)
    start = improved(wide, few, scanned(objective, objective.theta)[0], POLISH_ITERATIONS)[0]
    found = _value(wide, start)
    return -np.inf if found is None else found.fit.log_evidence


def _samples(objective: Objective) -> tuple[Objective, Objective]:
    """Return the objective on the rows of the first scan, and on those of the second."""
    size = max(LEAST_SCANNED_ROWS, SCANNED_VALUES // objective.likelihood.n_latents)
    return on_few_rows(objective, size), on_few_rows(objective, WIDER_FACTOR * size)


def varying_lengthscales(kernel: Kernel) -> np.ndarray:
    """Return which entries of θ are lengthscales of a distance, bool (p,).

    The lengthscales of a linear or polynomial kernel are not: they are a scale of the values.
    """
    marks = [mark for each in kernel.separated[0].class_kernels for leaf in each.leaves for mark in _lengthscales(leaf)]
    return np.array(marks + [False] * (len(kernel.theta) - len(marks)), bool)


def _lengthscales(leaf: Kernel) -> list[bool]:
    """Return which free parameters of a leaf are lengthscales of a distance."""
    return [leaf.lengthscale_of_distance and name.startswith("lengthscale") for name in leaf.names]


def on_few_rows(objective: Objective, count: int) -> Objective:
    """Return the objective on at most `count` rows, with an engine that uses all of them."""
    few = objective.of_rows(count)
    few = replace(few, X=np.asarray(few.X, float), first=None)
    if few.engine.design == "all rows" and not few.engine.draws:
        return few
    needs_correlation = few.kernel.separated[1] is not None
    wanted = "one" if few.likelihood.n_latents == 1 else "several"
    for cls in registered("engine").values():
        suits = cls.design == "all rows" and not cls.draws and (cls.correlated or not needs_correlation)
        if suits and cls.latents in ("any", wanted) and (engine := cls()).serves(few.likelihood):
            few = few if engine.weights == "places" else _separate(few)
            return replace(few, engine=engine)
    from .inducing import InducingInputs  # it imports the searches for terms of sums, which scan

    return replace(few, design=InducingInputs(few.X[None], column_spread(few.X), move=False))


def _separate(objective: Objective) -> Objective:
    """Return the objective with a row for each observation, for engines that need one latent value for each."""
    y = objective.y
    if not isinstance(y, Observed) or y.place is None:
        return objective
    return replace(objective, X=objective.X[y.place], y=Observed(y.y, y.weight))


def _scan(few: Objective, start: np.ndarray, moves: np.ndarray) -> _Line:
    """Evaluate the objective with all lengthscales of `start` multiplied by common factors."""
    low, high = _span(few.at(start)[0], few.X)
    shifts = np.arange(np.ceil(low / FACTOR_STEP), np.floor(high / FACTOR_STEP) + 1) * FACTOR_STEP
    thetas: list[np.ndarray] = []
    where = np.flatnonzero(moves)
    for shift in np.union1d(shifts, [0.0]):
        theta = start.copy()
        theta[where] = np.clip(theta[where] + shift, *few.bounds[where].T)
        if not thetas or not np.array_equal(theta, thetas[-1]):
            thetas.append(theta)
    given = next(i for i, theta in enumerate(thetas) if np.array_equal(theta, start))
    values, evidence = np.full(len(thetas), -np.inf), -np.inf
    near: dict[int, Evaluation] = {}  # next to the best; others would only take memory
    last = None
    for i in reversed(range(len(thetas))):
        found = _value(few, thetas[i], last)
        if found is not None:
            last, values[i] = found.fit, found.value
            evidence = max(evidence, found.fit.log_evidence)
            best = int(np.argmax(values))
            near = {j: one for j, one in (*near.items(), (i, found)) if abs(j - best) <= 1}
    return _Line(thetas, values, evidence, given, _with_slopes(few, near))


def _with_slopes(few: Objective, near: Mapping[int, Evaluation]) -> dict[int, Evaluation]:
    """Return the evaluations with their gradients; none if one fails."""
    try:
        return {i: few.with_gradient(found) for i, found in near.items()}
    except FAILURES:
        return {}


def _begun(few: Objective, line: _Line, i: int, moves: np.ndarray) -> Start:
    """Return point i of the line as a start, with the inverse curvature and the first step that slopes near it give."""
    theta = line.thetas[i]
    if not line.near:
        return Start(theta)
    short, long = line.near[min(line.near)], line.near[max(line.near)]
    expected, units = np.full(len(theta), OTHER_CURVATURE), few.units_at(theta)
    expected[np.flatnonzero(moves)] = LENGTHSCALE_CURVATURE
    metric = updated_curvature(np.diag(units**2 / expected), long.theta - short.theta, short.gradient - long.gradient)
    if i not in line.near:
        return Start(theta, metric)
    step = metric @ free_gradient(theta, line.near[i].gradient, few.bounds)
    step /= max(1.0, np.max(np.abs(step) / units))  # at most one unit, as the first step of a run
    return Start(theta, metric, np.clip(theta + step, *few.bounds.T) - theta)


def _span(kernel: Kernel, X: np.ndarray) -> tuple[float, float]:
    """Return the smallest and largest log factor of the lengthscales, from distances in units of the lengthscales."""
    X = kernel.seen(X)
    spans = [
        lengthscale_span(X / leaf.lengthscale)
        for leaf in kernel.leaves
        if any(_lengthscales(leaf))
    ]
    return (np.log(min(low for low, _ in spans)), np.log(max(high for _, high in spans))) if spans else (0.0, 0.0)


def _value(objective: Objective, theta: np.ndarray, start: object = None) -> Evaluation | None:
    try:
        found = objective.fit(theta, start, SCAN_TOL)
    except FAILURES:
        return None
    return found if np.isfinite(found.value) else None


def _compared(few: Objective, wide: Objective, thetas: list[np.ndarray]) -> list[Start]:
    """Return the ends of short searches on few rows, best first on more rows, without those that are clearly worse."""
    ends = [improved(wide, few, theta, POLISH_ITERATIONS) for theta in thetas]
    values = np.array([end[2] for end in ends])
    if len(wide.X) > len(few.X):
        found = [_value(wide, end[0]) for end in ends]
        values = np.array([-np.inf if one is None else one.value for one in found])
    values = np.nan_to_num(values, nan=-np.inf)
    order = np.argsort(-values, kind="stable")
    return [Start(*ends[i][:2]) for i in order if i == order[0] or values[i] > values[order[0]] - KEPT_BELOW]
