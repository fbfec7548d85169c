"""The result of every engine, and the checks of every engine's arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np

from ..gaussian import Sites
from ..numerics.separable import classes_of, inputs_of
from . import Engine
from .contract import correlated_classes, require
from .iterate import Status
from .observations import Data, Observed, data_of, places_of

Some = TypeVar("Some", bound="Fit")


class NotAvailable(AttributeError):
    """A fit of this engine does not provide the requested quantity."""


@dataclass(frozen=True)
class Fit:
    """A Gaussian approximation to the posterior, with its evidence: the result of every engine.

    A subclass adds fields that its engine needs. Methods are implemented here, once for all engines.
    """

    engine: Any
    posterior: Any  # its structure depends on the prior, see gaussian/
    y: Any  # (n,) targets in the form that the likelihood expects, or Observed
    likelihood: Any
    status: Status
    log_evidence: float  # according to the engine's formula

    inputs_are: ClassVar[str] = "training points"  # rows of Ks in `predict`, for error messages

    def state(self) -> dict[str, Any]:
        """Return the arrays, numbers and strings that a model file stores, from which `restored` rebuilds the fit."""
        return {**self.posterior.state(), "log_evidence": self.log_evidence, "status": asdict(self.status)}

    @classmethod
    def restored(
        cls: type[Some], engine: Any, posterior: Any, y: np.ndarray, likelihood: Any, state: Mapping[str, Any], **more: Any
    ) -> Some:
        """Fit from its `state` and its posterior; `more` are fields of a subclass."""
        status = Status(**state["status"])
        y = data_of(engine, y, likelihood).given
        return cls(engine, posterior, y, likelihood, status, float(state["log_evidence"]), **more)

    @cached_property
    def targets(self) -> Data:
        """The targets in the form that the engine uses."""
        return data_of(self.engine, self.y, self.likelihood)

    @property
    def converged(self) -> bool:
        return self.status.converged

    @property
    def n_iter(self) -> int:
        """Number of sweeps, one factorisation each."""
        return self.status.n_iter

    # at the training points: (n,) with one latent function, (n, C) with one per class --------------------------------

    @property
    def mean(self) -> np.ndarray:
        """(n,) or (n, C) marginal means."""
        return self.posterior.latent.mean

    @property
    def var(self) -> np.ndarray:
        """(n,) or (n, C) marginal variances."""
        return self.posterior.latent.var

    @property
    def cov(self) -> np.ndarray:
        """(n, C, C) marginal covariances of the classes' latent values."""
        return self.posterior.latent.cov

    @property
    def alpha(self) -> np.ndarray:
        """(n,) or (n, C) K⁻¹ mean."""
        return self.posterior.latent.alpha

    @property
    def sites(self) -> Sites:
        if self.posterior.sites is None:
            raise NotAvailable(f"the posterior of {type(self.engine).__name__} is not made of scalar sites")
        return self.posterior.sites

    @property
    def scalar_sites(self) -> Sites | None:
        """Sites with one precision for each latent value or contrast, from which a fit at other θ can start; else None."""
        sites = self.posterior.sites
        return sites if sites is not None and sites.tau.ndim == 1 else None

    @property
    def W(self) -> np.ndarray:
        """(n,) precisions of the effective likelihood. [NR] (7)"""
        return self.sites.tau

    def cavity(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the means and (co)variances of the latent values of each observation, given all other observations.

        Of an observation with a weight above one, one copy is left out.
        """
        return self.engine.cavity(self)

    def loo(self) -> np.ndarray:
        """Return the (n,) log probability of each label given all others, computed from the cavities without refits."""
        return self.likelihood.log_predictive(np.asarray(self.y), *self.cavity())

    def loo_log_class_probabilities(self) -> np.ndarray:
        """Return the (n, C) log class probabilities given all other data, computed from the cavities."""
        return self.likelihood.log_class_probabilities(*self.cavity())

    def loo_class_probabilities(self) -> np.ndarray:
        """Return the (n, C) class probabilities given all other data, computed from the cavities."""
        return np.exp(self.loo_log_class_probabilities())

    # the evidence ---------------------------------------------------------------------------------------------------

    def evidence_gradient(self) -> Any:
        """Return the derivative of log_evidence in the covariances: symmetric G (n, n) with d log Z = Σ G_ij dK_ij."""
        return self.engine.evidence_gradient(self)

    def likelihood_gradient(self) -> np.ndarray:
        """Return the derivatives (p,) of log_evidence in likelihood.theta."""
        if not len(self.likelihood.theta):
            return np.zeros(0)
        return np.asarray(self.engine.likelihood_gradient(self))

    def jensen_bound(self) -> float:
        """Return a lower bound of the log evidence, by Jensen's inequality. [NR] (9)"""
        if self.likelihood.n_latents > 1:
            raise NotAvailable(f"{type(self.engine).__name__} with {type(self.likelihood).__name__} has no Jensen bound")
        require(self.likelihood, ("expected_log_prob",), "The Jensen bound")
        return jensen_bound(self.posterior, self.targets)

    # at new points --------------------------------------------------------------------------------------------------

    @property
    def n_inputs(self) -> int:
        """Number of points whose covariances with new points predictions need."""
        return places_of(self.y).n

    def predict(self, Ks: Any, kd: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the moments of the latent values at m new points.

        Parameters
        ----------
        Ks : ndarray of shape (n_inputs, m) or (C, n_inputs, m), or Separable
            Covariances of the points on which the posterior is represented with the new points.
        kd : ndarray of shape (m,) or (C, m), or Separable
            Prior variances of the new points.

        Returns
        -------
        mean, spread : ndarray
            Mean and variance, each (m,), with one latent function; mean (m, C) and covariance (m, C, C) with several.
        """
        mean, spread = self.moments(Ks, kd)
        return mean, independent(spread) if spread.ndim == 2 else spread

    def moments(self, Ks: Any, kd: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the same as `predict`, but variances (m, C) if classes are independent."""
        return self.posterior.predict(*self._checked(Ks, kd))

    def log_class_probabilities(self, Ks: Any, kd: Any) -> np.ndarray:
        """Return the (m, C) log class probabilities at new points; with one latent function, exact far into the tails."""
        return self.engine.log_class_probabilities(self, Ks, kd)

    def class_probability_std(self, Ks: Any, kd: Any) -> np.ndarray:
        """Return the (m, C) standard deviations of the class probabilities under the latent posterior."""
        return self.likelihood.class_probability_std(*self.moments(Ks, kd))

    def members(self, kernel: Any) -> list[tuple[Any, Any]]:
        """Return the pairs (kernel, posterior) that predictions average over."""
        return [(kernel, self)]

    @property
    def separable(self) -> bool:
        """Whether covariances are `Separable` pairs: one matrix for the inputs, one for the classes."""
        return False

    def _checked(self, Ks: Any, kd: Any) -> tuple[Any, Any]:
        for name, given in (("Ks", Ks), ("kd", kd)):
            if (classes_of(given) is not None) != self.separable:
                wanted = "Separable" if self.separable else "an array"
                raise TypeError(f"{name} is of type {type(given).__name__}, but the prior's covariance was {wanted}")
        if not self.separable:
            Ks, kd = np.asarray(Ks, float), np.asarray(kd, float)
        cross, own, several = inputs_of(Ks), inputs_of(kd), self.likelihood.n_latents > 1 and not self.separable
        if cross.ndim - 2 not in (0, several) or cross.shape[-2] != self.n_inputs or own.shape[-1:] != cross.shape[-1:]:
            each = ", or one per class" if several else ""
            raise ValueError(
                f"Ks must be ({self.n_inputs}, m) and kd (m,){each}, but they are {cross.shape} and {own.shape}; "
                f"rows of Ks are {self.inputs_are}"
            )
        return Ks, kd


def squeezed(x: np.ndarray) -> np.ndarray:
    """Return an array (m, 1) of one latent function as (m,), and other arrays unchanged."""
    return x[:, 0] if x.ndim == 2 and x.shape[1] == 1 else x


def independent(var: np.ndarray) -> np.ndarray:
    """Return the (m, C, C) diagonal covariances from variances (m, C)."""
    return var[:, :, None] * np.eye(var.shape[1])


def several(x: np.ndarray) -> np.ndarray:
    """Return an array (m,) of one latent function as (m, 1), and other arrays unchanged."""
    return x[:, None] if x.ndim == 1 else x


def restored(engine: Any, K: Any, y: np.ndarray, likelihood: Any, state: Mapping[str, Any]) -> Any:
    """Fit from its `state()` and the covariances among the inputs on which it is represented. Nothing is iterated.

    Engines whose posterior is K × scalar sites need no code for this; others have `restore(K, y, likelihood, state)`.
    """
    if engine.restore is not None:
        return engine.restore(K, y, likelihood, state)
    return Fit.restored(engine, data_of(engine, y, likelihood).restored(K, state), y, likelihood, state)


def jensen_bound(q, data: Data) -> float:
    """Return Σ E[log p(y_i | f_i)] + ½[n - mᵀK⁻¹m + ln|VK⁻¹| - tr(VK⁻¹)]. [NR] (9)"""
    expected = data.total(data.likelihood.expected_log_prob(data.y, q.mean, q.var)[0])
    return expected + 0.5 * (data.n - float(q.alpha @ q.mean) - q.log_det - q.trace_ratio)


def prepare(engine: Engine, K, y, likelihood) -> tuple[np.ndarray, np.ndarray]:
    """Return K and y as checked arrays, or raise an error that says what is wrong."""
    check_settings(engine)
    engine.check_likelihood(likelihood)
    return check_problem(K, y, likelihood, type(engine).__name__)


def prepare_data(engine: Engine, K, y, likelihood) -> tuple[np.ndarray, Data]:
    """Return K as a checked array, and targets in the form that engines which support weights use."""
    check_settings(engine)
    engine.check_likelihood(likelihood)
    data = data_of(engine, y, likelihood)
    check_weights(engine, y, likelihood)
    return check_matrix(K, data.n, likelihood, type(engine).__name__), data


def check_weights(engine: Engine, y: Any, likelihood) -> None:
    """Raise an error if targets have weights that an engine does not support with this likelihood."""
    if not isinstance(y, Observed):
        return
    who = type(engine).__name__
    if engine.weights == "none":
        raise TypeError(f"{who} does not support weights")
    if engine.weights == "rows" and y.place is not None:
        raise TypeError(f"{who} needs one latent value for each observation: repeat the rows of K, and leave out `place`")
    require(likelihood, engine.needed_by_weights(likelihood, y.weight), f"{who} with such weights")


def check_problem(K, y, likelihood, who: str) -> tuple[np.ndarray, np.ndarray]:
    """Return K, (n, n) or (C, n, n), and y as checked float arrays of matching sizes; errors name `who`."""
    if isinstance(y, Observed):
        raise TypeError(f"{who} does not support weights")
    y = likelihood.check_targets(y)
    return check_matrix(K, len(y), likelihood, who), y


def check_observed(K, y, likelihood, who: str) -> tuple[np.ndarray, Any]:
    """Return K, (n, n) or (C, n, n), and y, an array or Observed, after checks; errors name `who`."""
    if not isinstance(y, Observed):
        return check_problem(K, y, likelihood, who)
    return check_matrix(K, y.n, likelihood, who), Observed(likelihood.check_targets(y.y), y.weight, y.place)


def check_matrix(K, n_labels: int, likelihood, who: str) -> np.ndarray:
    """Return K, (n, n) or (C, n, n), as a checked float array with `n_labels` rows; errors name `who`."""
    C = likelihood.n_latents
    if classes_of(K) is not None:
        raise correlated_classes(who)
    K = np.ascontiguousarray(K, dtype=float)
    if K.ndim not in (2, 3) or K.shape[-1] != K.shape[-2] or (K.ndim == 3 and (C == 1 or len(K) != C)):
        wanted = "a square matrix" if C == 1 else f"a square matrix, shared by all classes, or of shape ({C}, n, n)"
        raise ValueError(f"K must be {wanted}, but has shape {K.shape}")
    n = K.shape[-1]
    if n == 0:
        raise ValueError("K is empty: there must be at least one training point")
    if n_labels != n:
        raise ValueError(f"K is {n}×{n} but y has {n_labels} labels")
    if not np.isfinite(K.sum()):
        raise ValueError("K contains NaN or infinite entries (or its sum overflows)")
    some = slice(None, None, max(1, n // 32))  # check symmetry on a sample of rows
    rows, columns = K[..., some, :], np.swapaxes(K[..., some], -1, -2)
    if (np.abs(rows - columns) > 1e-8 * (np.abs(rows).max() + np.abs(columns))).any():  # all entries are finite
        raise ValueError("K is not symmetric: is it a matrix of covariances between all pairs of training points?")
    if np.any(np.diagonal(K, axis1=-2, axis2=-1) < 0):
        raise ValueError("K has negative variances on its diagonal")
    return K


def check_settings(engine) -> None:
    """Check the settings of the loop that an engine has."""
    if engine.tol is not None and not engine.tol > 0:
        raise ValueError(f"tol must be positive, but is {engine.tol}")
    if not 0 < engine.damping <= 1:
        raise ValueError(f"damping must be in (0, 1], 1 is undamped, but is {engine.damping}")
    if engine.max_iter is not None and engine.max_iter < 1:
        raise ValueError(f"max_iter must be at least 1, but is {engine.max_iter}")


def start_sites(start: Any, n: int) -> Sites | None:
    """Return the sites of an earlier fit, or Sites themselves, for a warm start."""
    if start is None:
        return None
    sites = sites_of_start(start)
    if sites is None:
        raise TypeError(f"start must be an earlier fit with sites, or Sites, but is {_origin(start)}")
    if len(sites.tau) != n:
        raise ValueError(f"start has {len(sites.tau)} sites, but there are {n} training points")
    return sites


def sites_of_start(start: Any) -> Sites | None:
    """Return the sites of an earlier fit, or Sites themselves; None if there are none."""
    return start if isinstance(start, Sites) else getattr(start, "sites", None)


def _origin(start: Any) -> str:
    engine = getattr(start, "engine", None)
    return f"a fit of {type(engine).__name__}" if engine is not None else f"of type {type(start).__name__}"
