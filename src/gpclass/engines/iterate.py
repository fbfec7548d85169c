"""The loop shared by all engines whose sites are a function of the current marginals.

An engine provides a *rule*: a function of the posterior that returns the slope and curvature that the log of each site
should have, and the point where it should have them. The curvatures are the site precisions τ, and only a change of τ needs
a new factorisation. For given τ the mean is iterated to convergence by chord Newton steps, which need only matrix-vector
products. So a sweep is: factorise, iterate the mean, compute new τ. The τ are extrapolated near convergence, and damped if
they do not converge.

Moves are measured in units of the posterior: a mean step δ by √(δᵀ V⁻¹ δ), the largest number of standard deviations by
which it moves any linear function of f, and each ν separately; a precision by the relative change of its marginal variance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..gaussian import SMALLER, Sites, too_large
from ..numerics import NotPositiveDefinite
from ..numerics.separable import inputs_of
from .ahead import MIN_SITES, NEVER, LookAhead
from .climb import MIXED_SWEEPS
from .path import SitePath
from .settle import Posterior, Rule, SiteTarget, settle_mean

__all__ = ["SiteTarget", "Status", "ending", "iterate", "require_finite", "stands_still", "warn_if_unfinished"]

# tolerance of the mean as a fraction of the next move of τ. It is zero for Newton rules, whose τ depend only on the mean
MEAN_TOL = 0.02
MAX_ROUNDING = 1e-3  # largest rounding of a converged posterior, in standard deviations
FATAL_ROUNDING = 0.1  # rounding that may exceed the identity in B = I + √τ K √τ
NEGATIVE_SITES_ADVICE = (
    "Some site precisions are negative: allow more label noise (raise epsilon), lower damping or raise max_iter."
)


@dataclass(frozen=True)
class Status:
    """How a run ended."""

    converged: bool
    n_iter: int  # sweeps, one factorisation each
    change: float  # last move, in units of the posterior
    message: str = ""  # set if the run ended in an unusual way
    advice: str = ""  # why it did not converge, and what to do


def iterate(
    engine,
    prior: Posterior,
    rule: Rule,
    start: Sites | None = None,
    value: Callable[[Posterior], float] | None = None,
    scale: Callable[[Posterior], np.ndarray] = attrgetter("var"),
    memory: int = MIXED_SWEEPS,
    ahead: float = NEVER,
) -> tuple[Posterior, Status]:
    """Repeat `rule` until the posterior moves by less than `engine.tol`, for at most `engine.max_iter` sweeps.

    `prior` is a posterior without sites, of any structure. `rule` returns targets for one copy of each observation.

    `value`, if given, is an objective that must not decrease: a sweep that decreases it is undone and shortened.
    `scale` returns the variances in which moves of τ are measured; an upper bound is enough if the exact ones are expensive.
    `memory` is the number of past sweeps to extrapolate from; use 0 for rules that are Newton steps already.
    `ahead` is the number of sweeps after which near convergence the rule is repeated with predicted variances between two
    factorisations (`LookAhead`), unless damping is asked for. For rules that depend only on the mean, the cavities and the
    sites.
    """
    if np.ndim(prior.weight):
        rule = _counted(rule)
    if start is None or not np.any(start.tau):
        start = rule(prior).sites  # the prior's marginals need no factorisation
    q = prior.renewed(start)
    path = SitePath(engine.damping, memory, np.inf if value is None else 1.0)
    change = np.inf
    look = LookAhead(engine.tol) if engine.damping == 1 and len(start.tau) >= MIN_SITES else None
    for sweep in range(1, engine.max_iter + 1):
        q, target, gap = settle_mean(q, rule, scale, engine.tol, MEAN_TOL if memory else 0.0)
        if value is not None and not path.accepts(value(q), len(q.mean) * q.rounding):
            q = path.step_back()
            continue
        wanted = target.tau
        change = float(np.maximum(gap, (np.abs(wanted - q.sites.tau) * scale(q)).max(initial=0.0)))
        require_finite(engine, change, q.prior_var)
        if stands_still(q, change, engine.tol):
            return q, ending(q, sweep, change, engine.tol)
        predicted = look.from_here(q, rule, wanted, change) if look is not None and sweep > ahead else None
        q = path.advance(q, wanted, change, scale(q)) if predicted is None else path.jump(q, predicted, change)
    q = path.last or q  # the last posterior with a converged mean
    return q, ending(q, sweep, change, engine.tol)


def _counted(rule: Rule) -> Rule:
    """Return the rule for all copies of each observation."""
    return lambda q: rule(q).times(q.weight)


def stands_still(q: Posterior, change: float, tol: float) -> bool:
    """Return whether a move is below the tolerance or below the rounding of K."""
    return bool(change < tol or change <= q.rounding)


def require_finite(engine, change: float, prior_var: np.ndarray) -> None:
    if not np.isfinite(change):
        raise FloatingPointError(
            f"{type(engine).__name__}: the results of the likelihood are not finite, or lost in rounding, under prior "
            f"variances of {np.max(prior_var):.0e}: {SMALLER}."
        )


def ending(q: Posterior, n_iter: int, change: float, tol: float = 0.0) -> Status:
    """Return how a run ended; raise if rounding of K leaves no correct digits."""
    rounding = q.rounding
    if rounding > MAX_ROUNDING:
        why = too_large(inputs_of(q.K))
        if rounding > FATAL_ROUNDING:
            raise NotPositiveDefinite(why)
        return Status(False, n_iter, max(change, rounding), advice=why)
    if stands_still(q, change, tol):
        return Status(True, n_iter, change)
    tau = q.sites.tau
    return Status(False, n_iter, change, advice=NEGATIVE_SITES_ADVICE if tau.ndim == 1 and np.any(tau < 0) else "")


def warn_if_unfinished(engine, status: Status, stacklevel: int = 3) -> None:
    if status.converged:
        return
    advice = status.advice or f"Lower damping (now {engine.damping:g}) or raise max_iter (tol={engine.tol:g})."
    warnings.warn(
        f"{type(engine).__name__} stopped after {status.n_iter} sweeps with the posterior still moving by "
        f"{status.change:.0e} standard deviations. {advice}",
        ConvergenceWarning,
        stacklevel=stacklevel,
    )
