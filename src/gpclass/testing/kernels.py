"""A kit of checks for kernels, ours and yours: `check_kernel(MyKernel(...))` raises AssertionError if one is broken."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

VALUE_TOL = 1e-10  # evaluations by different routes: rounding, eps * (distance in lengthscales)² * condition
STEP = 1e-5  # of central differences, relative: truncation STEP² = 1e-10, rounding eps / STEP = 1e-11
SLOPE_TOL = 1e-6  # so 1e-10 times third derivatives and norms; four digits of room


def check_kernel(kernel: Any, X: ArrayLike | None = None, Z: ArrayLike | None = None) -> None:
    """Check values, derivatives and parameters of `kernel` at inputs X (n, D) and Z (m, D); random ones by default.

    Inputs should be within some lengthscales of each other, or derivatives are compared with rounding errors.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 2)) if X is None else np.asarray(X, dtype=float)
    Z = rng.normal(size=(5, X.shape[1])) if Z is None else np.asarray(Z, dtype=float)
    check_values(kernel, X, Z)
    check_pullback(kernel, X, Z, rng)
    check_pullback_diag(kernel, X, rng)
    check_parameters(kernel)
    check_fixing(kernel, X)
    check_object(kernel, X)


def check_values(kernel: Any, X: Array, Z: Array) -> None:
    K, Ks, kd = kernel(X), kernel(X, Z), kernel.diag(X)
    scale = max(1.0, np.abs(K).max(initial=0), np.abs(Ks).max(initial=0))
    _require(K.shape == (len(X), len(X)) and K.dtype == np.float64, f"k(X) is {K.dtype} {K.shape}, not float64 (n, n)")
    _require(K.flags.c_contiguous, "k(X) is not C-ordered")
    _require(Ks.shape == (len(X), len(Z)), f"k(X, Z) has shape {Ks.shape}, not (n, m)")
    _require(kd.shape == (len(X),), f"diag(X) has shape {kd.shape}, not (n,)")
    _require(np.array_equal(K, K.T), "k(X) is not exactly symmetric")
    _close(kd, np.diag(K), VALUE_TOL * scale, "diag(X) against the diagonal of k(X)")
    _close(Ks.T, kernel(Z, X), VALUE_TOL * scale, "k(X, Z) transposed against k(Z, X)")
    # within k of both sets the cross block is k(X, Z), and off the diagonal k(X) is k(X, X): true of white noise too
    joint = kernel(np.vstack([X, Z]))
    _close(Ks, joint[: len(X), len(X) :], VALUE_TOL * scale, "k(X, Z) against a block of k of both")
    off = ~np.eye(len(X), dtype=bool)
    _close(K[off], kernel(X, X)[off], VALUE_TOL * scale, "k(X) against k(X, X) off the diagonal")
    smallest = np.linalg.eigvalsh(joint).min()
    _require(
        smallest > -VALUE_TOL * scale * len(joint), f"k(X) is not positive semidefinite: eigenvalue {smallest:.3g}"
    )


def check_pullback(kernel: Any, X: Array, Z: Array, rng: np.random.Generator) -> None:
    G, Gs = rng.normal(size=(len(X), len(X))), rng.normal(size=(len(X), len(Z)))
    dtheta, dX = kernel.pullback(X, G, inputs=True)
    _slopes(dtheta, lambda t: np.sum(G * kernel.with_theta(t)(X)), kernel.theta, "pullback(X, G) in theta")
    _slopes(dX, lambda A: np.sum(G * kernel(A)), X, "pullback(X, G) in X")
    _same(dtheta, kernel.pullback(X, G), "pullback(X, G) with and without inputs")
    _same(dtheta, kernel.pullback(X, G, value=kernel(X)), "pullback(X, G) with and without value")
    dtheta, dZ = kernel.pullback(X, Z, Gs, inputs=True)
    _slopes(dtheta, lambda t: np.sum(Gs * kernel.with_theta(t)(X, Z)), kernel.theta, "pullback(X, Z, G) in theta")
    _slopes(dZ, lambda A: np.sum(Gs * kernel(X, A)), Z, "pullback(X, Z, G) in Z")
    _same(dtheta, kernel.pullback(X, Z, Gs, value=kernel(X, Z)), "pullback(X, Z, G) with and without value")


def check_pullback_diag(kernel: Any, X: Array, rng: np.random.Generator) -> None:
    g = rng.normal(size=len(X))
    dtheta, dX = kernel.pullback_diag(X, g, inputs=True)
    _slopes(dtheta, lambda t: g @ kernel.with_theta(t).diag(X), kernel.theta, "pullback_diag in theta")
    _slopes(dX, lambda A: g @ kernel.diag(A), X, "pullback_diag in X")
    _same(dtheta, kernel.pullback_diag(X, g), "pullback_diag with and without inputs")


def check_parameters(kernel: Any) -> None:
    theta, p = kernel.theta, len(kernel.theta)
    _require(theta.shape == (p,) and np.isfinite(theta).all(), f"theta is not a finite vector: {theta}")
    _require(len(kernel.names) == p == len(set(kernel.names)), f"names {kernel.names} are not {p} different ones")
    _require(kernel.bounds.shape == (p, 2), f"bounds have shape {kernel.bounds.shape}, not ({p}, 2)")
    _require(bool((kernel.bounds[:, 0] <= kernel.bounds[:, 1]).all()), f"bounds are out of order: {kernel.bounds}")
    moved = kernel.with_theta(theta + 0.25)
    _close(moved.theta, theta + 0.25, 1e-12, "theta after with_theta")  # exp and log, rounding
    _close(moved.bounds, kernel.bounds, 0, "bounds after with_theta")
    _close(kernel.theta, theta, 0, "theta of the kernel itself after with_theta")
    _require(kernel.with_theta(theta) == kernel, "with_theta(theta) is not the kernel itself")
    for bad in (np.append(theta, 0.0), np.full(p, 1e4) if p else np.zeros(1)):
        _raises(kernel.with_theta, bad, f"with_theta({bad})")


def check_fixing(kernel: Any, X: Array) -> None:
    _raises(kernel.fix, "no such parameter", "fix of an unknown name")
    G = np.ones((len(X), len(X)))
    for i, name in enumerate(kernel.names):
        fixed, rest = kernel.fix(name), np.arange(len(kernel.names)) != i
        _require(fixed.names == [n for n in kernel.names if n != name], f"names after fix({name!r}): {fixed.names}")
        _close(fixed.theta, kernel.theta[rest], 0, f"theta after fix({name!r})")
        _close(fixed.bounds, kernel.bounds[rest], 0, f"bounds after fix({name!r})")
        _same(fixed.pullback(X, G), kernel.pullback(X, G)[rest], f"pullback after fix({name!r})")
        _require(fixed.free(name) == kernel, f"free({name!r}) does not undo fix")
    nothing = kernel.fix(*kernel.names)
    _require(nothing.pullback(X, G).shape == (0,), "pullback of a kernel without free parameters is not empty")


def check_object(kernel: Any, X: Array) -> None:
    _require(type(kernel).__repr__ is not object.__repr__, "no readable repr")
    twin = pickle.loads(pickle.dumps(kernel))
    _require(twin == kernel and hash(twin) == hash(kernel), "a pickled kernel comes back different")
    _close(twin(X), kernel(X), 0, "k(X) after pickling")
    try:
        kernel.variance = 1.0
    except AttributeError:
        return
    raise AssertionError("kernels must be immutable, but an attribute could be set")


def _slopes(analytic: Array, function: Callable[[Array], float], at: Array, what: str) -> None:
    numeric = np.zeros(at.shape)
    for index in np.ndindex(*at.shape):
        h = STEP * max(1.0, abs(at[index]))
        up, down = at.copy(), at.copy()
        up[index] += h
        down[index] -= h
        numeric[index] = (function(up) - function(down)) / (up[index] - down[index])
    scale = max(1.0, abs(function(at)), np.abs(numeric).max(initial=0))
    _close(analytic, numeric, SLOPE_TOL * scale, f"{what} against central differences")


def _same(a: Array, b: Array, what: str) -> None:
    _close(a, b, VALUE_TOL * max(1.0, np.abs(a).max(initial=0)), what)


def _close(a: Array, b: Array, atol: float, what: str) -> None:
    _require(np.shape(a) == np.shape(b), f"{what}: shapes {np.shape(a)} and {np.shape(b)}")
    gap = np.abs(np.asarray(a) - b).max(initial=0)
    _require(bool(gap <= atol), f"{what}: off by {gap:.3g}, allowed {atol:.3g}")


def _raises(action: Callable[[Any], Any], argument: Any, what: str) -> None:
    try:
        action(argument)
    except ValueError:
        return
    raise AssertionError(f"{what} should raise ValueError")


def _require(fact: bool, message: str) -> None:
    if not fact:
        raise AssertionError(message)
