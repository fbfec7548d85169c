"""Variational multinomial logit: the best Gaussian under Chai's bound of the expected log softmax, classes fully coupled.

    log Z_h = -KL(q ‖ prior) + Σ_i max over b_i, S_i of h(y_i; q_i, b_i, S_i)        a lower bound of log p(y)

As in every engine, the bound defines sites: its slope in the mean, y - b, and its precisions W_i = -2 dh/dV_i. A sweep
factorises B for the current precisions, iterates the mean (log Z_h is concave in it) by Newton steps, whose linear systems
are solved by conjugate gradients with that factorisation, and computes new W. log Z_h increases along the path of V = (K⁻¹ +
W)⁻¹ to the new W: the step is shortened until log Z_h does not decrease, and past sweeps are mixed (Anderson) near
convergence.

[C] Chai 2012, which maximises over b, S, m and V in turn, with the same unique maximum. With p as in mnl_bound.py
log Z_h is max over (m, V), min over p of a function that is convex in p and has, for each p, one maximum over (m, V).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy

from ...gaussian import DenseCoupledPosterior, Sites, matrix_cavity
from ...gaussian.dense_coupled import checked_classes, products
from ...likelihoods.mnl_bound import BoundOptimum, isotropic_bound, maximise_bound
from ...numerics import Factor
from ...numerics.separable import classes_of, combined, inputs_of
from .. import Engine
from ..fit import Fit, prepare_data, sites_of_start
from ..iterate import warn_if_unfinished
from .dense_climb import BoundClimb

START_SCALE = 1.0  # γ of [C] E.3; larger values put b outside the simplex


@dataclass(frozen=True)
class VariationalMNL(Engine):
    """Lower bound of the evidence by a Gaussian with fully coupled classes, which may be correlated a priori. [C]"""

    tol: float = 1e-8  # largest move of a converged run, in posterior standard deviations
    max_iter: int = 200
    damping: float = 1.0  # largest fraction of each step of the precisions
    needs: ClassVar[tuple[str, ...]] = ("expected_log_prob_bound",)
    latents: ClassVar[str] = "several"
    weights: ClassVar[str] = "places"
    correlated: ClassVar[bool] = True
    bounds: ClassVar[bool] = True
    likelihood_names: ClassVar[tuple[str, ...]] = ("softmax",)

    def size(self, n_rows: int, n_latents: int) -> float:
        return float(n_rows * (n_latents - 1))  # the rows of its dense system

    def fit(self, K: Any, y: np.ndarray, likelihood: Any, start: Any = None) -> VariationalFit:
        """Fit; K is (n, n), shared by all classes, (C, n, n), or Separable (see kernels.Correlated)."""
        K, data = _prepared(self, K, y, likelihood)
        votes = data.at_places(np.eye(likelihood.n_classes)[data.y])
        climb = BoundClimb(votes, likelihood, _bound_tol(self), *_start(K, votes, start))
        status, history = climb.maximise(self)
        warn_if_unfinished(self, status)
        return VariationalFit(self, climb.at.q, data.given, likelihood, status, climb.at.value, climb.at.bound, history)

    def restore(self, K: Any, y: np.ndarray, likelihood: Any, state: Mapping[str, Any]) -> VariationalFit:
        q = DenseCoupledPosterior.restored(K, state)
        bound = likelihood.expected_log_prob_bound(q.mean, q.contrast_cov, state["log_b"], _bound_tol(self))
        return VariationalFit.restored(self, q, y, likelihood, state, bound=bound, history=tuple(state["history"]))

    def evidence_gradient(self, fit: VariationalFit) -> Any:
        """Return ½(α αᵀ - W(I + KW)⁻¹), contracted to the structure of K: everything else is stationary. [C] section 6"""
        return fit.posterior.gradient()

    def cavity(self, fit: VariationalFit) -> tuple[np.ndarray, np.ndarray]:
        """Return the moments without one copy of each observation: a site with its label's slope and W of the bound."""
        q, data = fit.posterior, fit.targets
        if data.plain:
            return super().cavity(fit)
        part = np.minimum(data.weight, 1.0)[:, None]
        mean, cov, b, W = (data.places.spread(x) for x in (q.mean, q.cov, fit.bound.b, fit.bound.precision))
        nu = np.eye(fit.likelihood.n_classes)[data.y] - b + np.einsum("icd,id->ic", W, mean)
        return matrix_cavity(mean, cov, part[:, :, None] * W, part * nu)

    def likelihood_gradient(self, fit: VariationalFit) -> np.ndarray:
        return fit.likelihood.theta_gradient(fit.alpha.sum(0))  # a bias shifts the prior mean


@dataclass(frozen=True)
class VariationalFit(Fit):
    """The best Gaussian under the bound; `log_evidence` is log Z_h. [C] (21)"""

    bound: BoundOptimum  # b_i, S_i and W_i at the training points
    history: tuple[float, ...]  # log Z_h after each sweep; it never decreases

    def state(self) -> dict[str, Any]:
        return {**super().state(), "log_b": self.bound.log_b, "history": list(self.history)}

    @property
    def separable(self) -> bool:
        return classes_of(self.posterior.K) is not None

    def predictive_bounds(self, Ks: Any, kd: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return lower and upper bounds (m, C) of the class probabilities ∫ p(y | f) q(f) df at new points. [C] (24), (7)"""
        lower = np.exp(self.likelihood.expected_log_prob_bound(*self.predict(Ks, kd)).of_classes)
        return lower, 1 - (lower.sum(1, keepdims=True) - lower)

    def renormalised_probabilities(self, Ks: Any, kd: Any) -> np.ndarray:
        """Return lower bounds (m, C) scaled to sum to one: the softmax of the mean. [C] (25)

        They are meant for decisions, and over-confident as probabilities.
        """
        return self.likelihood.class_probabilities(self.predict(Ks, kd)[0])

    def jensen_bound(self) -> float:
        """Return log Z_B: the same Gaussian with the exact expected log softmax, by quadrature. [C] (3)"""
        data = self.targets
        mean, cov = (data.places.spread(x) for x in (self.mean, self.cov))
        return data.total(self.likelihood.mean_log_prob(data.y, mean, cov)) - self.posterior.divergence


def prior_evidence_bound(K: Any, n_classes: int) -> float:
    """Return a lower bound of log p(y) for any y, with the prior as q. [C] theorem 10, for any K

    Parameters
    ----------
    K : ndarray of shape (n, n) or (C, n, n), or Separable
        Prior covariances: shared by all classes, one for each class, or correlated between classes.
    n_classes : int
        Number of classes.

    Returns
    -------
    float
        The bound, in nats.
    """
    prior = _prior_covariances(K, n_classes)
    return float(maximise_bound(np.zeros(prior.shape[:2]), prior).value.sum())


def isotropic_evidence_bound(K: Any, n_classes: int, variance: float | None = None) -> float:
    """Return a lower bound of log p(y) for any y, with q = N(0, variance × identity). [C] theorem 9

    K is inverted here. The bound is very loose if K is nearly singular; a singular K raises an error.

    Parameters
    ----------
    K, n_classes
        As for `prior_evidence_bound`.
    variance : float, optional
        Variance of each latent value under q. By default the one with the largest bound.

    Returns
    -------
    float
        The bound, in nats.
    """
    log_det, trace, size = 0.0, 0.0, 0
    for k, F in products(K, n_classes):
        inner = F.T @ F if F.shape[1] == 1 else F @ F.T  # (1, 1) for a separate class
        parts = Factor(np.array(k, float), "K"), Factor(np.array(inner, float), "the covariance between the classes")
        (n, log_k), (q, log_c) = ((len(f.diag_inverse()), f.log_det) for f in parts)
        log_det += q * log_k + n * log_c
        trace += float(parts[0].diag_inverse().sum() * parts[1].diag_inverse().sum())
        size += n * q

    def bound(log_variance):
        v = np.exp(log_variance)
        return 0.5 * (size + size * log_variance - log_det - v * trace) + size / n_classes * isotropic_bound(v, n_classes)

    if variance is not None:
        return float(bound(np.log(variance)))
    best = scipy.optimize.minimize_scalar(lambda t: -bound(t), bracket=(np.log(size / trace) - 1, np.log(size / trace)))
    return float(-best.fun)


def _prior_covariances(K, n_classes):
    """Return the (n, C, C) prior covariances at each datum."""
    return sum(np.diagonal(k)[:, None, None] * (F @ F.T) for k, F in products(K, n_classes))


def _prepared(engine, K, y, likelihood):
    inputs, data = prepare_data(engine, inputs_of(K), y, likelihood)
    classes = classes_of(K)
    if classes is None:
        return inputs, data
    if inputs.ndim != 2:
        raise ValueError(f"the covariances between inputs must be a square matrix, but have shape {inputs.shape}")
    return combined(inputs, checked_classes(classes, likelihood.n_classes)), data


def _bound_tol(engine):
    """Return the tolerance of the search for b and S; the error of log b is about its square."""
    return min(1e-5, 0.1 * np.sqrt(engine.tol))


def _start(K, votes, start):
    """Return a first Gaussian, and log b if known."""
    n, n_classes = shape = votes.shape
    if start is None:
        one = START_SCALE * (np.eye(n_classes) / n_classes - 1 / n_classes**2)  # [C] E.3.1
        W = np.broadcast_to(one, (n, n_classes, n_classes))
        share = votes / votes.sum(1, keepdims=True)
        at_data = START_SCALE * (n_classes * share - 1) / (n_classes - 1)  # [C] E.3.2
        return DenseCoupledPosterior.from_sites(K, Sites(W, np.einsum("icd,id->ic", W, at_data))), None
    if isinstance(start, VariationalFit):
        if start.alpha.shape != shape:
            raise ValueError(f"start was fitted to (points, classes) = {start.alpha.shape}, not {shape}")
        return DenseCoupledPosterior(K, start.posterior.root, start.alpha), start.bound.log_b
    sites = sites_of_start(start)
    if sites is None or np.shape(sites.tau) != (*shape, n_classes):
        raise TypeError(f"start must be an earlier fit of VariationalMNL to {n} points of {n_classes} classes, or its sites")
    return DenseCoupledPosterior.from_sites(K, sites), None
