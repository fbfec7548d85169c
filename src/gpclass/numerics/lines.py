"""Softmax of a rare class by line sampling (Koutsourelakis, Pradlwarter & Schuëller 2004).

The class has its own integral, over its contrasts g_j = f_c - f_j with the others: of 1 / (1 + Σ_j exp(-g_j)). The direction
that leads to where the class has most of its mass is done by the trapezoid rule, the directions at right angles to it by
quasi-random points. The relative error is therefore small, however rare the class.
"""

from __future__ import annotations

import numpy as np

from .normal import hazard
from .orthants import in_turn
from .points import averages, normal_points, tolerance
from .trapezoid import FACTORED, REACH, SINGLE, node_count, nodes

FIRST = 128  # quasi-random points to begin with
CLIMB = 8  # steps towards the mode, which only gives lines their direction
FARTHEST, HALVINGS = 40.0, 10  # where on a line the mode may be: beyond, a class has no probability; steps that find it
LOGISTIC_VARIANCE = 2.9  # of the normal distribution function closest to the logistic function


def softmax_by_lines(mu: np.ndarray, S: np.ndarray) -> np.ndarray:
    """(P,) E[1 / (1 + Σ_j exp(-g_j))] for contrasts g ~ N(mu (d, P), S (d, d, P))."""
    lines, z = _Lines(mu, S), normal_points(len(mu) - 1)
    return averages(lambda pairs, at: lines.softmax(pairs, z[:, at])[:, None], lines.nodes, 1, tolerance, FIRST)[0, :, 0]


class _Lines:
    """g = mu + along t + across z: lines in t, one for each z, that point to the mode at t = distance, z = 0; P of each."""

    def __init__(self, mu, S):
        self.mu, L = in_turn(mu, S)  # (d, P), (d, d, P)
        width = np.sqrt(LOGISTIC_VARIANCE + 0.5 * np.min(np.sum(L * L, axis=1), axis=0))
        mode = _climb(self.mu, L, width)
        length = _norm(mode)
        here = length < 1e-9
        unit = np.where(here, 0.0, mode / np.where(here, 1.0, length))
        unit[-1] += here  # any direction will do
        # Householder's reflection takes the last axis to ± unit, and the others to what is at right angles to it
        mirror = unit.copy()
        mirror[-1] += np.where(unit[-1] > 0, 1.0, -1.0)
        mirror /= _norm(mirror)
        self.along = _product(L, unit)  # (d, P)
        self.distance = _peak(self.mu, self.along, width)  # (P,)
        self.across = L[:, :-1] - 2 * _product(L, mirror)[:, None] * mirror[:-1]  # (d, d - 1, P)
        # (P,) of the rule along lines, from how fast contrasts and zero move away from each other
        self.nodes = node_count(np.maximum(self.along.max(0), 0.0) - np.minimum(self.along.min(0), 0.0))

    def softmax(self, pairs, z):
        """(p, n) E[1 / (1 + Σ exp(-g))] along the lines at z (d - 1, n), for pairs with the same number of nodes."""
        count, distance, along = self.nodes[pairs[0]], self.distance[pairs, None], self.along[:, pairs].T
        g = np.matmul(np.moveaxis(self.across[..., pairs], -1, 0), z)
        g += (self.mu[:, pairs].T + along * distance)[..., None]
        step = nodes(count)
        odds = _odds(g, along, step)
        odds += 1.0
        weights = np.exp(-0.5 * (distance + step) ** 2) * (step[1] - step[0]) / np.sqrt(2 * np.pi)
        return np.matmul(np.reciprocal(odds, out=odds), weights[..., None])[..., 0]


def _odds(g, along, step):
    """(p, n, q) Σ_j exp(-g_j - along_j step) from g (p, d, n), along (p, d) and step (q,); may be infinite."""
    with np.errstate(over="ignore"):
        if len(step) > FACTORED:
            return sum(np.exp(-g[:, j, :, None] - along[:, j, None, None] * step) for j in range(g.shape[1]))
        dtype, lowest = np.float32 if len(step) <= SINGLE else float, g.min(1, keepdims=True)
        apart = np.exp((lowest - g).astype(dtype))
        odds = np.matmul(apart.swapaxes(1, 2), np.exp((-along[..., None] * step).astype(dtype)))
        odds *= np.exp(-lowest.astype(dtype)).swapaxes(1, 2)
        return odds


def _climb(mu, L, width):
    """(d, P) towards the mode of N(x | 0, I) / (1 + Σ exp(-g)), smoothed; gradient steps of Barzilai & Borwein.

    They may end far from it where some contrasts are much wider than others: only their direction is used.
    """

    def gradient(x):
        return _product(np.swapaxes(L, 0, 1), _pull(mu + _product(L, x), width)) - x

    x, last = np.zeros_like(mu), gradient(np.zeros_like(mu))
    rate = 1 / (1 + 0.3 * np.mean(np.sum(L * L, axis=1), axis=0) / width**2)
    for _ in range(CLIMB):
        move = rate * last
        x = x + move
        now = gradient(x)
        bend = np.sum(move * (last - now), axis=0)
        rate = np.where(bend > 0, np.minimum(np.sum(move * move, axis=0) / np.where(bend > 0, bend, 1.0), 1.0), 1.0)
        last = now
    return x


def _peak(mu, along, width):
    """(P,) t of the mode on the line x = t · unit, to 0.04. The function is log-concave, so that bisection finds it."""
    low, high = np.full((2, mu.shape[1]), [[-FARTHEST], [FARTHEST]])
    for _ in range(HALVINGS):
        t = 0.5 * (low + high)
        uphill = np.sum(along * _pull(mu + along * t, width), axis=0) > t
        low, high = np.where(uphill, t, low), np.where(uphill, high, t)
    return 0.5 * (low + high)


def _pull(g, width):
    """(d, P) gradient of the logarithm of 1 / (1 + Σ exp(-g)), smoothed."""
    lowest = g.min(0)
    share = np.exp(lowest - g)
    total = share.sum(0)
    pull = np.minimum(hazard((lowest - np.log(total)) / width) / width, 1.0)  # the log of softmax is no steeper
    return share * (pull / total)


def _product(A, x):
    """A x for each of P matrices and vectors."""
    return np.sum(A * x, axis=1)


def _norm(x):
    return np.sqrt(np.sum(x * x, axis=0))
