"""What an engine claims to be good for, and how its answers are compared."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .pieces import Array, close

ANSWER_TOL = 1e-6  # of two runs that should agree, in posterior standard deviations: 100 × the usual tol of 1e-8
EXACT_TOL = 1e-7  # of an answer that the engine claims is exact: 10 × tol
SLOPE_TOL = 1e-6  # truncation STEP⁴ f⁽⁵⁾/30, 1e-8 with conditional variances of 0.1; rounding of the ends tol / STEP
USUAL = 1e-8  # tol of engines whose answers are compared; check_fit has the engine as it came
TIGHT = 1e-11  # tol for differences: evidences that are not stationary are off by the first order of it


@dataclasses.dataclass(frozen=True)
class Claims:
    """What an engine is good for with a likelihood; see `check_engine`."""

    regression: str
    small_prior: bool | float
    independent: bool
    bound: bool
    gradient: float
    class_order: float
    warm_start: bool
    marginals: bool
    dense: Any


def settled(engine: Any, tol: float = USUAL, **more: float) -> Any:
    """The engine with no larger tolerance than this, and other settings where it has them."""
    settings = {"tol": min(tol, getattr(engine, "tol", None) or tol), **more}
    changes = {name: value for name, value in settings.items() if name in fields_of(engine)}
    return dataclasses.replace(engine, **changes) if changes else engine


def tight(engine: Any, **more: float) -> Any:
    """The engine with a tolerance for differences."""
    return settled(engine, TIGHT, **more)


def is_symmetric(likelihood: Any) -> bool:
    """Whether p(-y | -f) = p(y | f), as seen in p(y = +1); with several classes, whether their order does not matter."""
    if likelihood.n_latents > 1:
        f = np.random.default_rng(0).normal(size=(4, likelihood.n_latents))
        return bool(np.allclose(likelihood.class_probabilities(f[:, ::-1]), likelihood.class_probabilities(f)[:, ::-1]))
    if likelihood.targets not in ("class labels", "real numbers"):
        return False
    mean, var = np.array([0.3, 2.0]), np.array([1.0, 0.5])
    total = likelihood.predictive(mean, var) + likelihood.predictive(-mean, var)
    return bool(np.allclose(total, 1.0, atol=1e-12, rtol=0))


def only_differences_count(likelihood: Any) -> bool:
    """Whether p(y | f) stays as it is when the latent values of all classes grow by the same amount."""
    f = np.random.default_rng(0).normal(size=(4, likelihood.n_latents))
    return bool(np.allclose(likelihood.class_probabilities(f), likelihood.class_probabilities(f + 0.5), atol=1e-9, rtol=0))


def fields_of(engine: Any) -> set[str]:
    return {f.name for f in dataclasses.fields(engine)} if dataclasses.is_dataclass(engine) else set()


def variances_of(spread: Array) -> Array:
    """Variances, given as such or on the diagonals of covariances."""
    return np.diagonal(spread, axis1=1, axis2=2) if np.ndim(spread) == 3 else spread


def same_fit(got: Any, wanted: Any, tol: float, what: str, order: Any = slice(None)) -> None:
    mean, var = wanted.mean[order], wanted.var[order]
    close(got.log_evidence, wanted.log_evidence, tol, f"{what}: log_evidence")
    close(got.mean, mean, tol * np.sqrt(var), f"{what}: mean")
    close(got.var, var, tol * var, f"{what}: var")
