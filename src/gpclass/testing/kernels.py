"""Checks of kernels: `check_kernel(MyKernel(...))` raises an AssertionError if a check fails."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..kernels.arrays import checked_inputs
from .pieces import Array, close, raises, require

VALUE_TOL = 1e-10  # for values computed in different ways: rounding, eps * (distance in lengthscales)² * condition
STEP = 1e-5  # relative step of central differences: truncation STEP² = 1e-10, rounding eps / STEP = 1e-11
SLOPE_TOL = 1e-6  # 1e-10 times third derivatives and norms, with a margin of four digits


def check_kernel(kernel: Any, X: Any = None, Z: Any = None) -> None:
    """Check values, derivatives and parameters of a kernel.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : array-like of shape (n, D) or sequence of objects, optional
        Inputs, random by default. They should be within a few lengthscales of each other; otherwise derivatives are smaller
        than rounding errors. Kernels that take objects or covariances have no derivatives in the inputs.
    Z : array-like of shape (m, D) or sequence of objects, optional
        Further inputs, random by default.

    Raises
    ------
    AssertionError
        If a check fails.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 2)) if X is None else X
    X, _ = checked_inputs(X, None, kernel.takes)
    Z = rng.normal(size=(5, X.shape[1])) if Z is None else Z
    Z, _ = checked_inputs(Z, None, kernel.takes)
    check_values(kernel, X, Z)
    differentiable = kernel.takes in ("numbers", "any")
    check_pullback(kernel, X, Z, rng, differentiable)
    check_pullback_diag(kernel, X, rng, differentiable)
    check_parameters(kernel)
    check_fixing(kernel, X)
    check_object(kernel, X)


def check_values(kernel: Any, X: Array, Z: Array) -> None:
    K, Ks, kd = kernel(X), kernel(X, Z), kernel.diag(X)
    scale = max(1.0, np.abs(K).max(initial=0), np.abs(Ks).max(initial=0))
    require(K.shape == (len(X), len(X)) and K.dtype == np.float64, f"k(X) is {K.dtype} {K.shape}, not float64 (n, n)")
    require(K.flags.c_contiguous, "k(X) is not C-ordered")
    require(Ks.shape == (len(X), len(Z)), f"k(X, Z) has shape {Ks.shape}, not (n, m)")
    require(kd.shape == (len(X),), f"diag(X) has shape {kd.shape}, not (n,)")
    require(np.array_equal(K, K.T), "k(X) is not exactly symmetric")
    close(kd, np.diag(K), VALUE_TOL * scale, "diag(X) against the diagonal of k(X)")
    close(Ks.T, kernel(Z, X), VALUE_TOL * scale, "k(X, Z) transposed against k(Z, X)")
    # the off-diagonal block of the joint matrix is k(X, Z), and k(X) equals k(X, X) off the diagonal, also for white noise
    joint = kernel(np.concatenate([X, Z]))
    close(Ks, joint[: len(X), len(X) :], VALUE_TOL * scale, "k(X, Z) against a block of the joint matrix")
    off = ~np.eye(len(X), dtype=bool)
    close(K[off], kernel(X, X)[off], VALUE_TOL * scale, "k(X) against k(X, X) off the diagonal")
    smallest = np.linalg.eigvalsh(joint).min()
    require(smallest > -VALUE_TOL * scale * len(joint), f"k(X) is not positive semidefinite: eigenvalue {smallest:.3g}")


def check_pullback(kernel: Any, X: Array, Z: Array, rng: np.random.Generator, differentiable: bool = True) -> None:
    G, Gs = rng.normal(size=(len(X), len(X))), rng.normal(size=(len(X), len(Z)))
    dtheta = kernel.pullback(X, G)
    _slopes(dtheta, lambda t: np.sum(G * kernel.with_theta(t)(X)), kernel.theta, "pullback(X, G) in theta")
    _same(dtheta, kernel.pullback(X, G, value=kernel(X)), "pullback(X, G) with and without value")
    cross = kernel.pullback(X, Z, Gs)
    _slopes(cross, lambda t: np.sum(Gs * kernel.with_theta(t)(X, Z)), kernel.theta, "pullback(X, Z, G) in theta")
    _same(cross, kernel.pullback(X, Z, Gs, value=kernel(X, Z)), "pullback(X, Z, G) with and without value")
    if not differentiable:
        return
    again, dX = kernel.pullback(X, G, inputs=True)
    _slopes(dX, lambda A: np.sum(G * kernel(A)), X, "pullback(X, G) in X")
    _same(dtheta, again, "pullback(X, G) with and without inputs")
    again, dZ = kernel.pullback(X, Z, Gs, inputs=True)
    _slopes(dZ, lambda A: np.sum(Gs * kernel(X, A)), Z, "pullback(X, Z, G) in Z")
    _same(cross, again, "pullback(X, Z, G) with and without inputs")


def check_pullback_diag(kernel: Any, X: Array, rng: np.random.Generator, differentiable: bool = True) -> None:
    g = rng.normal(size=len(X))
    dtheta = kernel.pullback_diag(X, g)
    _slopes(dtheta, lambda t: g @ kernel.with_theta(t).diag(X), kernel.theta, "pullback_diag in theta")
    for leaf in kernel.leaves:
        lengthscales = [name.startswith("lengthscale") for name in leaf.names]
        if any(lengthscales):
            fixed = not np.any(leaf.pullback_diag(X, g)[lengthscales])
            message = f"{leaf!r} must declare lengthscale_of_distance={fixed}: whether k(x, x) has no lengthscales"
            require(fixed == leaf.lengthscale_of_distance, message)
    if not differentiable:
        return
    again, dX = kernel.pullback_diag(X, g, inputs=True)
    _slopes(dX, lambda A: g @ kernel.diag(A), X, "pullback_diag in X")
    _same(dtheta, again, "pullback_diag with and without inputs")


def check_parameters(kernel: Any) -> None:
    theta, p = kernel.theta, len(kernel.theta)
    require(theta.shape == (p,) and np.isfinite(theta).all(), f"theta is not a finite vector: {theta}")
    require(len(kernel.names) == p == len(set(kernel.names)), f"names {kernel.names} are not {p} distinct names")
    require(kernel.bounds.shape == (p, 2), f"bounds have shape {kernel.bounds.shape}, not ({p}, 2)")
    require(bool((kernel.bounds[:, 0] <= kernel.bounds[:, 1]).all()), f"bounds are out of order: {kernel.bounds}")
    moved = kernel.with_theta(theta + 0.25)
    close(moved.theta, theta + 0.25, 1e-12, "theta after with_theta")  # exp and log, rounding
    close(moved.bounds, kernel.bounds, 0, "bounds after with_theta")
    close(kernel.theta, theta, 0, "theta of the kernel itself after with_theta")
    require(kernel.with_theta(theta) == kernel, "with_theta(theta) is not the kernel itself")
    for bad in (np.append(theta, 0.0), np.full(p, 1e4) if p else np.zeros(1)):
        raises(ValueError, partial(kernel.with_theta, bad), f"with_theta({bad})")


def check_fixing(kernel: Any, X: Array) -> None:
    raises(ValueError, partial(kernel.fix, "no such parameter"), "fix of an unknown name")
    G = np.ones((len(X), len(X)))
    for i, name in enumerate(kernel.names):
        fixed, rest = kernel.fix(name), np.arange(len(kernel.names)) != i
        require(fixed.names == [n for n in kernel.names if n != name], f"names after fix({name!r}): {fixed.names}")
        close(fixed.theta, kernel.theta[rest], 0, f"theta after fix({name!r})")
        close(fixed.bounds, kernel.bounds[rest], 0, f"bounds after fix({name!r})")
        _same(fixed.pullback(X, G), kernel.pullback(X, G)[rest], f"pullback after fix({name!r})")
        require(fixed.free(name) == kernel, f"free({name!r}) does not undo fix")
    nothing = kernel.fix(*kernel.names)
    require(nothing.pullback(X, G).shape == (0,), "pullback of a kernel without free parameters is not empty")


def check_object(kernel: Any, X: Array) -> None:
    require(type(kernel).__repr__ is not object.__repr__, "no readable repr")
    copy = pickle.loads(pickle.dumps(kernel))
    require(copy == kernel and hash(copy) == hash(kernel), "a kernel differs after pickling")
    close(copy(X), kernel(X), 0, "k(X) after pickling")
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
    close(analytic, numeric, SLOPE_TOL * scale, f"{what} against central differences")


def _same(a: Array, b: Array, what: str) -> None:
    close(a, b, VALUE_TOL * max(1.0, np.abs(a).max(initial=0)), what)
