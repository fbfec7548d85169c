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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ..engines.active.criterion import Held
from ..engines.active.selection import repeat
from ..engines.observations import concatenated, rows_of
from ..gaussian import ActivePosterior, ActiveSites, Sites
from ..kernels import Kernel
from ..likelihoods import Gaussian
from ..progress import interrupted, stops_here, tell
from ..sparse import ActiveFit, log_evidence
from .columns import covariances, gathered, gradients
from .learned import Learned, best_search, learned_from
from .objective import Evaluation, Objective
from .optimise import FAILURES, INTERRUPTED, Search, Step, updated_curvature
from .priors import Normal, log_prior
from .rivals import whole_searches

REACH = 5.0  # largest distance of minor steps from their major step, in the log of each parameter
PATIENCE = 4  # consecutive major steps without a gain after which a search stops
GAIN = 0.1, 1e-4  # smallest increase that counts as a gain, in nats: absolute, and relative to the objective
FLAT = 1e-2  # largest gradient entry below which minor steps end
ARMIJO = 1e-4  # smallest accepted increase, relative to the linear prediction
TRIES = 8  # evaluations of a line search
STRETCHES = 4  # maximal number of further major steps in the same direction
PACE = 3  # major steps from which the remaining gain is extrapolated


def fit_active(objective: Objective, theta: np.ndarray, start: ActiveFit | None = None) -> tuple[ActiveFit, Kernel, object]:
    """Return the fit with an active set selected at θ, or that of `start` with new sites; and kernel and likelihood at θ."""
    kernel, likelihood = objective.at(theta)
    columns = covariances(kernel, objective.X, likelihood.n_latents)
    return objective.engine.fit(columns, objective.y, likelihood, start=start), kernel, likelihood


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


class ActiveRows(Protocol):
    """The rows of a search: those of the objective, or rows that are divided among processes (`crew.active_rows`)."""

    def fit(self, objective: Objective, theta: np.ndarray) -> tuple[ActiveFit, Kernel, Any]:
        """Return the fit with an active set selected at θ, and kernel and likelihood at θ."""

    def repeat(self, objective: Objective, theta: np.ndarray, fit: ActiveFit) -> ActiveFit:
        """Return the fit with the sites of its active rows recomputed at θ, in the same order."""

    def counted(self, objective: Objective, fit: ActiveFit) -> tuple[int, int]:
        """Return the number of rows that minor steps use after this fit, and of all rows."""

    def evidence(
        self, objective: Objective, theta: np.ndarray, fit: ActiveFit, at: ActiveSites, counted: bool
    ) -> tuple[Held, np.ndarray]:
        """Return the evidence at θ with fixed sites, and its gradient in the kernel's parameters.

        If `counted`, minor steps use it: only over the rows that they use.
        """


    def inputs(self, objective: Objective, fit: ActiveFit) -> tuple[np.ndarray, np.ndarray]:
        """Return the inputs (u, D) of the active rows of a fit, and the numbers (u,) of these rows."""


class OwnRows:
    """The rows of the objective."""

    def inputs(self, objective: Objective, fit: ActiveFit) -> tuple[np.ndarray, np.ndarray]:
        return objective.X[fit.rows], fit.rows

    def fit(self, objective: Objective, theta: np.ndarray) -> tuple[ActiveFit, Kernel, Any]:
        return fit_active(objective, theta)

    def repeat(self, objective: Objective, theta: np.ndarray, fit: ActiveFit) -> ActiveFit:
        kernel, likelihood = objective.at(theta)
        columns = covariances(kernel, objective.X, likelihood.n_latents)
        sites = repeat(objective.engine, columns, fit.at, objective.y, likelihood)
        return replace(fit, posterior=ActivePosterior(columns, sites), likelihood=likelihood)

    def counted(self, objective: Objective, fit: ActiveFit) -> tuple[int, int]:
        n, rows = len(objective.y), self._candidates(objective, fit)
        return n if rows is None else len(rows) + len(fit.rows), n

    def evidence(self, objective, theta, fit, at, counted):
        return own_evidence(objective, theta, at, self._candidates(objective, fit) if counted else None)

    def _candidates(self, objective, fit):
        few = fit.candidates is not None and len(fit.candidates) < len(objective.y) - len(fit.rows)
        return fit.candidates if few else None


def own_evidence(
    objective: Objective, theta: np.ndarray, at: ActiveSites, rows: np.ndarray | None = None
) -> tuple[Held, np.ndarray]:
    """Return the evidence of the objective's rows, or some of them, with fixed sites, and its gradient in the kernel."""
    kernel, likelihood = objective.at(theta)
    C = likelihood.n_latents
    sinks = gradients(kernel, objective.X, C)
    held = log_evidence(covariances(kernel, objective.X, C), at, objective.y, likelihood, rows, sinks)
    return held, gathered(sinks)


OWN_ROWS = OwnRows()


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

    search = best_search(whole_searches(objective, starts, active))
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
            idle = 0 if gain > GAIN[0] + GAIN[1] * abs(evaluation.value) else idle + 1
            assert search.best is not None, "a failure of the first major step raises an error"
            tell(f"major step {number}, log evidence {search.best.fit.log_evidence:.2f}")
            reached.append(search.best.value)
            search.message = _ended(reached, needed, idle, major)
            if search.message:
                break
            if number < major:
                theta, origin = _climb(objective, rows, evaluation, number, search), evaluation.theta
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
    """Return why a search need not go on; empty if it should."""
    if interrupted():
        return INTERRUPTED
    if needed is not None and _stays_below(needed, reached, major):
        return f"it would not exceed {needed:g}"
    return f"{PATIENCE} major steps in a row gained almost nothing" if idle == PATIENCE else ""


def _stays_below(needed: float, reached: list[float], major: int) -> bool:
    """Return whether the best values after each major step, extrapolated from the last few, end below `needed`."""
    if len(reached) <= PACE:
        return False
    pace = (reached[-1] - reached[-1 - PACE]) / PACE
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


# minor steps ----------------------------------------------------------------------------------------------------------


@dataclass
class _Hill:
    """The objective with a fixed active set, over the rows that were candidates until the end of the selection."""

    objective: Objective
    rows: ActiveRows
    fit: ActiveFit  # with the current sites
    exact: bool  # whether the sites are recomputed at each evaluation

    def settle(self, theta: np.ndarray) -> None:
        """Recompute the sites at θ."""
        self.fit = self.rows.repeat(self.objective, theta, self.fit)

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        if self.exact:
            self.settle(theta)
        def evidence(at):
            return self.rows.evidence(self.objective, theta, self.fit, at, counted=True)

        return held_sum(self.objective, theta, self.fit, evidence)


def held_objective(
    objective: Objective, theta: np.ndarray, fit: ActiveFit, rows: np.ndarray | None = None, carry: bool = True
) -> tuple[float, np.ndarray]:
    """Return the log evidence plus log prior at θ with fixed sites, and its gradient. Equations 11, 12 and 14.

    Parameters
    ----------
    objective : Objective
        The objective.
    theta : ndarray of shape (p,)
        Hyperparameters.
    fit : ActiveFit
        A fit; its active set and sites are used.
    rows : ndarray of int, optional
        Rows that the evidence includes. The default is all rows.
    carry : bool, default=True
        Whether to adapt the sites to the parameters of the likelihood at θ, see `carried`.

    Returns
    -------
    value : float
        Log evidence plus log prior.
    gradient : ndarray of shape (p,)
        Its gradient.
    """
    return held_sum(objective, theta, fit, lambda at: own_evidence(objective, theta, at, rows), carry)


def held_sum(
    objective: Objective,
    theta: np.ndarray,
    fit: ActiveFit,
    evidence: Callable[[ActiveSites], tuple[Held, np.ndarray]],
    carry: bool = True,
) -> tuple[float, np.ndarray]:
    """Return `held_objective` from a function that computes the evidence for given sites and its gradient in the kernel."""
    _, likelihood = objective.at(theta)
    at, moves = carried(fit.at, fit.likelihood, likelihood) if carry else (fit.at, [])
    held, in_kernel = evidence(at)
    in_theta = held.in_theta.copy()
    for k, move in moves:
        in_theta[k] += held.in_sites.tau @ move.tau + held.in_sites.nu @ move.nu
    prior, prior_gradient = log_prior(theta, objective.priors)
    gradient = np.concatenate([in_kernel, in_theta]) + prior_gradient
    if not (np.isfinite(held.value + prior) and np.all(np.isfinite(gradient))):
        raise FloatingPointError("the evidence of the active set is not finite")
    return held.value + prior, gradient


def carried(at: ActiveSites, old: Any, new: Any) -> tuple[ActiveSites, list[tuple[int, Sites]]]:
    """Return sites adapted from one likelihood to another with other parameters, and their derivatives in each parameter.

    With Gaussian noise the site is the likelihood itself, at any variance. All other sites are unchanged. (For a bias, one
    could fix the sites in terms of the sum of latent value and bias. Then the bias hardly moves, and searches end lower.)
    """
    if not isinstance(new, Gaussian):
        return at, []
    scale = old.variance / new.variance
    tau, nu = scale * at.sites.tau, scale * at.sites.nu
    return at.with_sites(Sites(tau, nu)), [(0, Sites(-tau, -nu))]


def _climb(objective: Objective, rows: ActiveRows, major: Evaluation, number: int, search: Search) -> np.ndarray:
    """Take minor steps: quasi-Newton steps from a major step, with its active set."""
    engine = objective.engine
    assert isinstance(major.fit, ActiveFit), "the engine is an IVM"
    hill = _Hill(objective, rows, major.fit, engine.strategy == "exact")
    low, high = (np.clip(major.theta + side * REACH, *objective.bounds.T) for side in (-1, 1))
    theta, H = major.theta, None
    value, gradient = hill(theta)
    for iteration in range(1, engine.minor + 1):
        if engine.strategy == "hybrid" and iteration > 1:
            hill.settle(theta)
            value, gradient = hill(theta)
        direction = _direction(gradient, H, theta, low, high)
        if np.max(np.abs(direction), initial=0.0) == 0 or np.max(np.abs(gradient)) < FLAT:
            break
        found = _line_search(hill, theta, value, gradient, direction, low, high)
        if found is None:
            break
        new, value, new_gradient = found
        H = updated_curvature(H, new - theta, gradient - new_gradient)
        theta, gradient = new, new_gradient
        used, n = rows.counted(objective, hill.fit)
        over = "" if used == n else f"over {used} of {n} rows"
        search.history.append(Step(number, iteration, theta.copy(), value, np.nan, 0, over))
    return theta


def _direction(gradient, H, theta, low, high):
    """Return an ascent direction from the curvature estimate, without components that leave the box."""
    free = ~(((theta <= low) & (gradient < 0)) | ((theta >= high) & (gradient > 0)))
    slope = np.where(free, gradient, 0.0)
    direction = np.where(free, H @ slope, 0.0) if H is not None else slope / max(1.0, float(np.linalg.norm(slope)))
    return direction if direction @ slope > 0 else slope / max(1.0, float(np.linalg.norm(slope)))


def _line_search(hill, theta, value, gradient, direction, low, high):
    """Return a point that satisfies the Armijo condition, with its value and gradient; None if none is found."""
    step = 1.0
    for _ in range(TRIES):
        new = np.clip(theta + step * direction, low, high)
        promise = gradient @ (new - theta)
        try:
            there, slope = hill(new)
        except FAILURES:
            there, slope = -np.inf, gradient
        if there >= value + ARMIJO * promise and promise > 0:
            return new, there, slope
        # the maximum of the parabola through the value and slope here and the value at the new point
        fall = value + promise - there
        step *= float(np.clip(0.5 * promise / fall, 0.1, 0.5)) if np.isfinite(fall) and fall > 0 else 0.25
    return None


# hyperpriors ----------------------------------------------------------------------------------------------------------


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
