"""What every engine returns, and the checks that every engine makes of what it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np

from ..engines import Engine
from ..engines.contract import require
from ..gaussian import FullPosterior, Sites
from ..numerics.separable import Separable
from .iterate import Status

Some = TypeVar("Some", bound="Fit")


@dataclass(frozen=True)
class Fit:
    """A Gaussian approximation to the posterior, with its evidence."""

    engine: Any
    posterior: Any  # of the prior's structure: FullPosterior, FactorialPosterior, CoupledPosterior, ContrastPosterior
    y: np.ndarray  # (n,) targets as the likelihood takes them
    likelihood: Any
    status: Status
    log_evidence: float  # by the engine's own formula

    def state(self) -> dict[str, Any]:
        """What a model file keeps of it: arrays, numbers and words with which `restored` makes it anew."""
        return {**self.posterior.state(), "log_evidence": self.log_evidence, "status": asdict(self.status)}

    @classmethod
    def restored(
        cls: type[Some], engine: Any, posterior: Any, y: np.ndarray, likelihood: Any, state: Mapping[str, Any], **more: Any
    ) -> Some:
        """The fit that a `state` was taken of, around its posterior; `more` are fields of a subclass."""
        status = Status(**state["status"])
        return cls(engine, posterior, likelihood.check_targets(y), likelihood, status, float(state["log_evidence"]), **more)

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
        if not hasattr(self.posterior, "sites"):
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
        """(m, C) log class probabilities at new points; with one latent function exact far into the tails."""
        return self.likelihood.log_class_probabilities(*self.predict(Ks, kd))

    def class_probability_std(self, Ks: np.ndarray, kd: np.ndarray) -> np.ndarray:
        """(m, C) standard deviations of the class probabilities under the latent posterior."""
        return self.likelihood.class_probability_std(*self.predict(Ks, kd))

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
        """(n, C) class probabilities given all other data, from the cavities."""
        return np.exp(self.likelihood.log_class_probabilities(*self.posterior.cavity()))


@dataclass(frozen=True)
class CoupledFit(Fit):
    """A Gaussian approximation with one latent function per class. Means are (n, C), covariances (n, C, C)."""

    @property
    def mean(self) -> np.ndarray:
        return self.posterior.latent.mean

    @property
    def cov(self) -> np.ndarray:
        """(n, C, C) marginal covariances at the training points."""
        return self.posterior.latent.cov

    @property
    def var(self) -> np.ndarray:
        """(n, C) their diagonals."""
        return self.posterior.latent.var

    @property
    def alpha(self) -> np.ndarray:
        return self.posterior.latent.alpha

    @property
    def sites(self) -> Sites:
        return self.posterior.sites

    def predict(self, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (m, C) and covariance (m, C, C) from Ks (n, m) or (C, n, m), and kd (m,) or (C, m)."""
        Ks, kd = np.asarray(Ks, float), np.asarray(kd, float)
        n = len(self.y)
        if Ks.ndim not in (2, 3) or Ks.shape[-2] != n or kd.shape[-1] != Ks.shape[-1]:
            raise ValueError(f"Ks must be ({n}, m) and kd (m,), or one per class, but they are {Ks.shape} and {kd.shape}")
        return self.posterior.predict(Ks, kd)

    def jensen_bound(self) -> float:
        raise AttributeError(f"{type(self.engine).__name__} with {type(self.likelihood).__name__} has no Jensen bound")

    def loo(self) -> np.ndarray:
        """(n,) log probability of each label given all others, from the cavities; no refits."""
        p = self.loo_class_probabilities()
        return np.log(np.maximum(p[np.arange(len(self.y)), self.y], np.finfo(float).tiny))

    def loo_class_probabilities(self) -> np.ndarray:
        """(n, C) class probabilities given all other data, from the cavities."""
        return self.likelihood.predictive(*self.posterior.latent.cavity())


def restored(engine: Any, K: Any, y: np.ndarray, likelihood: Any, state: Mapping[str, Any]) -> Any:
    """The fit that `state()` was taken of, from the covariances among the inputs that it rests on. Nothing is iterated.

    An engine whose posterior is K × scalar sites needs nothing for it; others offer `restore(K, y, likelihood, state)`.
    """
    if engine.restore is not None:
        return engine.restore(K, y, likelihood, state)
    return Fit.restored(engine, FullPosterior.restored(K, state), y, likelihood, state)


def jensen_bound(q, y: np.ndarray, likelihood) -> float:
    """Σ E[log p(y_i | f_i)] + ½[n - mᵀK⁻¹m + ln|VK⁻¹| - tr(VK⁻¹)]. [NR] (9)"""
    expected = float(np.sum(likelihood.expected_log_prob(y, q.mean, q.var)[0]))
    return expected + 0.5 * (len(y) - float(q.alpha @ q.mean) - q.log_det - q.trace_ratio)


def prepare(engine: Engine, K, y, likelihood) -> tuple[np.ndarray, np.ndarray]:
    """K and y as the engines want them, or an error that says what is wrong."""
    check_settings(engine)
    engine.check_likelihood(likelihood)
    return check_problem(K, y, likelihood, type(engine).__name__)


def check_problem(K, y, likelihood, who: str) -> tuple[np.ndarray, np.ndarray]:
    """K, (n, n) or (C, n, n), and y, as float arrays that fit together; `who` is named in errors."""
    C = likelihood.n_latents
    y = likelihood.check_targets(y)
    if isinstance(K, Separable):
        raise TypeError(f"{who} cannot do with correlated classes (kernels.Correlated); VariationalMNL and its kin can")
    K = np.ascontiguousarray(K, dtype=float)
    if K.ndim not in (2, 3) or K.shape[-1] != K.shape[-2] or (K.ndim == 3 and (C == 1 or len(K) != C)):
        wanted = "a square matrix" if C == 1 else f"a square matrix, shared by all classes, or of shape ({C}, n, n)"
        raise ValueError(f"K must be {wanted}, but has shape {K.shape}")
    n = K.shape[-1]
    if n == 0:
        raise ValueError("K is empty: there must be at least one training point")
    if len(y) != n:
        raise ValueError(f"K is {n}×{n} but y has {len(y)} labels")
    if not np.isfinite(K.sum()):
        raise ValueError("K contains NaN or infinite entries (or its sum overflows)")
    some = slice(None, None, max(1, n // 32))  # check symmetry on a sample of rows
    rows, columns = K[..., some, :], np.swapaxes(K[..., some], -1, -2)
    if not np.allclose(rows, columns, rtol=1e-8, atol=1e-8 * np.abs(rows).max()):
        raise ValueError("K is not symmetric: is it a matrix of covariances between all pairs of training points?")
    if np.any(np.diagonal(K, axis1=-2, axis2=-1) < 0):
        raise ValueError("K has negative variances on its diagonal")
    return K, y


def check_settings(engine) -> None:
    """The settings of the loop, where an engine has them."""
    tol, damping, max_iter = (getattr(engine, name, 1) for name in ("tol", "damping", "max_iter"))
    if tol is not None and not tol > 0:
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
