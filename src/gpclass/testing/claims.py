"""The properties that an engine claims, and comparisons of its results."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .pieces import Array, close

ANSWER_TOL = 1e-6  # for two runs that should agree, in posterior standard deviations: 100 × the usual tol of 1e-8
EXACT_TOL = 1e-7  # for a result that the engine claims is exact: 10 × tol
SLOPE_TOL = 1e-6  # truncation STEP⁴ f⁽⁵⁾/30, 1e-8 with conditional variances of 0.1; rounding tol / STEP
COMPARED_TOL = 1e-8  # tolerance of engines whose results are compared; `check_fit` uses the engine unchanged
DIFFERENCES_TOL = 1e-11  # for finite differences: an evidence that is not stationary has an error of first order in it


@dataclasses.dataclass(frozen=True)
class Claims:
    """The properties that an engine claims with a likelihood; see `check_engine`."""

    regression: str
    small_prior: bool | float
    independent: bool
    bound: bool
    gradient: float
    class_order: float
    warm_start: bool
    marginals: bool
    weights: str
    dense: Any


def with_tol(engine: Any, tol: float = COMPARED_TOL, **more: float) -> Any:
    """Return the engine with at most this tolerance, and with those of the other settings that it has."""
    settings = {"tol": min(tol, engine.tol or tol), **more}
    changes = {name: value for name, value in settings.items() if name in fields_of(engine)}
    return dataclasses.replace(engine, **changes) if changes else engine


def tight(engine: Any, **more: float) -> Any:
    """Return the engine with a tolerance for finite differences."""
    return with_tol(engine, DIFFERENCES_TOL, **more)


def is_symmetric(likelihood: Any) -> bool:
    """Return whether p(-y | -f) = p(y | f), using p(y = +1); for several classes, whether their order is irrelevant."""
    if likelihood.n_latents > 1:
        f = np.random.default_rng(0).normal(size=(4, likelihood.n_latents))
        return bool(np.allclose(likelihood.class_probabilities(f[:, ::-1]), likelihood.class_probabilities(f)[:, ::-1]))
    if likelihood.targets not in ("class labels", "real numbers"):
        return False
    mean, var = np.array([0.3, 2.0]), np.array([1.0, 0.5])
    total = likelihood.predictive(mean, var) + likelihood.predictive(-mean, var)
    return bool(np.allclose(total, 1.0, atol=1e-12, rtol=0))


def only_differences_count(likelihood: Any) -> bool:
    """Return whether p(y | f) is unchanged if a constant is added to the latent values of all classes."""
    f = np.random.default_rng(0).normal(size=(4, likelihood.n_latents))
    return bool(np.allclose(likelihood.class_probabilities(f), likelihood.class_probabilities(f + 0.5), atol=1e-9, rtol=0))


def fields_of(engine: Any) -> set[str]:
    return {f.name for f in dataclasses.fields(engine)} if dataclasses.is_dataclass(engine) else set()


def variances_of(spread: Array) -> Array:
    """Return variances, given variances or covariance matrices."""
    return np.diagonal(spread, axis1=1, axis2=2) if np.ndim(spread) == 3 else spread


def same_fit(got: Any, wanted: Any, tol: float, what: str, order: Any = slice(None)) -> None:
    mean, var = wanted.mean[order], wanted.var[order]
    close(got.log_evidence, wanted.log_evidence, tol, f"{what}: log_evidence")
    close(got.mean, mean, tol * np.sqrt(var), f"{what}: mean")
    close(got.var, var, tol * var, f"{what}: var")
