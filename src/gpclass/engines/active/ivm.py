"""The informative vector machine: EP on an active set that is chosen, row by row, by how much each row would tell.

Each inclusion sets the new row's site once, by matching moments (assumed-density filtering); every other row is screened
before the next. Time O(n d²), memory O(n d), or less with `memory`. With several classes each latent function has an active
set of its own, the functions are independent a posteriori, and a pair of row and function is included at a time.

[SLH] Seeger, Lawrence & Herbrich, Efficient Nonparametric Bayesian Modelling with Sparse Gaussian Process Approximations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ...gaussian import ActivePosterior, ActiveSites, Columns, FullPosterior, MatrixColumns, Sites, log_partition_1d
from ...gaussian.columns import gram
from ...numerics import MEMORY, NotPositiveDefinite
from .. import Engine
from ..contract import require
from ..fit import Fit, NotAvailable, check_problem, check_settings, independent, squeezed
from ..full.ep import EP, moment_rule
from ..iterate import Status, iterate, warn_if_unfinished
from .criterion import walk, with_sites
from .selection import SCORES, Selection, concave_sites, repeat, scoring_blocks, select, tilted
from .update import updated

STRATEGIES = ("constant", "hybrid", "exact")
RESTLESS = 0.1  # a last move that is worth a word, in standard deviations; few sweeps may well leave less than that
ADVICE = (
    "Raise sweeps; or, with several classes, visit sites once (sweeps=0): where most rows have sites for some classes only, "
    "second visits do not settle."
)


@dataclass(frozen=True)
class IVM(Engine):
    """EP on an active set that is chosen greedily."""

    active: int | tuple[int, ...] = 200  # rows in the active set, at most; of several classes all together, or each
    score: str = "information"  # what a row is chosen by: "information" gain, or differential "entropy"
    sweeps: int = 0  # of EP on the active set afterwards, at most; 0 visits each site once
    tol: float = 1e-6  # where these sweeps stop: largest move in posterior standard deviations
    threshold: float = 1e-10  # site precision times marginal variance that a row must bring to be included
    memory: float | None = None  # MiB for candidates' stubs; None keeps all candidates
    keep: float = 0.5  # where candidates are given up: part of those left that are the best, the others are random
    block: int = 50  # inclusions between two looks at the memory
    drift: float = 1e-3  # several classes: moves, in widths, that a row is not screened anew for; 0 scores all exactly
    random_state: int = 0  # for the random part
    # for learning hyperparameters (gpclass.learning.maximise_active)
    strategy: str = "constant"  # what becomes of sites between two choices of rows: "constant", "hybrid" or "exact"
    major: int = 15  # choices of rows, at most
    minor: int = 8  # quasi-Newton steps after each
    # for learning too: from active rows (d, D) to transformed copies (t, d, D), which become candidates in a last choice
    augment: Callable[[np.ndarray], np.ndarray] | None = None

    needs: ClassVar = ("tilted_moments",)
    latents: ClassVar = "any"
    design: ClassVar = "active rows"
    takes_more: ClassVar = True

    def __post_init__(self):
        least = np.min(self.active) if np.size(self.active) else 0
        if least < 1 or np.any(np.asarray(self.active) != np.asarray(self.active, int)):
            raise ValueError(f"active must be a number of rows of at least 1, or one for each class, but is {self.active!r}")
        if self.score not in SCORES:
            raise ValueError(f"score must be one of {', '.join(map(repr, SCORES))}, but is {self.score!r}")
        if self.strategy not in STRATEGIES:
            raise ValueError(f"strategy must be one of {', '.join(map(repr, STRATEGIES))}, but is {self.strategy!r}")
        if self.major < 0 or self.minor < 1:
            raise ValueError(f"major must not be negative and minor at least 1, but they are {self.major} and {self.minor}")
        if self.sweeps < 0 or self.block < 1 or self.drift < 0 or not 0 <= self.threshold < np.inf:
            raise ValueError("sweeps, drift and threshold must not be negative, and block at least 1")
        if not 0 <= self.keep <= 1:
            raise ValueError(f"keep must be in [0, 1], 1 keeps the best only, but is {self.keep}")
        if self.memory is not None and not self.memory > 0:
            raise ValueError(f"memory must be a positive number of MiB, or None, but is {self.memory}")

    def fit(self, K, y, likelihood, start: Any = None) -> ActiveFit:
        """Choose an active set; or take that of `start`, an earlier fit, and set its sites anew in the same order.

        K is an (n, n) matrix or anything with `diag`, `columns` and a length; with several classes one for all or one each.
        """
        covariances, y = prepare_columns(self, K, y, likelihood)
        if start is not None:
            at = repeat(self, covariances, _earlier(start, len(y), likelihood.n_latents), y, likelihood)
            chosen = None
        else:
            chosen = select(self, covariances, y, likelihood, np.random.default_rng(self.random_state))
            at = chosen.at
        if not len(at):
            raise ValueError(
                "no row tells anything: under the prior no site precision times variance exceeds "
                f"threshold={self.threshold:g}. Is the kernel's variance next to nothing?"
            )
        status = Status(True, 1, 0.0)
        if self.sweeps:
            at, status = settled(self, covariances, at, y, likelihood)
            if status.change > RESTLESS and not status.converged:
                warn_if_unfinished(self, replace(status, advice=ADVICE))
        return finished(self, covariances, at, y, likelihood, status, chosen)

    def update(self, K, y, likelihood, earlier: ActiveFit) -> ActiveFit:
        """Take in new rows by assumed-density updates of an earlier posterior, whose rows outside its active set are gone.

        K and y are of the earlier fit's `rows`, in their order, and after them the new rows. The new rows are included one
        by one, most informative first, and then the least informative sites are given up until no more than `active` are
        left. The evidence is that of these rows alone.
        """
        covariances, y = prepare_columns(self, K, y, likelihood)
        if len(y) < len(earlier.rows) or likelihood.n_latents != earlier.likelihood.n_latents:
            raise ValueError(
                f"K and y must begin with the {len(earlier.rows)} rows of the earlier fit, and the likelihood be of its kind"
            )
        at = updated(self, covariances, y, likelihood, earlier.at.renumbered(earlier.rows), len(earlier.rows))
        return finished(self, covariances, at, y, likelihood, Status(True, 1, 0.0), None)

    def evidence_is_comparable(self, likelihood) -> bool:
        """No: rows outside the active set do not count in it."""
        return False

    def restore(self, K, y, likelihood, state) -> ActiveFit:
        """From K (u, u), or (C, u, u), of the rows that predictions need."""
        pairs = {name: (state[f"{name}_mean"], state[f"{name}_var"]) for name in ("cavities", "marginals")}
        q = ActivePosterior.restored(K, len(y), likelihood.n_latents, state)
        more = {**pairs, "scores": state["scores"], "candidates": state["candidates"]}
        return ActiveFit.restored(self, q, y, likelihood, state, **more)

    def evidence_gradient(self, fit: ActiveFit) -> np.ndarray:
        raise NotAvailable(
            "an active set's evidence has derivatives in few of the covariances: see gpclass.sparse.log_evidence"
        )


@dataclass(frozen=True)
class ActiveFit(Fit):
    """A posterior with sites on an active set. `predict` needs covariances with the rows `rows` only."""

    cavities: tuple[np.ndarray, np.ndarray]  # (n, C) means and variances of all rows, each without its own site
    marginals: tuple[np.ndarray, np.ndarray]  # (n, C) means and variances of all rows
    scores: np.ndarray  # (d,) of each inclusion at its time; empty if the active set was given
    candidates: np.ndarray  # rows that could have been included to the end; all, unless memory was bounded

    posterior: ActivePosterior

    def state(self) -> dict[str, Any]:
        pairs = {"cavities": self.cavities, "marginals": self.marginals}
        parts = {f"{name}_{what}": x for name, pair in pairs.items() for what, x in zip(("mean", "var"), pair, strict=True)}
        return {**super().state(), **parts, "scores": self.scores, "candidates": self.candidates}

    @property
    def several(self) -> bool:
        return self.likelihood.n_latents > 1

    @property
    def rows(self) -> np.ndarray:
        """(u,) training rows that predictions need, in the order of inclusion."""
        return self.posterior.rows

    @property
    def active(self) -> Any:
        """Active rows in the order of inclusion: (d,), or with several classes a list of such."""
        return self.posterior.active if self.several else self.posterior.active[0]

    @property
    def at(self) -> ActiveSites:
        """The active rows with their sites, in the order of inclusion."""
        return self.posterior.at

    @property
    def sites(self) -> Sites:
        """Of the active rows, in the order of inclusion."""
        return self.at.sites

    @property
    def mean(self) -> np.ndarray:
        """(n,) or (n, C) marginal means at all training rows."""
        return squeezed(self.marginals[0])

    @property
    def var(self) -> np.ndarray:
        """(n,) or (n, C) marginal variances at all training rows."""
        return squeezed(self.marginals[1])

    @property
    def cov(self) -> np.ndarray:
        """(n, C, C) marginal covariances at all training rows, diagonal."""
        return independent(self.marginals[1])

    @property
    def alpha(self) -> Any:
        """(d,) weights of the active rows' covariances in the mean; with several classes a list of such."""
        return [p.alpha for p in self.posterior.parts] if self.several else self.posterior.parts[0].alpha

    inputs_are: ClassVar[str] = "the training rows that `rows` names"

    @property
    def n_inputs(self) -> int:
        return len(self.rows)

    def moments(self, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, var = self.posterior.predict(*self._checked(Ks, kd))
        return squeezed(mean), squeezed(var)

    def jensen_bound(self) -> float:
        """Lower bound of the log evidence by Jensen's inequality, all rows in it. [NR] (9)"""
        if self.several:
            raise NotAvailable("IVM with several classes has no Jensen bound")
        require(self.likelihood, ("expected_log_prob",), "The Jensen bound")
        expected = self.likelihood.expected_log_prob(self.y, self.mean, self.var)[0]
        return float(np.sum(expected)) - self.posterior.divergence

    def cavity(self) -> tuple[np.ndarray, np.ndarray]:
        """Moments of all rows given the active rows but themselves; the active set is held."""
        return squeezed(self.cavities[0]), squeezed(self.cavities[1])


def prepare_columns(engine, K, y, likelihood) -> tuple[list[Columns], np.ndarray]:
    """One covariance for each latent function and y, after a look at all."""
    check_settings(engine)
    engine.check_likelihood(likelihood)
    if isinstance(K, np.ndarray) or not hasattr(K[0] if isinstance(K, Sequence) else K, "columns"):
        K, y = check_problem(K, y, likelihood, type(engine).__name__)
        matrices = K if K.ndim == 3 else [K] * likelihood.n_latents
        return [MatrixColumns(k) for k in matrices], y
    y, C = likelihood.check_targets(y), likelihood.n_latents
    covariances = list(K) if isinstance(K, Sequence) else [K] * C
    if len(covariances) != C:
        raise ValueError(f"there are {len(covariances)} covariances, but {C} latent functions")
    for covariance in covariances:
        if len(covariance) != len(y) or not len(y):
            raise ValueError(f"the covariance has {len(covariance)} rows but y has {len(y)} labels")
        if not np.all(np.isfinite(covariance.diag)) or np.any(covariance.diag < 0):
            raise ValueError("the covariance has variances that are negative or not finite")
    return covariances, y


def finished(engine, covariances, at, y, likelihood, status: Status, selection: Selection | None) -> ActiveFit:
    """The fit that belongs to sites: marginals and cavities of all rows, and with them the evidence."""
    q = ActivePosterior(covariances, at)
    prior_var = np.stack([k.diag for k in covariances], axis=1)
    mean, var = np.empty((2, *prior_var.shape))
    known = np.zeros(0, int)
    if selection is not None and selection.at is at:  # what it has kept up to date
        known = selection.rows
        mean[known], var[known] = selection.mean, selection.var
    # a block lives in some five arrays for each function
    numbers = MEMORY if engine.memory is None else min(MEMORY, int(engine.memory * 2**17 / (8 * len(covariances))))
    for seen in walk(q, covariances, prior_var, np.setdiff1d(np.arange(len(y)), known), numbers):
        mean[seen.rows], var[seen.rows] = seen.mean, seen.var
    value = _summed(likelihood, y, mean, var) + q.log_partition
    marginals = mean.copy(), var.copy()
    for c, part in enumerate(q.parts):
        cavity_mean, cavity_var = part.cavity()
        value -= float(np.sum(log_partition_1d(cavity_mean, cavity_var, part.sites)))
        marginals[0][q.active[c], c], marginals[1][q.active[c], c] = part.mean, part.var
    scores = np.zeros(0) if selection is None else selection.scores
    candidates = np.arange(len(y)) if selection is None else selection.rows
    return ActiveFit(engine, q, y, likelihood, status, value, (mean, var), marginals, scores, candidates)


def _summed(likelihood, y, mean, var) -> float:
    """Σ log Z_i."""
    parts = (tilted(likelihood, y[some], mean[some], var[some])[0] for some in scoring_blocks(len(y)))
    return sum(float(np.sum(part)) for part in parts)


def _earlier(start, n: int, n_latents: int) -> ActiveSites:
    at = getattr(start, "at", start)
    if not isinstance(at, ActiveSites):
        raise TypeError(f"start must be an earlier fit of IVM, but is {type(start).__name__}")
    if np.max(at.rows, initial=-1) >= n or np.max(at.latents, initial=0) >= n_latents:
        raise ValueError("start's active rows are not among those given")
    return at


# second visits --------------------------------------------------------------------------------------------------------


def settled(engine, covariances, at: ActiveSites, y, likelihood) -> tuple[ActiveSites, Status]:
    """Sites after sweeps of EP over the active rows, which need covariances among these only."""
    if len(covariances) > 1:
        return _several_settled(engine, covariances, at, y, likelihood)
    rows, sites = at.of(0)
    prior = FullPosterior.without_sites(gram(covariances[0], rows))
    loop = EP(tol=engine.tol, max_iter=engine.sweeps)
    q, status = iterate(loop, prior, moment_rule(y[rows], likelihood), sites)
    if np.any(q.sites.tau < 0):
        raise NotPositiveDefinite(
            f"second visits gave sites of negative precision, which {likelihood!r} may ask for but an active set cannot "
            "keep: use sweeps=0"
        )
    return at.with_sites(q.sites), status


def _several_settled(engine, covariances, at, y, likelihood):
    """All sites move together; by less when they do not come closer. Precisions below zero count as zero. (7)"""
    prior_var = np.stack([k.diag for k in covariances], axis=1)
    part, change = 1.0, np.inf
    for sweep in range(1, engine.sweeps + 1):
        q = ActivePosterior(covariances, at)
        cavity = with_sites(q, covariances, prior_var)
        _, slope, curvature = tilted(likelihood, y[cavity.rows], cavity.mean, cavity.var)
        tau, nu = at.sites.tau.copy(), at.sites.nu.copy()
        before, change = change, 0.0
        for c, p in enumerate(q.parts):
            mine, places = at.latents == c, q.places[c]
            wanted = concave_sites(cavity.mean[places, c], cavity.var[places, c], slope[places, c], curvature[places, c])
            d_tau, d_nu = wanted.tau - p.sites.tau, wanted.nu - p.sites.nu
            moves = np.abs(d_tau) * p.var, np.abs(d_nu - d_tau * p.mean) * np.sqrt(p.var)
            change = max(change, *(np.max(move, initial=0.0) for move in moves))
            tau[mine] += part * d_tau
            nu[mine] += part * d_nu
        if change <= engine.tol:
            return at, Status(True, sweep, change)
        part = max(0.5 * part, 0.1) if change > before else part
        at = at.with_sites(Sites(tau, nu))
    return at, Status(False, engine.sweeps, change)
