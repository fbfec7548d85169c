"""Priors over hyperparameters, for MAP estimation and sampling.

A prior is an object with `log_density(theta) -> (value, slope)`, elementwise over an array of theta = log v, where v is
the kernel's parameter. The value is the log density of theta, log p(v) + log dv/dtheta. Because theta is optimised and
sampled, this Jacobian makes MAP the mode of the density that a sampler visits. GPstuff does the same.

A joint prior (`Relative`) is one object for all entries of a vector of parameters. It declares `joint = True` and has a
method `joined(units)`, which returns the prior of one vector. Its log density gets all entries of the vector; the sum of the
values is the log density.

`of` is the quantity that has the prior: "value" (v), "sqrt" (√v: σ_f if the parameter is σ_f²) or "log".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.special import expit, gammaln, log_ndtr

LOG_SQRT_2PI = 0.5 * np.log(2 * np.pi)
POWERS = {"value": 1.0, "sqrt": 0.5}  # the prior is on u = exp(power · theta)

Pair = tuple[np.ndarray, np.ndarray]


class HyperPrior(Protocol):
    """Interface of a prior."""

    def log_density(self, theta: np.ndarray) -> Pair:
        """Return the log density and its slope; both have the shape of theta."""


def _require_positive(prior: Any, *fields: str) -> None:
    for field in fields:
        if not (np.isfinite(getattr(prior, field)) and getattr(prior, field) > 0):
            raise ValueError(f"{type(prior).__name__} needs {field} > 0; got {getattr(prior, field)}.")


def _require_of(prior: Any, *choices: str) -> None:
    if prior.of not in choices:
        raise ValueError(f"{type(prior).__name__} can be of {', '.join(map(repr, choices))}; got of={prior.of!r}.")


@dataclass(frozen=True)
class Flat:
    """Improper uniform prior on theta: MAP is then type-II maximum likelihood."""

    def log_density(self, theta: np.ndarray) -> Pair:
        return np.zeros(np.shape(theta)), np.zeros(np.shape(theta))


@dataclass(frozen=True)
class HalfStudentT:
    """Student-t folded at zero: nearly flat below `scale`, falling like u^-(df + 1) far above it.

    Parameters
    ----------
    df : float, default=4.0
        Degrees of freedom.
    scale : float, default=10.0
        Scale of u.
    of : {"value", "sqrt"}, default="value"
        The quantity u that has the prior: v or √v.
    """

    df: float = 4.0
    scale: float = 10.0
    of: str = "value"

    def __post_init__(self) -> None:
        _require_positive(self, "df", "scale")
        _require_of(self, "value", "sqrt")

    @cached_property
    def _constants(self) -> tuple[float, float, float, float]:
        """The logs of scale, degrees of freedom, normaliser and power."""
        scale, df = np.log(self.scale), np.log(self.df)
        norm = gammaln((self.df + 1) / 2) - gammaln(self.df / 2) - 0.5 * np.log(self.df * np.pi / 4) - scale
        return scale, df, norm, np.log(POWERS[self.of])

    def log_density(self, theta: np.ndarray) -> Pair:
        power = POWERS[self.of]
        log_scale, log_df, log_norm, log_power = self._constants
        log_u = power * np.asarray(theta, dtype=float)
        log_ratio = 2 * (log_u - log_scale) - log_df  # log of u² / (df · scale²), cannot overflow
        value = log_norm - (self.df + 1) / 2 * np.logaddexp(0, log_ratio) + log_u + log_power
        return value, power * (1 - (self.df + 1) * expit(log_ratio))


@dataclass(frozen=True)
class Normal:
    """Gaussian prior.

    Parameters
    ----------
    mean, sd : float
        Mean and standard deviation.
    of : {"log", "value", "sqrt"}, default="log"
        The quantity that has the prior. With "log" it is theta: v is log-normal with median exp(mean), and a parameter that
        is not stored as a logarithm (a bias) is Gaussian. With "value" or "sqrt" the Gaussian is truncated at zero and
        normalised.
    """

    mean: float
    sd: float
    of: str = "log"

    def __post_init__(self) -> None:
        _require_positive(self, "sd")
        _require_of(self, "log", "value", "sqrt")

    def log_density(self, theta: np.ndarray) -> Pair:
        theta = np.asarray(theta, dtype=float)
        if self.of == "log":
            z = (theta - self.mean) / self.sd
            return -0.5 * z**2 - np.log(self.sd) - LOG_SQRT_2PI, -z / self.sd
        power = POWERS[self.of]
        log_norm = -np.log(self.sd) - LOG_SQRT_2PI - log_ndtr(self.mean / self.sd)
        with np.errstate(over="ignore"):  # beyond v = 1e154 the log density is -inf, as it should be
            u = np.exp(power * theta)
            z = (u - self.mean) / self.sd
            return log_norm - 0.5 * z**2 + power * theta + np.log(power), power * (1 - u * z / self.sd)


@dataclass(frozen=True)
class Gamma:
    """Gamma prior, p(u) ∝ u^(shape - 1) exp(-rate · u), with mean shape / rate.

    Parameters
    ----------
    shape, rate : float
        Shape and rate.
    of : {"value", "log", "sqrt"}, default="value"
        The quantity u that has the prior. With "log" it is theta, so that v > 1. For v ≤ 1 the log density is -inf with
        slope 0, and the evaluation fails.
    """

    shape: float
    rate: float
    of: str = "value"

    def __post_init__(self) -> None:
        _require_positive(self, "shape", "rate")
        _require_of(self, "log", "value", "sqrt")

    def log_density(self, theta: np.ndarray) -> Pair:
        theta = np.asarray(theta, dtype=float)
        log_norm = self.shape * np.log(self.rate) - gammaln(self.shape)
        if self.of == "log":
            allowed = theta > 0
            u = np.where(allowed, theta, 1.0)
            value = log_norm + (self.shape - 1) * np.log(u) - self.rate * u
            return np.where(allowed, value, -np.inf), np.where(allowed, (self.shape - 1) / u - self.rate, 0.0)
        power = POWERS[self.of]
        log_u = power * theta
        with np.errstate(over="ignore"):  # as for Normal
            decay = self.rate * np.exp(log_u)
        return log_norm + self.shape * log_u - decay + np.log(power), power * (self.shape - decay)


@dataclass(frozen=True)
class Relative:
    """Joint prior of a vector of parameters: log deviations from their geometric mean are N(0, sd²).

    It is for kernels with one lengthscale per input column. Lengthscales that differ little from each other are the most
    probable ones, so the data must support a difference in relevance.

    Parameters
    ----------
    sd : float, default=0.5
        Standard deviation of the log deviations. 0.5 means factors between 0.6 and 1.6.
    common : HyperPrior, optional
        Prior of the log of the geometric mean. The default is that of a single lengthscale with "weak".
    units : tuple of float, default=()
        Unit of each parameter. Empty means 1. `resolve_priors` sets the standard deviations of the columns for lengthscales.
    """

    sd: float = 0.5
    common: Any = HalfStudentT()
    units: tuple[float, ...] = ()

    joint: ClassVar = True

    def __post_init__(self) -> None:
        _require_positive(self, "sd")

    @cached_property
    def _log_units(self) -> np.ndarray:
        return np.log(self.units)

    def joined(self, units: tuple[float, ...]) -> "Relative":
        """Return a new object for one vector of parameters with these units."""
        return replace(self, units=units)

    def log_density(self, theta: np.ndarray) -> Pair:
        theta = np.atleast_1d(np.asarray(theta, dtype=float))
        if self.units and len(self.units) != len(theta):
            raise ValueError(f"Relative is a prior of {len(self.units)} parameters together; got {len(theta)}.")
        logs = theta - self._log_units if self.units else theta
        k, mean = len(logs), logs.mean()
        z = (logs - mean) / self.sd
        value, slope = self.common.log_density(mean)
        # the deviations have k - 1 dimensions, and the coordinate of unit length along the mean is √k · mean
        constant = value - (k - 1) * (LOG_SQRT_2PI + np.log(self.sd)) - 0.5 * np.log(k)
        return constant / k - 0.5 * z**2, slope / k - z / self.sd


@dataclass(frozen=True)
class Custom:
    """Prior given by a function.

    Parameters
    ----------
    function : callable
        Maps entries of theta (k,) to log densities (k,) and slopes (k,). These are densities of theta, so they must include
        the Jacobian.
    """

    function: Callable[[np.ndarray], Any]

    def log_density(self, theta: np.ndarray) -> Pair:
        answer = self.function(theta)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise ValueError(f"A prior function must return (value, derivative); it returned {type(answer).__name__}.")
        value, slope = (np.asarray(part, dtype=float) for part in answer)
        if value.shape != np.shape(theta) or slope.shape != np.shape(theta):
            raise ValueError(
                f"A prior function got theta of shape {np.shape(theta)} and must return arrays of that shape; "
                f"it returned shapes {value.shape} and {slope.shape}."
            )
        return value, slope


def log_prior(theta: np.ndarray, priors: Sequence[HyperPrior]) -> tuple[float, np.ndarray]:
    """Return the summed log density of theta (p,) and its gradient (p,), for priors from `resolve_priors`."""
    theta = np.array(theta, dtype=float)  # functions of users get parts of this copy
    if theta.shape != (len(priors),):
        raise ValueError(f"theta has shape {theta.shape} but there are {len(priors)} priors; one is needed per entry.")
    total, gradient = 0.0, np.zeros(len(theta))
    entries: dict[int, list[int]] = {}
    for i, prior in enumerate(priors):  # one call per distinct prior: ARD can have hundreds of entries with the same one
        entries.setdefault(id(prior), []).append(i)
    for i, *others in entries.values():
        together = not others or others[-1] == i + len(others)
        where: Any = slice(i, i + 1 + len(others)) if together else [i, *others]
        value, gradient[where] = priors[i].log_density(theta[where])
        total += float(np.sum(value))
    return total, gradient
