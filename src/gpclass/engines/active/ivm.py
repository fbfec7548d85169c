"""The informative vector machine: EP on an active set that is chosen greedily by information gain.

Each inclusion sets the site of the new row once, by moment matching (assumed-density filtering). All other rows are scored
before the next inclusion. Time O(n d²), memory O(n d), or less with `memory`. With several classes each latent function has
its own active set, the functions are independent a posteriori, and (row, function) pairs are included one at a time.

[SLH] Seeger, Lawrence & Herbrich, Efficient Nonparametric Bayesian Modelling with Sparse Gaussian Process Approximations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ...gaussian import ActivePosterior, ActiveSites, Columns, MatrixColumns, Sites, log_partition_1d
from ...gaussian.columns import given_columns
from ...numerics import MEMORY
from .. import Engine
from ..contract import require
from ..fit import Fit, NotAvailable, check_matrix, check_settings, check_weights, independent, squeezed
from ..iterate import Status
from ..observations import data_of, rows_of, weights_of
from .criterion import walk
from .scores import SCORES, log_masses, row_targets
from .selection import Selection, repeat, select
from .sweeps import sites_after_sweeps
from .update import updated

STRATEGIES = ("constant", "hybrid", "exact")


@dataclass(frozen=True)
class IVM(Engine):
    """EP on a greedily chosen active set."""

    active: int | tuple[int, ...] = 200  # maximum number of active rows; with several classes in total, or for each class
    score: str = "information"  # criterion of the choice: "information" gain or differential "entropy"
    sweeps: int = 0  # maximum number of EP sweeps over the active set afterwards; 0 updates each site once
    tol: float = 1e-6  # these sweeps end when moves, in posterior standard deviations, are smaller
    threshold: float = 1e-10  # smallest site precision times marginal variance of a row to be included
    memory: float | None = None  # MiB for the stubs of candidates; None keeps all candidates
    keep: float = 0.5  # when candidates are dropped: fraction of the kept ones that are the best, the rest are random
    block: int = 50  # inclusions between two memory checks
    drift: float = 1e-3  # several classes: smaller relative moves of marginals are not rescored; 0 scores all exactly
    random_state: int = 0  # seed of the random choice
    # for learning hyperparameters (gpclass.learning.maximise_active)
    strategy: str = "constant"  # sites between two choices of rows: "constant", "hybrid" or "exact"
    major: int = 15  # maximum number of choices of rows
    minor: int = 8  # quasi-Newton steps after each choice
    # also for learning: maps active rows (d, D) to transformed copies (t, d, D), candidates of a final choice
    augment: Callable[[np.ndarray], np.ndarray] | None = None

    needs: ClassVar = ("tilted_moments",)
    latents: ClassVar = "any"
    design: ClassVar = "active rows"
    takes_more: ClassVar = True
    weights: ClassVar = "rows"

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

    def needed_by_weights(self, likelihood, weight) -> tuple[str, ...]:
        return ("tilted_power",) if np.any(weight != 1) else ()

    def fit(self, K, y, likelihood, start: Any = None) -> ActiveFit:
        """Choose an active set, or recompute the sites of the active set of `start`, an earlier fit, in the same order.

        K is an (n, n) matrix or any object with `diag`, `columns` and a length; with several classes one for all or one for
        each.
        """
        covariances, given = prepare_columns(self, K, y, likelihood)
        y = row_targets(given)
        if start is not None:
            at = repeat(self, covariances, _earlier(start, len(y), likelihood.n_latents), y, likelihood)
            chosen = None
        else:
            chosen = select(self, covariances, y, likelihood, np.random.default_rng(self.random_state))
            at = chosen.at
        at, status = sites_after_sweeps(self, covariances, at, y, likelihood)
        return fit_of_sites(self, covariances, at, given, likelihood, status, chosen)

    def update(self, K, y, likelihood, earlier: ActiveFit) -> ActiveFit:
        """Add new rows by assumed-density updates of an earlier posterior. Its rows outside the active set are not needed.

        K and y hold the earlier fit's `rows`, in their order, followed by the new rows. The new rows are included one by
        one, most informative first. Then the least informative sites are removed until at most `active` remain. The evidence
        is that of these rows alone.
        """
        covariances, given = prepare_columns(self, K, y, likelihood)
        y = row_targets(given)
        if len(y) < len(earlier.rows) or likelihood.n_latents != earlier.likelihood.n_latents:
            raise ValueError(
                f"K and y must begin with the {len(earlier.rows)} rows of the earlier fit, with a likelihood of its type"
            )
        at = updated(self, covariances, y, likelihood, earlier.at.renumbered(earlier.rows), len(earlier.rows))
        return fit_of_sites(self, covariances, at, given, likelihood, Status(True, 1, 0.0), None)

    def evidence_is_comparable(self, likelihood) -> bool:
        """Return False: rows outside the active set have no sites."""
        return False

    def restore(self, K, y, likelihood, state) -> ActiveFit:
        """Restore from K (u, u), or (C, u, u), of the rows that predictions need."""
        q = ActivePosterior.restored(K, len(y), likelihood.n_latents, state)
        fields = {"scores": state["scores"], "cavities": None, "marginals": None, "candidates": None}
        if "candidates" in state:
            pairs = {name: (state[f"{name}_mean"], state[f"{name}_var"]) for name in ("cavities", "marginals")}
            fields |= {**pairs, "candidates": state["candidates"]}
        return ActiveFit.restored(self, q, y, likelihood, state, **fields)

    def evidence_gradient(self, fit: ActiveFit) -> np.ndarray:
        raise NotAvailable(
            "the evidence of an active set has derivatives in few of the covariances: see gpclass.sparse.log_evidence"
        )


@dataclass(frozen=True)
class ActiveFit(Fit):
    """A posterior with sites on an active set. `predict` needs covariances with `rows` only.

    A fit without rows (`without_rows`) has the active rows only, numbered from 0 in the order of inclusion: `y` are their
    targets, and `rows` their numbers 0 … u-1.
    """

    cavities: tuple[np.ndarray, np.ndarray] | None  # (n, C) means and variances of all rows, each without its own site
    marginals: tuple[np.ndarray, np.ndarray] | None  # (n, C) means and variances of all rows
    scores: np.ndarray  # (d,) score of each inclusion when it was made; empty if the active set was given
    candidates: np.ndarray | None  # rows that remained candidates until the end; all, unless memory was limited

    posterior: ActivePosterior

    def state(self) -> dict[str, Any]:
        state = {**super().state(), "scores": self.scores}
        if self.cavities is None or self.marginals is None:
            return state
        pairs = {"cavities": self.cavities, "marginals": self.marginals}
        parts = {f"{name}_{what}": x for name, pair in pairs.items() for what, x in zip(("mean", "var"), pair, strict=True)}
        return {**state, **parts, "candidates": self.candidates}

    def without_rows(self) -> ActiveFit:
        """Return a fit for predictions and updates only, whose size does not depend on the number of rows."""
        q = self.posterior.renumbered()
        y = rows_of(self.y, self.rows)
        return replace(self, posterior=q, y=y, cavities=None, marginals=None, candidates=None)

    def _of_all_rows(self, pair: tuple[np.ndarray, np.ndarray] | None) -> tuple[np.ndarray, np.ndarray]:
        if pair is None:
            raise NotAvailable(
                "this fit of IVM keeps its active rows only, not all training rows. For probabilities of left-out rows, use "
                "scikit-learn's cross_val_predict(..., method='predict_proba')"
            )
        return pair

    @property
    def several(self) -> bool:
        return self.likelihood.n_latents > 1

    @property
    def rows(self) -> np.ndarray:
        """(u,) training rows that predictions need, in the order of inclusion."""
        return self.posterior.rows

    @property
    def active(self) -> Any:
        """Active rows in the order of inclusion: (d,), or with several classes a list of such arrays."""
        return self.posterior.active if self.several else self.posterior.active[0]

    @property
    def at(self) -> ActiveSites:
        """The active rows with their sites, in the order of inclusion."""
        return self.posterior.at

    @property
    def sites(self) -> Sites:
        """Sites of the active rows, in the order of inclusion."""
        return self.at.sites

    @property
    def mean(self) -> np.ndarray:
        """(n,) or (n, C) marginal means at all training rows."""
        return squeezed(self._of_all_rows(self.marginals)[0])

    @property
    def var(self) -> np.ndarray:
        """(n,) or (n, C) marginal variances at all training rows."""
        return squeezed(self._of_all_rows(self.marginals)[1])

    @property
    def cov(self) -> np.ndarray:
        """(n, C, C) marginal covariances at all training rows, diagonal."""
        return independent(self._of_all_rows(self.marginals)[1])

    @property
    def alpha(self) -> Any:
        """(d,) weights of the active rows' covariances in the mean; with several classes a list of such arrays."""
        return [p.alpha for p in self.posterior.parts] if self.several else self.posterior.parts[0].alpha

    inputs_are: ClassVar[str] = "the training rows listed in `rows`"

    @property
    def n_inputs(self) -> int:
        return len(self.rows)

    def moments(self, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, var = self.posterior.predict(*self._checked(Ks, kd))
        return squeezed(mean), squeezed(var)

    def jensen_bound(self) -> float:
        """Return a lower bound of the log evidence of all rows, by Jensen's inequality. [NR] (9)"""
        if self.several:
            raise NotAvailable("IVM with several classes has no Jensen bound")
        require(self.likelihood, ("expected_log_prob",), "The Jensen bound")
        expected = self.likelihood.expected_log_prob(np.asarray(self.y), self.mean, self.var)[0]
        return float(weights_of(self.y) @ expected) - self.posterior.divergence

    def cavity(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the moments of all rows given the other active rows; the active set is fixed."""
        mean, var = self._of_all_rows(self.cavities)
        return squeezed(mean), squeezed(var)


def prepare_columns(engine, K, y, likelihood) -> tuple[list[Columns], Any]:
    """Return checked covariances, one for each latent function, and checked targets, an array or Observed."""
    check_settings(engine)
    engine.check_likelihood(likelihood)
    check_weights(engine, y, likelihood)
    y = data_of(engine, y, likelihood).given
    C, covariances = likelihood.n_latents, given_columns(K)
    if covariances is None:
        K = check_matrix(K, len(y), likelihood, type(engine).__name__)
        return [MatrixColumns(k) for k in (K if K.ndim == 3 else [K] * C)], y
    if len(covariances) == 1:
        covariances = covariances * C
    if len(covariances) != C:
        raise ValueError(f"there are {len(covariances)} covariances, but {C} latent functions")
    for covariance in covariances:
        if len(covariance) != len(y) or not len(y):
            raise ValueError(f"the covariance has {len(covariance)} rows but y has {len(y)} labels")
        check_variances(covariance)
    return covariances, y


def check_variances(covariance: Columns) -> None:
    """Raise an error if variances are not those of a covariance."""
    if not np.all(np.isfinite(covariance.diag)) or np.any(covariance.diag < 0):
        raise ValueError("the covariance has variances that are negative or not finite")


def fit_of_sites(engine, covariances, at, given, likelihood, status: Status, selection: Selection | None) -> ActiveFit:
    """Return the fit for given sites: marginals and cavities of all rows, and the evidence."""
    y = row_targets(given)
    q = ActivePosterior(covariances, at)
    prior_var = np.stack([k.diag for k in covariances], axis=1)
    mean, var = np.empty((2, *prior_var.shape))
    known = np.zeros(0, int)
    if selection is not None and selection.at is at:  # its marginals are up to date
        known = selection.rows
        mean[known], var[known] = selection.mean, selection.var
    # a block needs about five arrays for each function
    numbers = MEMORY if engine.memory is None else min(MEMORY, int(engine.memory * 2**17 / (8 * len(covariances))))
    for seen in walk(q, covariances, prior_var, np.setdiff1d(np.arange(len(y)), known), numbers):
        mean[seen.rows], var[seen.rows] = seen.mean, seen.var
    value = log_masses(likelihood, y, mean, var) + q.log_partition
    marginals = mean.copy(), var.copy()
    for c, part in enumerate(q.parts):
        cavity_mean, cavity_var = part.cavity()
        value -= float(np.sum(log_partition_1d(cavity_mean, cavity_var, part.sites)))
        marginals[0][q.active[c], c], marginals[1][q.active[c], c] = part.mean, part.var
    scores = np.zeros(0) if selection is None else selection.scores
    candidates = np.arange(len(y)) if selection is None else selection.rows
    return ActiveFit(engine, q, given, likelihood, status, value, (mean, var), marginals, scores, candidates)


def _earlier(start, n: int, n_latents: int) -> ActiveSites:
    at = getattr(start, "at", start)
    if not isinstance(at, ActiveSites):
        raise TypeError(f"start must be an earlier fit of IVM, but is {type(start).__name__}")
    if np.max(at.rows, initial=-1) >= n or np.max(at.latents, initial=0) >= n_latents:
        raise ValueError("start's active rows are not among those given")
    return at
