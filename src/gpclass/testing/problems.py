"""Small problems with known answers, for any likelihood. All arrays are read-only.

ordinary_problem   ten rows; covariances and targets that are easy for every engine
class_covariances  the same rows, with a different covariance matrix for each latent function
small_problems     problems of two rows
grid_truth         log Z and moments of one latent function at up to three rows, by brute force
several_truth      the same for several latent functions at one or two rows
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .pieces import Array, accepts, log_prob, takes_signs

NUGGET = 0.1  # lower bound of conditional variances
NOISE = 0.3  # standard deviation of real-valued targets about the latent function
TWO_ROWS = np.array([[4.0, 2.4], [2.4, 4.0]])
TWO_ROWS.flags.writeable = False
MAX_CATEGORIES = 1000  # ordered categories that a likelihood may have


def frozen(*arrays: Any) -> Any:
    """Make arrays read-only and return them."""
    for a in arrays:
        a.flags.writeable = False
    return arrays if len(arrays) > 1 else arrays[0]


def inputs(n: int = 10, seed: int = 0) -> Array:
    """Return random inputs (n, 2)."""
    return frozen(np.random.default_rng(seed).normal(size=(n, 2)))


def covariance(X: Array, lengthscale: float = 1.0, variance: float = 2.0) -> Array:
    """Return the covariance matrix (n, n) of a squared-exponential kernel, with 0.1 added to the diagonal."""
    squares = ((X[:, None] - X) ** 2).sum(-1) / lengthscale**2
    return frozen(variance * np.exp(-0.5 * squares) + NUGGET * np.eye(len(X)))


def ordinary_problem(likelihood: Any, n: int = 10, seed: int = 0) -> tuple[Array, Array]:
    """Return a covariance matrix (n, n), with prior variances 2.1 and conditional ones above 0.1, and targets (n,)."""
    X = inputs(n, seed)
    return covariance(X), targets(likelihood, X, seed + 1)


def class_covariances(n_latents: int, n: int = 10, seed: int = 0) -> Array:
    """Return covariance matrices (C, n, n) on the rows of `ordinary_problem`, all different."""
    X, steps = inputs(n, seed), np.linspace(-0.4, 0.4, n_latents)
    return frozen(np.stack([covariance(X, 1 + step, 2 - step) for step in steps]))


def targets(likelihood: Any, X: Array, seed: int = 1) -> Array:
    """Return targets of the kind that a likelihood declares, from one smooth function of the inputs per latent function."""
    if likelihood.targets not in MAKERS:
        known = ", ".join(map(repr, MAKERS))
        raise ValueError(f"there are no problems with targets {likelihood.targets!r}, only with {known}")
    rng = np.random.default_rng(seed)
    angle = np.arange(likelihood.n_latents) * np.pi / likelihood.n_latents
    f = np.sin(2 * X @ np.stack([np.cos(angle), np.sin(angle)])) + NOISE * rng.normal(size=(len(X), len(angle)))
    return frozen(MAKERS[likelihood.targets](likelihood, f))


def _labels(likelihood: Any, f: Array) -> Array:
    return likelihood.class_targets[(f[:, 0] > 0).astype(int) if takes_signs(likelihood) else np.argmax(f, axis=1)]


def _real(likelihood: Any, f: Array) -> Array:
    return f[:, 0].copy()


def _counts(likelihood: Any, f: Array) -> Array:
    return np.floor(2 * np.exp(f[:, 0]))


def _categories(likelihood: Any, f: Array) -> Array:
    """Return categories in the order of f, with equally many rows each."""
    ranks = np.argsort(np.argsort(f[:, 0]))
    return np.floor(ranks * n_categories(likelihood) / len(f))


MAKERS: dict[str, Callable[[Any, Array], Array]] = {
    "class labels": _labels,
    "real numbers": _real,
    "counts": _counts,
    "ordered categories": _categories,
}


def n_categories(likelihood: Any) -> int:
    """Return the number of categories that a likelihood accepts as targets, 0, 1, …"""
    for count in range(1, MAX_CATEGORIES):
        if not accepts(likelihood, count):
            return count
    raise ValueError(f"{likelihood!r} accepts counts without an upper limit")


def small_problems(likelihood: Any) -> list[tuple[Array, Array]]:
    """Return covariances (2, 2), with correlation 0.6, and targets (2,): pairs of equal and of different targets."""
    if takes_signs(likelihood):
        pairs = [(1.0, 1.0), (1.0, -1.0), (-1.0, -1.0)]
    elif likelihood.targets == "class labels":
        first, second = likelihood.class_targets[:2]
        pairs = [(first, first), (first, second)]
    else:
        y = ordinary_problem(likelihood)[1]
        pairs = [(y.max(), y.max()), (y.max(), y.min())]
    return [(TWO_ROWS, frozen(np.array(pair))) for pair in pairs]


# truth ----------------------------------------------------------------------------------------------------------------


def grid_truth(
    K: ArrayLike, y: ArrayLike, likelihood: Any, reach: float = 9.0, order: int = 72
) -> tuple[float, Array, Array]:
    """Return log Z, posterior mean (n,) and covariance (n, n) of one latent function by brute force, for n up to 3.

    Gauss–Legendre in each orthant of f, so that a likelihood may jump at zero, up to `reach` prior standard deviations.
    Accurate to 1e-12 for correlations up to 0.9 and prior variances up to about 10.
    """
    K, y = np.asarray(K, float), np.asarray(y, float)
    n, sd = len(K), np.sqrt(np.diagonal(K))
    t, w = _halves(reach, order)
    f = _grid([t * s for s in sd])
    log_w = np.log(_grid([w * s for s in sd])).sum(0)
    log_w += -0.5 * np.sum(f * np.linalg.solve(K, f), axis=0) - 0.5 * np.linalg.slogdet(2 * np.pi * K)[1]
    log_p = [log_prob(likelihood, np.full(len(t), y[i]), t * sd[i]) for i in range(n)]
    log_w += _grid(log_p).sum(0)
    top = log_w.max()
    p = np.exp(log_w - top)
    mass = p.sum()
    mean = f @ p / mass
    away = f - mean[:, None]
    return float(top + np.log(mass)), mean, (p * away) @ away.T / mass


def _halves(reach: float, order: int) -> tuple[Array, Array]:
    """Return nodes and weights of a rule on [-reach, 0] and one on [0, reach]."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    half, half_weights = 0.5 * reach * (nodes + 1), 0.5 * reach * weights
    return np.concatenate([-half[::-1], half]), np.concatenate([half_weights[::-1], half_weights])


def _grid(axes: list[Array]) -> Array:
    """Return all combinations of the points on the axes, (number of axes, points)."""
    return np.stack(np.meshgrid(*axes, indexing="ij")).reshape(len(axes), -1)


def several_truth(
    K: ArrayLike, y: ArrayLike, likelihood: Any, reach: float = 8.5, order: int = 48
) -> tuple[float, Array, Array]:
    """Return log Z, posterior mean (n, C) and covariances (n, C, C) of each row by brute force, for n = 1 or 2.

    K is (n, n), shared by all classes, or (C, n, n). Uses the trapezoid rule on a grid of all latent values of a row. The
    latent functions are independent a priori, so the grids of the two rows are combined by one matrix product per function.
    Accurate to 1e-10 for likelihoods as smooth as softmax and multinomial probit and prior variances up to 4. Where p(y | f)
    jumps, the difference from the result with another `order` estimates the error.
    """
    C, n = likelihood.n_latents, len(np.asarray(y))
    K = np.broadcast_to(np.asarray(K, float), (C, n, n))
    t = np.linspace(-reach, reach, order)
    axes = [[t * np.sqrt(K[c, i, i]) for c in range(C)] for i in range(n)]
    own = [_probabilities(likelihood, y[i], axes[i]) for i in range(n)]  # type: ignore[index]
    if n == 1:
        density = own[0]
        for c in range(C):
            density = _along(density, _normal(axes[0][c], K[c]), c)
        return (float(np.log(density.sum())), *(part[None] for part in _moments(density, axes[0])))  # type: ignore[return-value]
    first, second = own
    for c in range(C):
        joint = _joint(axes[0][c], axes[1][c], K[c])  # the prior mass of each pair of points
        first, second = _contract(first, joint, c), _contract(second, joint.T, c)
    # the message from the other row times the likelihood of this row
    rows = own[0] * second, own[1] * first
    moments = [_moments(density, axis) for density, axis in zip(rows, axes, strict=True)]
    mean, cov = (np.stack(parts) for parts in zip(*moments, strict=True))
    return float(np.log(rows[0].sum())), mean, cov


def _probabilities(likelihood: Any, label: Any, axes: list[Array]) -> Array:
    """Return p(label | f) at all combinations of the points on the axes."""
    f = _grid(axes).T
    log_p = likelihood.log_prob_value(np.full(len(f), label), f)
    return np.exp(log_p).reshape([len(a) for a in axes])


def _normal(axis: Array, K: Array) -> Array:
    return np.exp(-0.5 * axis**2 / K[0, 0]) * (axis[1] - axis[0]) / np.sqrt(2 * np.pi * K[0, 0])


def _joint(left: Array, right: Array, K: Array) -> Array:
    f = _grid([left, right])
    density = np.exp(-0.5 * np.sum(f * np.linalg.solve(K, f), axis=0) - 0.5 * np.linalg.slogdet(2 * np.pi * K)[1])
    return density.reshape(len(left), len(right)) * (left[1] - left[0]) * (right[1] - right[0])


def _along(values: Array, weights: Array, axis: int) -> Array:
    return values * np.expand_dims(weights, [a for a in range(values.ndim) if a != axis])


def _contract(values: Array, matrix: Array, axis: int) -> Array:
    """Multiply one axis of `values` by a matrix: sum over its rows; its columns replace the axis."""
    return np.moveaxis(np.tensordot(values, matrix, (axis, 0)), -1, axis)


def _moments(density: Array, axes: list[Array]) -> tuple[Array, Array]:
    """Return mean (C,) and covariance (C, C)."""
    p = density.ravel() / density.sum()
    f = _grid(axes)
    mean = f @ p
    away = f - mean[:, None]
    return mean, (p * away) @ away.T
