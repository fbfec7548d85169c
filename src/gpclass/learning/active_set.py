"""Learning with an active set: major steps select the active set, minor steps optimise θ with it.

The evidence of an active set (eq. 11) depends on θ directly, and through the selection of rows and their sites, which has no
derivative. Therefore the gradient (eqs. 12, 14) is computed with both fixed. A major step selects rows and sites at the
current θ. Then follow a few quasi-Newton steps, the minor steps, with the rows fixed. The strategy determines the sites
during minor steps:

    constant  fixed: value and gradient are consistent, but far from the major step they describe another function
    hybrid    recomputed, in the same order, before each search direction
    exact     recomputed at each evaluation: the value is correct, the gradient only approximate

Evidences are comparable only at major steps, where they include all rows. Minor steps with fixed sites may end at a θ where
the next major step finds a lower evidence. Continuing from there gave better results than returning to the best θ. If the
evidence has increased, the steps are still too short, because fixed sites slow them down. So the search continues in the
same direction, with a new selection of rows each time, as long as the evidence increases. The result is the best major
step. There are local maxima: a few starts help more than a long search.

[SLH] Seeger, Lawrence & Herbrich, sections 3.3 and 6.1.1, appendix C.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..engines.observations import concatenated, rows_of
from ..kernels import Kernel
from ..progress import interrupted, stops_here, tell
from ..sparse import ActiveFit
from .active_evidence import OWN_ROWS, ActiveRows, held_sum
from .active_steps import minor_steps
from .columns import covariances
from .history import INTERRUPTED, Search, Step, best_of
from .learned import Learned, learned_from
from .objective import FAILURES, Evaluation, Objective
from .priors import Normal, log_prior
from .rivals import whole_searches

IDLE_STEPS = 4  # consecutive major steps without a gain after which a search stops
COUNTED_GAIN = 0.1, 1e-4  # smallest increase that counts as a gain, in nats: absolute, and relative to the objective
STRETCHES = 4  # largest number of further major steps in the same direction
PACE_STEPS = 3  # major steps from which the remaining gain is extrapolated


def update_active(
    engine: Any, kernel: Kernel, likelihood: Any, earlier: ActiveFit, inputs: np.ndarray, X: np.ndarray, y: Any
) -> tuple[ActiveFit, np.ndarray]:
    """Update an earlier fit with new rows. Of the earlier rows only the active ones are needed.

    Parameters
    ----------
    engine : Engine
        An IVM.
    kernel : Kernel
        The kernel.
    likelihood : Likelihood
        The likelihood.
    earlier : ActiveFit
        The earlier fit.
    inputs : ndarray of shape (u, D)
        Its active inputs.
    X : ndarray of shape (n, D)
        New inputs.
    y : ndarray of shape (n,) or Observed
        Their targets; with weights as `Observed`.

    Returns
    -------
    fit : ActiveFit
        The new fit. Its `rows` number the earlier inputs first, then the rows of X.
    inputs : ndarray of shape (v, D)
        Its active inputs.
    """
    rows = np.concatenate([inputs, X])
    columns = covariances(kernel, rows, likelihood.n_latents)
    targets = concatenated(rows_of(earlier.y, earlier.rows), y)
    fit = engine.update(columns, targets, likelihood, earlier)
    return fit, rows[fit.rows]


def learn_active_set(
    objective: Objective, starts: Sequence[np.ndarray], rows: ActiveRows = OWN_ROWS
) -> Learned:
    """Return the result of searches from each of `starts`. An empty list keeps the hyperparameters fixed."""
    if not starts:
        fit, kernel, likelihood = rows.fit(objective, objective.theta)
        inputs, numbers = rows.inputs(objective, fit)
        return Learned(fit, kernel, likelihood, inputs, [], 1, numbers)

    def active(some, start, hold=False, like=None, needed=None):
        return maximise_active(_held(some) if hold else some, start, needed, rows)

    search = best_of(whole_searches(objective, starts, active))
    fit, theta = search.best.fit, search.best.theta
    learned = learned_from(search, fit, *rows.inputs(objective, fit))
    slopes = held_sum(objective, theta, fit, lambda at: rows.evidence(objective, theta, fit, at, counted=False))[1]
    return replace(learned, slopes=slopes)


def _held(objective):
    """Return the objective with an engine that selects rows once and keeps the hyperparameters fixed."""
    return replace(objective, engine=replace(objective.engine, major=0))


def maximise_active(
    objective: Objective,
    start: np.ndarray | None = None,
    needed: float | None = None,
    rows: ActiveRows = OWN_ROWS,
) -> Search:
    """Optimise θ by major and minor steps.

    Parameters
    ----------
    objective : Objective
        The objective. Its engine is an IVM, with the settings `strategy`, `major` and `minor`.
    start : ndarray of shape (p,), optional
        Initial hyperparameters. The default is those of the objective.
    needed : float, optional
        Stop when the recent rate of gain, extrapolated, would not exceed this value.
    rows : ActiveRows, optional
        The rows. The default is those of the objective.

    Returns
    -------
    Search
    """
    search, idle, major = Search(), 0, objective.engine.major
    theta = np.clip(objective.theta if start is None else start, *objective.bounds.T)
    origin, reached = None, []
    for number in range(major + 1):
        try:
            evaluation, gain = _major_step(objective, rows, theta, number, search)
            if origin is not None and gain > 0:
                evaluation = _stretch(objective, rows, origin, evaluation, number, search)
            idle = 0 if gain > COUNTED_GAIN[0] + COUNTED_GAIN[1] * abs(evaluation.value) else idle + 1
            assert search.best is not None, "a failure of the first major step raises an error"
            tell(f"major step {number}, log evidence {search.best.fit.log_evidence:.2f}")
            reached.append(search.best.value)
            search.message = _ended(reached, needed, idle, major)
            if search.message:
                break
            if number < major:
                theta, origin = minor_steps(objective, rows, evaluation, number, search), evaluation.theta
                if np.array_equal(theta, origin):
                    search.message = "no step increases the objective"
                    break
        except KeyboardInterrupt:
            if search.best is None or not stops_here(f"{number} major steps"):
                raise
            search.message = INTERRUPTED
            break
    else:
        search.message = f"the limit of {major} rounds of minor steps was reached"
    return search


def _ended(reached: list[float], needed: float | None, idle: int, major: int) -> str:
    """Return why a search should stop; empty if it should continue."""
    if interrupted():
        return INTERRUPTED
    if needed is not None and _stays_below(needed, reached, major):
        return f"it would not exceed {needed:g}"
    return f"{IDLE_STEPS} major steps in a row gained almost nothing" if idle == IDLE_STEPS else ""


def _stays_below(needed: float, reached: list[float], major: int) -> bool:
    """Return whether the best values after each major step, extrapolated from the last few, end below `needed`."""
    if len(reached) <= PACE_STEPS:
        return False
    pace = (reached[-1] - reached[-1 - PACE_STEPS]) / PACE_STEPS
    return reached[-1] + pace * (major + 1 - len(reached)) < needed


def _major_step(
    objective: Objective, rows: ActiveRows, theta: np.ndarray, number: int, search: Search
) -> tuple[Evaluation, float]:
    """Select an active set at θ; return the evaluation and the gain over the best. On failure return the best evaluation."""
    try:
        fit, kernel, likelihood = rows.fit(objective, theta)
    except FAILURES as error:
        if search.best is None:
            raise
        search.history.append(Step(number, 0, theta.copy(), np.nan, np.nan, 0, str(error)))
        return search.best, 0.0
    value = fit.log_evidence + log_prior(theta, objective.priors)[0]
    search.history.append(Step(number, 0, theta.copy(), value, fit.log_evidence, fit.n_iter))
    search.n_iter += 1
    none = np.full(len(theta), np.nan)  # no gradient
    evaluation = Evaluation(theta.copy(), value, none, fit, kernel, likelihood, objective.design, None)
    gain = np.inf if search.best is None else value - search.best.value
    if gain > 0:
        search.best = evaluation
    return evaluation, gain


def _stretch(
    objective: Objective, rows: ActiveRows, origin: np.ndarray, best: Evaluation, number: int, search: Search
) -> Evaluation:
    """Continue in the direction of minor steps that gave a gain, doubling the step as long as the evidence increases."""
    move = best.theta - origin
    for _ in range(STRETCHES):
        theta = np.clip(best.theta + move, *objective.bounds.T)
        further, gain = _major_step(objective, rows, theta, number, search)
        if not gain > 0:
            break
        best, move = further, 2 * move
    return best


@dataclass(frozen=True)
class InverseWidth:
    """Gamma of shape ½ and mean 1 ("one degree of freedom") on lengthscale²/D = 1/w in k = v exp(-w |x - z|²/2D). 6.1"""

    n_inputs: int

    def log_density(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        u = np.exp(2 * np.asarray(theta, float)) / self.n_inputs
        return np.log(u) * 0.5 - 0.5 * u, 1.0 - u  # in theta = log lengthscale, up to a constant


def paper_priors(n_inputs: int) -> dict[str, object]:
    """Return the hyperpriors of section 6.1 for an RBF of D inputs: log variance N(-1, 1), 1/w Gamma, bias N(0, 25)."""
    return {"variance": Normal(-1.0, 1.0), "lengthscale": InverseWidth(n_inputs), "bias": Normal(0.0, 5.0)}
