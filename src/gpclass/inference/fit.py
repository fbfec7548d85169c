"""What every engine returns, and the checks that every engine makes of what it is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import likelihoods as _likelihoods
from ..gaussian import FactorialPosterior, FullPosterior, Sites
from ..likelihoods import Likelihood
from .iterate import Status


@dataclass(frozen=True)
class Fit:
    """A Gaussian approximation to the posterior, with its evidence."""

    engine: Any
    posterior: FullPosterior | FactorialPosterior
    y: np.ndarray  # (n,) targets as the likelihood takes them
    likelihood: Any
    status: Status
    log_evidence: float  # by the engine's own formula

    @property
    def converged(self) -> bool:
        return self.status.converged

    @property
    def n_iter(self) -> int:
        """Sweeps, one factorisation each."""
        return self.status.n_iter

    @property
    def mean(self) -> np.ndarray:
        """(n,) marginal means at the training points."""
        return self.posterior.mean

    @property
    def var(self) -> np.ndarray:
        """(n,) marginal variances at the training points."""
        return self.posterior.var

    @property
    def alpha(self) -> np.ndarray:
        """(n,) K⁻¹ mean."""
        return self.posterior.alpha

    @property
    def sites(self) -> Sites:
        if not isinstance(self.posterior, FullPosterior):
            raise AttributeError(f"the posterior of {type(self.engine).__name__} is not made of scalar sites")
        return self.posterior.sites

    @property
    def W(self) -> np.ndarray:
        """(n,) precisions of the effective likelihood. [NR] (7)"""
        return self.sites.tau

    def evidence_gradient(self) -> np.ndarray:
        """(n, n) symmetric G with d log_evidence = Σ G_ij dK_ij."""
        return self.engine.evidence_gradient(self)

    def likelihood_gradient(self) -> np.ndarray:
        """(p,) d log_evidence / d likelihood.theta."""
        if not len(self.likelihood.theta):
            return np.zeros(0)
        return np.asarray(self.engine.likelihood_gradient(self))

    def predict(self, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Latent mean and variance, each (m,), from cross covariances Ks (n, m) and prior variances kd (m,)."""
        Ks, kd = np.asarray(Ks, float), np.asarray(kd, float)
        if Ks.ndim != 2 or len(Ks) != len(self.y) or kd.shape != (Ks.shape[1],):
            raise ValueError(
                f"Ks must be ({len(self.y)}, m) and kd (m,), but they are {Ks.shape} and {kd.shape}; "
                "rows of Ks are training points"
            )
        return self.posterior.predict(Ks, kd)

    def log_class_probabilities(self, Ks: np.ndarray, kd: np.ndarray) -> np.ndarray:
        """(m, 2) log probabilities of the labels -1 and +1 at new points, exact far into the tails."""
        mean, var = self.predict(Ks, kd)
        return np.stack([self.likelihood.log_predictive(label, mean, var) for label in (-1.0, 1.0)], axis=1)

    def class_probability_std(self, Ks: np.ndarray, kd: np.ndarray) -> np.ndarray:
        """(m, 2) standard deviations of the class probabilities under the latent posterior."""
        spread = self.likelihood.predictive_std(*self.predict(Ks, kd))
        return np.stack([spread, spread], axis=1)

    def members(self, kernel: Any) -> list[tuple[Any, Any]]:
        """(kernel, posterior) pairs that predictions average over."""
        return [(kernel, self)]

    def jensen_bound(self) -> float:
        """Lower bound of the log evidence by Jensen's inequality. [NR] (9)"""
        require(self.likelihood, ("expected_log_prob",), "The Jensen bound")
        return jensen_bound(self.posterior, self.y, self.likelihood)

    def loo(self) -> np.ndarray:
        """(n,) log probability of each label given all others, from the cavities; no refits."""
        return self.likelihood.log_predictive(self.y, *self.posterior.cavity())

    def loo_class_probabilities(self) -> np.ndarray:
        """(n, 2) probabilities of the labels -1 and +1 given all other data, from the cavities."""
        mean, var = self.posterior.cavity()
        return np.exp(np.stack([self.likelihood.log_predictive(label, mean, var) for label in (-1.0, 1.0)], axis=1))


def jensen_bound(q, y: np.ndarray, likelihood) -> float:
    """Σ E[log p(y_i | f_i)] + ½[n - mᵀK⁻¹m + ln|VK⁻¹| - tr(VK⁻¹)]. [NR] (9)"""
    expected = float(np.sum(likelihood.expected_log_prob(y, q.mean, q.var)[0]))
    return expected + 0.5 * (len(y) - float(q.alpha @ q.mean) - q.log_det - q.trace_ratio)


def require(likelihood: Likelihood, needs: tuple[str, ...], who: str) -> None:
    """Raise a TypeError that names the likelihoods which would serve, if this one does not."""
    for name in needs:
        if not hasattr(likelihood, name):
            known = ("Logit", "Probit", "Heaviside", "Gaussian", "Softmax", "MultinomialProbit")
            classes = [getattr(_likelihoods, c) for c in known]
            able = ", ".join(c.__name__ for c in classes if hasattr(c, name))
            offered = type(likelihood).__name__ if not isinstance(likelihood, type) else f"the class {likelihood.__name__}"
            raise TypeError(f"{who} needs {name}, which {offered} does not offer. Likelihoods that do: {able}.")


def prepare(engine, K, y, likelihood) -> tuple[np.ndarray, np.ndarray]:
    """K and y as the engines want them, or an error that says what is wrong."""
    check_settings(engine)
    if isinstance(likelihood, type):
        raise TypeError(f"likelihood must be an object; write {likelihood.__name__}() instead of {likelihood.__name__}")
    if likelihood.n_latents > 1:
        raise TypeError(
            f"{type(engine).__name__} is for one latent function per datum, but {type(likelihood).__name__} has "
            f"{likelihood.n_latents}; the samplers of gpclass.sampling take it"
        )
    require(likelihood, engine.needs, type(engine).__name__)
    y = likelihood.check_targets(y)
    K = np.ascontiguousarray(K, dtype=float)
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise ValueError(f"K must be a square matrix, but has shape {K.shape}")
    if len(K) == 0:
        raise ValueError("K is empty: there must be at least one training point")
    if len(y) != len(K):
        raise ValueError(f"K is {len(K)}×{len(K)} but y has {len(y)} labels")
    if not np.isfinite(K.sum()):
        raise ValueError("K contains NaN or infinite entries (or its sum overflows)")
    some = slice(None, None, max(1, len(K) // 32))  # a few rows tell a matrix that is not symmetric
    if not np.allclose(K[some], K[:, some].T, rtol=1e-8, atol=1e-8 * np.abs(K[some]).max()):
        raise ValueError("K is not symmetric: is it a matrix of covariances between all pairs of training points?")
    if np.any(np.diagonal(K) < 0):
        raise ValueError("K has negative variances on its diagonal")
    return K, y


def check_settings(engine) -> None:
    """The settings of the loop, where an engine has them."""
    tol, damping, max_iter = (getattr(engine, name, 1) for name in ("tol", "damping", "max_iter"))
    if not tol > 0:
        raise ValueError(f"tol must be positive, but is {tol}")
    if not 0 < damping <= 1:
        raise ValueError(f"damping must be in (0, 1], 1 is undamped, but is {damping}")
    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1, but is {max_iter}")


def start_sites(start: Any, n: int) -> Sites | None:
    """Sites of an earlier fit (or Sites themselves) for a warm start."""
    if start is None:
        return None
    sites = start if isinstance(start, Sites) else getattr(start, "sites", None)
    if sites is None:
        raise TypeError(f"start must be an earlier fit made of sites, or Sites, but is {_origin(start)}")
    if len(sites.tau) != n:
        raise ValueError(f"start has {len(sites.tau)} sites, but there are {n} training points")
    return sites


def _origin(start: Any) -> str:
    engine = getattr(start, "engine", None)
    return f"a fit of {type(engine).__name__}" if engine is not None else f"of type {type(start).__name__}"
