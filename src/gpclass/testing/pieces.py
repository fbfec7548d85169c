"""Helpers of the checks: comparisons that report where and by how much they fail, and properties of a likelihood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def require(fact: bool, message: str) -> None:
    if not fact:
        raise AssertionError(message)


def close(a: Any, b: Any, atol: ArrayLike, what: str) -> None:
    require(np.shape(a) == np.shape(b), f"{what}: shapes {np.shape(a)} and {np.shape(b)}")
    a, b = np.atleast_1d(a), np.atleast_1d(b)
    gap, allowed = np.abs(a - b), np.broadcast_to(atol, a.shape)
    bad = ~(gap <= allowed)  # NaN fails too
    if bad.any():
        worst = np.unravel_index(np.argmax(np.where(bad, gap / np.maximum(allowed, 1e-300), -1.0)), gap.shape)
        raise AssertionError(
            f"{what}: entry {', '.join(map(str, worst))} is {a[worst]:.9g}, not {b[worst]:.9g}: "
            f"off by {gap[worst]:.3g}, allowed {allowed[worst]:.3g}"
        )


def raises(kind: type[Exception], action: Callable[[], Any], what: str, word: str = "") -> None:
    """Check that the action raises an error of this kind, with `word` in its message."""
    try:
        action()
    except kind as error:
        require(word in str(error), f"the error about {what} should contain {word!r}: {error}")
        return
    except Exception as error:
        raise AssertionError(f"{what} should raise {kind.__name__}, not {type(error).__name__}: {error}") from error
    raise AssertionError(f"{what} should raise {kind.__name__}")


def takes_signs(likelihood: Any) -> bool:
    """Return whether targets are labels -1 and +1."""
    return likelihood.targets == "class labels" and likelihood.n_latents == 1


def takes_counts(likelihood: Any) -> bool:
    """Return whether targets are 0, 1, …: counts, or indices of categories."""
    return likelihood.targets in ("counts", "ordered categories")


def accepts(likelihood: Any, target: float) -> bool:
    """Return whether a likelihood accepts a number as its target."""
    try:
        likelihood.check_targets(np.array([float(target)]))
    except ValueError:
        return False
    return True


def log_prob(likelihood: Any, y: Array, f: Array) -> Array:
    if likelihood.offers("log_prob"):
        return likelihood.log_prob(y, f)[0]
    return likelihood.tilted_moments(y, f, np.zeros_like(f))[0]  # log p(y | f) by definition
