"""Learning with an active set: major steps choose it, minor steps climb with it.

The evidence of an active set (eq. 11) depends on θ directly, and through the choice of rows and their sites, which has no
derivative. So the gradient (eqs. 12, 14) is that with both held. A major step chooses rows and sites at the current θ; from
there a few quasi-Newton steps are taken with the rows held. What becomes of the sites in between is the strategy:

    constant  held as well: value and gradient agree, but the climb goes up another hill if it goes far
    hybrid    set anew, in the same order, before each search direction
    exact     set anew for each evaluation: the right value, with a gradient that is not quite its own

Evidences are comparable at major steps only, and there all rows are in them. A climb with sites held may well end where the
next major step finds the evidence lower; going on from there, and not from the best θ so far, has proved better. Where it is
a gain, climbs are still short, since held sites hold back: the same direction is followed further, with new choices of rows,
as long as that pays. The best major step is what a search returns. There are local maxima: a few starts do more than long
searches.

[SLH] Seeger, Lawrence & Herbrich, sections 3.3 and 6.1.1, appendix C.2.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..engines.active.selection import repeat
from ..gaussian import ActivePosterior, ActiveSites, Sites
from ..kernels import Kernel
from ..likelihoods import Gaussian
from ..sparse import ActiveFit, log_evidence
from .columns import covariances, gathered, gradients
from .objective import Evaluation, Objective
from .optimise import FAILURES, Search, Step, updated_curvature
from .priors import Normal, log_prior

REACH = 5.0  # how far a climb goes from its major step, in each parameter's log
PATIENCE = 4  # major steps in a row without a gain before a search gives up
GAIN = 0.1, 1e-4  # what counts as a gain, in nats: absolute, and relative to the objective
FLAT = 1e-2  # slope below which a climb ends
ARMIJO = 1e-4  # part of what a step promises that it must keep
TRIES = 8  # of a line search
STRETCHES = 4  # of a climb, at most
PACE = 3  # major steps that tell what a search may still gain


def fit_active(objective: Objective, theta: np.ndarray, start: ActiveFit | None = None) -> tuple[ActiveFit, Kernel, object]:
    """An active set chosen at θ, or that of `start` with its sites set anew; kernel and likelihood there."""
    kernel, likelihood = objective.at(theta)
    columns = covariances(kernel, objective.X, likelihood.n_latents)
    return objective.engine.fit(columns, objective.y, likelihood, start=start), kernel, likelihood


def update_active(
    engine: Any, kernel: Kernel, likelihood: Any, earlier: ActiveFit, inputs: np.ndarray, X: np.ndarray, y: np.ndarray
) -> tuple[ActiveFit, np.ndarray]:
    """Take in rows X, y after an earlier fit, of which only `inputs`, the rows that it rests on, are left.

    The new fit's `rows` count the old inputs first, then X; the inputs that it rests on come with it.
    """
    rows = np.concatenate([inputs, X])
    columns = covariances(kernel, rows, likelihood.n_latents)
    fit = engine.update(columns, np.concatenate([earlier.y[earlier.rows], y]), likelihood, earlier)
    return fit, rows[fit.rows]


def maximise_active(
    objective: Objective, start: np.ndarray | None = None, verbose: int = 0, needed: float | None = None
) -> Search:
    """Search for θ by major and minor steps; `objective.engine` is an IVM, whose `strategy`, `major` and `minor` count.

    With `needed`, the search stops when it would not exceed this value even if it went on gaining as it did lately.
    """
    search, idle, major = Search(), 0, objective.engine.major
    theta = np.clip(objective.theta if start is None else start, *objective.bounds.T)
    search.message = f"all {major} climbs were done"
    origin, reached = None, []
    for number in range(major + 1):
        evaluation, gain = _major_step(objective, theta, number, search)
        if origin is not None and gain > 0:
            evaluation = _stretch(objective, origin, evaluation, number, search)
        idle = 0 if gain > GAIN[0] + GAIN[1] * abs(evaluation.value) else idle + 1
        if verbose:
            sys.stderr.write(f"major step {number:2d}  objective {evaluation.value:.3f}\n")
        assert search.best is not None, "a major step that could not be done at first has raised"
        reached.append(search.best.value)
        if needed is not None and _stays_below(needed, reached, major):
            search.message = f"it would not exceed {needed:g}"
            break
        if idle == PATIENCE:
            search.message = f"{PATIENCE} major steps in a row gained next to nothing"
            break
        if number < major:
            theta, origin = _climb(objective, evaluation, number, search), evaluation.theta
            if np.array_equal(theta, origin):
                search.message = "no step uphill is left"
                break
    return search


def _stays_below(needed: float, reached: list[float], major: int) -> bool:
    """Whether the best values after each major step so far, continued at the pace of the last few, end below `needed`."""
    if len(reached) <= PACE:
        return False
    pace = (reached[-1] - reached[-1 - PACE]) / PACE
    return reached[-1] + pace * (major + 1 - len(reached)) < needed


def _major_step(objective: Objective, theta: np.ndarray, number: int, search: Search) -> tuple[Evaluation, float]:
    """Choose an active set at θ (or return to the best so far if that fails), and what the best has gained by it."""
    try:
        fit, kernel, likelihood = fit_active(objective, theta)
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


def _stretch(objective: Objective, origin: np.ndarray, best: Evaluation, number: int, search: Search) -> Evaluation:
    """Go on in the direction of a climb that was a gain, twice as far each time, as long as that is a gain too."""
    move = best.theta - origin
    for _ in range(STRETCHES):
        theta = np.clip(best.theta + move, *objective.bounds.T)
        further, gain = _major_step(objective, theta, number, search)
        if not gain > 0:
            break
        best, move = further, 2 * move
    return best


# minor steps ----------------------------------------------------------------------------------------------------------


@dataclass
class _Hill:
    """The objective with an active set held, over the rows that were candidates to the end."""

    objective: Objective
    fit: ActiveFit  # with the sites as last set
    exact: bool  # whether they are set anew for each evaluation

    @property
    def rows(self) -> np.ndarray | None:
        return self.fit.candidates if len(self.fit.candidates) < len(self.objective.y) - len(self.fit.rows) else None

    def settle(self, theta: np.ndarray) -> None:
        """Set the sites anew at θ."""
        kernel, likelihood = self.objective.at(theta)
        columns = covariances(kernel, self.objective.X, likelihood.n_latents)
        sites = repeat(self.objective.engine, columns, self.fit.at, self.objective.y, likelihood)
        posterior = ActivePosterior(columns, sites)
        self.fit = replace(self.fit, posterior=posterior, likelihood=likelihood)

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        if self.exact:
            self.settle(theta)
        return held_objective(self.objective, theta, self.fit, self.rows)


def held_objective(
    objective: Objective, theta: np.ndarray, fit: ActiveFit, rows: np.ndarray | None = None, carry: bool = True
) -> tuple[float, np.ndarray]:
    """Log evidence over `rows` (all by default) plus log prior at θ, the sites of `fit` held; and its gradient.

    Equations 11, 12 and 14. With `carry` the sites are held as they look from the likelihood, see `carried`.
    """
    kernel, likelihood = objective.at(theta)
    C = likelihood.n_latents
    sinks = gradients(kernel, objective.X, C)
    at, moves = carried(fit.at, fit.likelihood, likelihood) if carry else (fit.at, [])
    held = log_evidence(covariances(kernel, objective.X, C), at, objective.y, likelihood, rows, sinks)
    in_theta = held.in_theta.copy()
    for k, move in moves:
        in_theta[k] += held.in_sites.tau @ move.tau + held.in_sites.nu @ move.nu
    prior, prior_gradient = log_prior(theta, objective.priors)
    gradient = np.concatenate([gathered(sinks), in_theta]) + prior_gradient
    if not (np.isfinite(held.value + prior) and np.all(np.isfinite(gradient))):
        raise FloatingPointError("the evidence of the active set is not finite")
    return held.value + prior, gradient


def carried(at: ActiveSites, old: Any, new: Any) -> tuple[ActiveSites, list[tuple[int, Sites]]]:
    """Sites set under one likelihood, for another with other parameters; and how they move with each parameter.

    Gaussian noise is its own site, whatever its variance. All other sites stay. (For a bias one might think of keeping what
    a site says about the latent value and the bias together; then it hardly moves any more, and searches end lower.)
    """
    if not isinstance(new, Gaussian):
        return at, []
    scale = old.variance / new.variance
    tau, nu = scale * at.sites.tau, scale * at.sites.nu
    return at.with_sites(Sites(tau, nu)), [(0, Sites(-tau, -nu))]


def _climb(objective: Objective, major: Evaluation, number: int, search: Search) -> np.ndarray:
    """Quasi-Newton steps from a major step, with its active set."""
    engine = objective.engine
    assert isinstance(major.fit, ActiveFit), "the engine is an IVM"
    hill = _Hill(objective, major.fit, engine.strategy == "exact")
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
        over = "" if hill.rows is None else f"over {len(hill.rows) + len(hill.fit.rows)} of {len(objective.y)} rows"
        search.history.append(Step(number, iteration, theta.copy(), value, np.nan, 0, over))
    return theta


def _direction(gradient, H, theta, low, high):
    """Uphill by the curvature known so far, and not out of the region where it is steepest on its edge."""
    free = ~(((theta <= low) & (gradient < 0)) | ((theta >= high) & (gradient > 0)))
    slope = np.where(free, gradient, 0.0)
    direction = np.where(free, H @ slope, 0.0) if H is not None else slope / max(1.0, float(np.linalg.norm(slope)))
    return direction if direction @ slope > 0 else slope / max(1.0, float(np.linalg.norm(slope)))


def _line_search(hill, theta, value, gradient, direction, low, high):
    """A step that keeps part of its promise, with value and gradient there; None if there is none."""
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
        # where a parabola through value, slope and value there has its top
        fall = value + promise - there
        step *= float(np.clip(0.5 * promise / fall, 0.1, 0.5)) if np.isfinite(fall) and fall > 0 else 0.25
    return None


# hyperpriors ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InverseWidth:
    """Gamma of shape ½ and mean 1 ("one degree of freedom") on lengthscale²/D, the 1/w of k = v exp(-w |x - z|²/2D). 6.1"""

    n_inputs: int

    def log_density(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        u = np.exp(2 * np.asarray(theta, float)) / self.n_inputs
        return np.log(u) * 0.5 - 0.5 * u, 1.0 - u  # of theta = log lengthscale, but for a constant


def paper_priors(n_inputs: int) -> dict[str, object]:
    """The hyperpriors of section 6.1 for an RBF of D inputs: log variance N(-1, 1), 1/w Gamma, bias N(0, 25)."""
    return {"variance": Normal(-1.0, 1.0), "lengthscale": InverseWidth(n_inputs), "bias": Normal(0.0, 5.0)}
