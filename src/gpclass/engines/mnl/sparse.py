"""Variational multinomial logit on inducing variables: the best Gaussian of the form p(f | z) q(z) under Chai's bound.

    log Z̃_h = -KL(q(z) ‖ p(z)) + Σ_i max over b_i, S_i of h(y_i; q_i, b_i, S_i)        a lower bound of log p(y)

At each marginal q_i the bound is maximised over b_i and S_i (likelihoods/mnl_bound.py), which gives its slope y - b and its
curvature in the mean, and the site precision W_i = -2 dh/dV_i. Then mean and covariance of z are updated together: the mean
by a Newton step, M towards ΦᵀWΦ, mixed with past sweeps (Anderson). If log Z̃_h would decrease, the mean is updated alone
after the new covariance, or both steps are shortened. A sweep costs O(n C³ + n C s² + s³), with uncorrelated classes O(n C³
+ n C² s + n s² + s³).

[C] Chai 2012, sections 4 and 6. It maximises over b, S, m and V in turn instead, with the same maximum.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...gaussian import InducingCovariance, InducingGradient, InducingPosterior, InducingPrior, Sites
from ...likelihoods.mnl_bound import multinomial_root
from ...numerics.separable import inputs_of
from .. import Engine
from ..fit import check_settings, check_weights
from ..iterate import warn_if_unfinished
from ..observations import Data, data_of, weights_of
from .dense import START_SCALE, VariationalFit
from .inducing_set import InducingSet, RowCovariance
from .selection import SELECTIONS, choose
from .sparse_climb import SparseBoundClimb, weighted_precision

DEFAULT_VARIABLES = 100  # number of inducing variables
DEFAULT_BATCHES = 8  # in which an inducing set is chosen
GROWTH_TOL = 1e-2  # while the inducing set grows: an error of about 1e-4 nats, the square


@dataclass(frozen=True)
class SparseVariationalMNL(Engine):
    """Lower bound of the evidence by a Gaussian on inducing variables, with fully coupled classes. [C]"""

    inducing: int | None = None  # number of variables, each one class at one row; None: 100, or all if fewer
    selection: str = "active"  # by increase of the bound; or "random"; in learning also "k-means"
    whole: bool = False  # whether rows are chosen with the values of all classes, or of single ones
    batch: int | None = None  # variables added at a time; None: an eighth of all
    subsample: int = 5  # data on which each candidate is first scored (score d3); 0 makes the shortlist random
    shortlist: int | None = None  # candidates then scored on all data (score d2); None: four times a batch
    apart: bool = True  # whether similar variables in a batch have less weight
    jitter: float = 1e-8  # noise of the inducing variables, relative to their variances
    tol: float = 1e-8  # largest move of a converged run, in posterior standard deviations
    max_iter: int = 200
    damping: float = 1.0  # largest fraction of each step
    random_state: int = 0  # seed of the random choices
    # for learning hyperparameters (gpclass.learning.maximise_inducing)
    steps: int = 1  # optimiser steps between two batches
    move: bool = False  # whether inducing inputs are optimised at the end
    needs: ClassVar[tuple[str, ...]] = ("expected_log_prob_bound",)
    latents: ClassVar[str] = "several"
    design: ClassVar[str] = "inducing pairs"
    correlated: ClassVar[bool] = True
    weights: ClassVar[str] = "rows"
    bounds: ClassVar[bool] = True

    def __post_init__(self):
        check_settings(self)
        for name, least in (("inducing", 1), ("subsample", 0), ("shortlist", 1), ("batch", 1), ("steps", 0)):
            value = getattr(self, name)
            if value is not None and (value < least or value != int(value)):
                raise ValueError(f"{name} must be an integer of at least {least}, but is {value!r}")
        if self.selection not in SELECTIONS:
            raise ValueError(f"selection must be one of {', '.join(map(repr, SELECTIONS))}, but is {self.selection!r}")
        if not 0 <= self.jitter < 1:
            raise ValueError(f"jitter must be in [0, 1), but is {self.jitter}")

    def fit(self, K: Any, y: Any, likelihood: Any, start: Any = None) -> SparseFit:
        """Fit with the inducing variables of K, an InducingCovariance, or with rows that the engine chooses.

        In the second case K is (n, n), shared by all classes, (C, n, n), Separable, or has columns computed on demand
        (gaussian.columns); `start`, an earlier fit of this kind, fixes the choice.
        """
        y = _prepared(self, y, likelihood)  # an array or Observed
        C = likelihood.n_classes
        if isinstance(K, InducingCovariance):
            return self._fit(K.checked(len(y), C), y, likelihood, start, None)
        if self.selection == "k-means":
            raise ValueError(
                'selection="k-means" needs the inputs, which engines do not have: use learning.maximise_inducing, or give '
                "the covariances with the centres as an InducingCovariance"
            )
        covariance = RowCovariance.of(K, C)
        if len(covariance) != len(y):
            raise ValueError(f"the covariance has {len(covariance)} rows but y has {len(y)} labels")
        earlier = getattr(start, "chosen", None)
        if earlier is not None:
            return self._fit(covariance.inducing(earlier), y, likelihood, start, earlier)
        return grown(self, covariance, y, likelihood)

    def _fit(self, K: InducingCovariance, y, likelihood, start, chosen: InducingSet | None) -> SparseFit:
        prior, data = InducingPrior(K, likelihood.n_classes, self.jitter), data_of(self, y, likelihood)
        q, log_b = _start(prior, data, likelihood, start)
        climb = SparseBoundClimb(data, likelihood, q, log_b)
        status = climb.maximise(self)
        warn_if_unfinished(self, status)
        at = climb.at
        return SparseFit(self, at.q, y, likelihood, status, at.value, at.bound, tuple(climb.history), at.wanted, chosen)

    def restore(self, K: Any, y: Any, likelihood: Any, state: Mapping[str, Any]) -> SparseFit:
        """Restore from the covariances among the inducing inputs."""
        q = InducingPosterior.restored(K, likelihood.n_classes, self.jitter, state)
        bound = likelihood.expected_log_prob_bound(q.mean, q.cov, state["log_b"])
        rows = state["chosen"]
        chosen = None if rows is None else InducingSet(rows, state["inputs"], state["classes"])
        more = {"bound": bound, "history": tuple(state["history"]), "wanted": q.M, "chosen": chosen}
        return SparseFit.restored(self, q, y, likelihood, state, **more)

    def evidence_gradient(self, fit: SparseFit) -> InducingGradient:
        """Return derivatives in covariances of inducing inputs, of data with these, and in the data's variances. [C] C.4"""
        W, _ = weighted_precision(fit.bound, weights_of(fit.y))
        return fit.posterior.gradient(fit.slope(weights_of(fit.y)), W, fit.wanted)

    def likelihood_gradient(self, fit: SparseFit) -> np.ndarray:
        return fit.likelihood.theta_gradient(fit.slope(weights_of(fit.y)).sum(0))


@dataclass(frozen=True)
class SparseFit(VariationalFit):
    """The best Gaussian on inducing variables; `log_evidence` is log Z̃_h. [C] (32)

    `predict` and related methods take covariances Ks (t, m) of the t inducing inputs with m new points, and kd (m,).
    """

    posterior: InducingPosterior
    wanted: np.ndarray  # (s, s) ΦᵀWΦ with the W of the bound; equals M at the optimum
    chosen: InducingSet | None  # the rows of the inducing inputs, if the engine or learning chose rows

    def state(self) -> dict[str, Any]:
        return {**super().state(), "chosen": None if self.chosen is None else self.chosen.rows}

    @property
    def rows(self) -> np.ndarray:
        """(t,) training rows that predictions need."""
        if self.chosen is None:
            raise AttributeError("the inducing inputs were given as covariances: their rows are not known")
        return self.chosen.rows

    def slope(self, weight: np.ndarray) -> np.ndarray:
        """Return the slopes (n, C) of the bounds of all data in the means, times weights (n,)."""
        return weight[:, None] * (np.eye(self.likelihood.n_classes)[np.asarray(self.y)] - self.bound.b)

    @property
    def sites(self) -> Sites:
        """(W, ν) at all data, times weights."""
        weight = weights_of(self.y)
        W, _ = weighted_precision(self.bound, weight)
        return Sites(W, self.slope(weight) + np.einsum("icd,id->ic", W, self.mean))

    inputs_are: ClassVar[str] = "inducing inputs"

    @property
    def n_inputs(self) -> int:
        return inputs_of(self.posterior.K).shape[-1]

    def cavity(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the cavities as in every fit; the inducing set is fixed."""
        part = np.minimum(weights_of(self.y), 1.0)
        return self.posterior.cavity(self.slope(part), weighted_precision(self.bound, part)[0])


def _prepared(engine, y, likelihood):
    check_settings(engine)
    engine.check_likelihood(likelihood)
    check_weights(engine, y, likelihood)
    y = data_of(engine, y, likelihood).given
    if not len(y):
        raise ValueError("y is empty: there must be at least one training point")
    return y


# choosing the inducing set ----------------------------------------------------------------------------------------------


def grown(engine: SparseVariationalMNL, covariance: RowCovariance, y: Any, likelihood: Any) -> SparseFit:
    """Return a fit with inducing variables chosen batch by batch."""
    rng = np.random.default_rng(engine.random_state)
    chosen, fit = InducingSet.empty(), None
    sizes = batches(engine, len(covariance), covariance.n_classes)
    rough = replace(engine, tol=max(engine.tol, GROWTH_TOL))
    for size in sizes:
        chosen = choose(engine, fit, covariance, chosen, size, rng)
        with warnings.catch_warnings():
            if size < sizes[-1]:
                warnings.simplefilter("ignore", ConvergenceWarning)  # the last fit warns
            fit = (rough if size < sizes[-1] else engine)._fit(covariance.inducing(chosen, fit), y, likelihood, fit, chosen)
    assert fit is not None, "there is at least one batch"
    return fit


def batches(engine: SparseVariationalMNL, n: int, n_classes: int) -> list[int]:
    """Return the sizes of the set after each batch."""
    unit = n_classes if engine.whole else 1
    target = set_size(engine, n, n_classes) // unit * unit
    if not target:
        raise ValueError(f"inducing={engine.inducing} is less than the {unit} classes of one row, and whole=True")
    if engine.selection != "active":
        return [target]
    step = -(-target // DEFAULT_BATCHES) if engine.batch is None else engine.batch
    step = -(-step // unit) * unit
    return [*range(step, target, step), target]


def set_size(engine: SparseVariationalMNL, n: int, n_classes: int) -> int:
    """Return the number of inducing variables for n rows."""
    most = n * n_classes
    if engine.inducing is None:
        return min(DEFAULT_VARIABLES, most)
    if engine.inducing > most:
        raise ValueError(f"inducing={engine.inducing} is more than the {n} × {n_classes} latent values")
    return engine.inducing


# starting points ----------------------------------------------------------------------------------------------------------


def _start(prior: InducingPrior, data: Data, likelihood, start) -> tuple[InducingPosterior, np.ndarray | None]:
    """Return a first Gaussian, and log b if known."""
    n, C = len(data.y), likelihood.n_classes
    if start is None:
        scale = np.sqrt(START_SCALE * np.broadcast_to(data.weight, n))
        root = scale[:, None, None] * multinomial_root(np.full(C, -np.log(C)))
        W = root @ np.swapaxes(root, 1, 2)
        at_data = START_SCALE * (C * np.eye(C)[data.y] - 1) / (C - 1)  # [C] E.3.2
        return _from_sites(prior, W, root, np.einsum("icd,id->ic", W, at_data)), None
    if not isinstance(start, SparseFit) or start.bound.b.shape != (n, C):
        raise TypeError(f"start must be an earlier fit of SparseVariationalMNL to {n} points of {C} classes")
    if _contains(prior, start.posterior.prior):
        return start.posterior.extended(prior), start.bound.log_b
    sites, (_, root) = start.sites, weighted_precision(start.bound, weights_of(start.y))
    return _from_sites(prior, sites.tau, root, sites.nu), start.bound.log_b


def _from_sites(prior, W, root, nu):
    q = InducingPosterior(prior, np.zeros(len(prior)), prior.gram(W, root))
    return q.shifted(q.times_A(prior.transposed(nu)))


def _contains(new: InducingPrior, old: InducingPrior) -> bool:
    """Return whether the variables of `old` are the first ones of `new`, under the same covariances."""
    s, t = len(old), inputs_of(old.K.uu).shape[-1]
    if len(new) < s or new.jitter != old.jitter or not np.array_equal(new.between, old.between):
        return False
    same = np.array_equal(new.K.inputs[:s], old.K.inputs) and np.array_equal(new.K.classes[:s], old.K.classes)
    if not same or inputs_of(new.K.uu).ndim != inputs_of(old.K.uu).ndim:
        return False
    pairs = (
        (inputs_of(new.K.uu)[..., :t, :t], inputs_of(old.K.uu)),
        (inputs_of(new.K.fu)[..., :t], inputs_of(old.K.fu)),
        (inputs_of(new.K.diag), inputs_of(old.K.diag)),
    )
    return all(a.shape == b.shape and np.allclose(a, b, rtol=1e-10, atol=1e-10 * np.abs(b).max()) for a, b in pairs)
