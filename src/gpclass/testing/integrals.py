"""Gaussian expectations by brute force: the truth for checks of likelihoods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .pieces import Array

PANELS, ORDER = 120, 24  # Gauss–Legendre panels of 0.2 standard deviations, each with enough nodes for unit sigmoids
SPREAD = 12.0  # standard deviations covered by quadrature: the mass beyond is 4e-33


def panels(low: float, high: float, break_at: float | None = None) -> tuple[Array, Array]:
    """Return nodes and weights of composite Gauss–Legendre quadrature on [low, high], with a panel edge at `break_at`."""
    x, w = np.polynomial.legendre.leggauss(ORDER)
    edges = np.linspace(low, high, PANELS + 1)
    if break_at is not None and low < break_at < high:
        edges = np.insert(edges, np.searchsorted(edges, break_at), break_at)
    half = 0.5 * np.diff(edges)
    nodes = edges[:-1, None] + half[:, None] * (x + 1)
    return nodes.ravel(), (half[:, None] * w).ravel()


def _gaussian_panels(mean: Array, var: Array, corner: Array | None) -> tuple[Array, Array]:
    """Return latent values (n, q) and the logs of weights times N(f | mean, var); `corner`, or 0, is a panel edge."""
    sd = np.sqrt(var)
    f, log_w = [], []
    for m, s, c in zip(mean, sd, np.zeros_like(mean) if corner is None else corner, strict=True):
        t, w = panels(-SPREAD, SPREAD, (c - m) / s)
        missing = (PANELS + 1) * ORDER - len(t)
        t, w = np.pad(t, (0, missing)), np.pad(w, (0, missing))
        f.append(m + s * t)
        log_w.append(np.log(w, out=np.full_like(w, -np.inf), where=w > 0) - 0.5 * t**2 - 0.5 * np.log(2 * np.pi))
    return np.array(f), np.array(log_w)


def expectation(function: Callable[[Array], Array], mean: Array, var: Array, corner: Array | None = None) -> Array:
    """Return E[function(f)], f ~ N(mean, var), by dense quadrature; `function` maps (n, q) to (n, q).

    It may have a corner at `corner` (n,), by default at 0.
    """
    f, log_w = _gaussian_panels(mean, var, corner)
    return np.sum(np.exp(log_w) * function(f), axis=1)


def tilted_truth(
    log_prob: Callable[[Array], Array], mean: Array, var: Array, corner: Array | None = None
) -> tuple[Array, Array, Array]:
    """Return log mass, mean and variance of N(f | mean, var) exp(log_prob(f)), by dense quadrature."""
    f, log_w = _gaussian_panels(mean, var, corner)
    log_w = log_w + log_prob(f)
    top = log_w.max(axis=1)
    w = np.exp(log_w - top[:, None])
    mass = w.sum(axis=1)
    first = (w * f).sum(axis=1) / mass
    return top + np.log(mass), first, (w * (f - first[:, None]) ** 2).sum(axis=1) / mass


def expected_bound(likelihood: Any, y: Array, touch: Array, mean: Array, var: Array) -> Array:
    """Return the expectation of the quadratic bound under N(mean, var)."""
    constant, nu, tau = likelihood.bound(y, touch)
    return constant + nu * mean - 0.5 * tau * (mean**2 + var)
