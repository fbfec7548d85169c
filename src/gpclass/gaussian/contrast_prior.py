"""The prior of contrasts of classes g_ij = f_i^y - f_i^j + u_i, j ≠ y_i, u_i ~ N(0, 1).

[RJV] Riihimäki, Jylänki & Vehtari 2013, section 3.2.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..numerics.classes import other_classes


class ContrastPrior:
    """N(0, K) of the contrasts of data with labels y, and the maps between n (C - 1) contrasts and n × C classes.

    A datum may stand for several copies, each with its own u; `copies` is their number, a float or (n,). Each contrast of a
    copy may consist of several equal `parts`, which share its u and its site (power EP).
    """

    def __init__(
        self, K: np.ndarray, y: np.ndarray, n_classes: int, copies: np.ndarray | float = 1.0, parts: float = 1.0
    ):
        self.K, self.y, self.n_classes, self.parts = K, y, n_classes, parts
        self.copies = copies if np.ndim(copies) == 0 else np.asarray(copies)[:, None]  # broadcasts against tables (n, …)
        self.others = other_classes(y, n_classes)
        first = np.arange(len(y))[:, None] * n_classes
        self._own, self._others = first + y[:, None], first + self.others  # positions in a flat (n, C) array
        by_class = np.broadcast_to(np.diagonal(K, axis1=-2, axis2=-1), (n_classes, len(y))).T
        self.var = (by_class.take(self._own) + by_class.take(self._others) + 1).ravel()  # (n (C - 1),)

    @cached_property
    def weight(self) -> np.ndarray | float:
        """Number of equal parts of each contrast in all copies: a number, or (n (C - 1),)."""
        if np.ndim(self.copies) == 0 and self.parts == 1:
            return self.copies
        return np.broadcast_to(self.copies * self.parts, self.others.shape).ravel()

    def table(self, x: np.ndarray) -> np.ndarray:
        """Return contrasts (n (C - 1),) as (n, C - 1)."""
        return x.reshape(self.others.shape)

    def pi(self, tau: np.ndarray) -> np.ndarray:
        """Return π (n, C) of the latent values. [RJV] (12)"""
        pi = np.ones((len(self.y), self.n_classes))
        pi.ravel()[self._others] = self.table(tau)
        return pi

    def to_classes(self, x: np.ndarray) -> np.ndarray:
        """Return B x (n, C): class y gets the sum of its contrasts, each other class the negative of its contrast."""
        x = self.table(x)
        out = np.empty((len(self.y), self.n_classes))
        out.ravel()[self._others] = -x
        out.ravel()[self._own[:, 0]] = x.sum(1)
        return out

    def to_contrasts(self, f: np.ndarray) -> np.ndarray:
        """Return Bᵀ f (n, C - 1) for f (n, C)."""
        return f.take(self._own) - f.take(self._others)

    def times(self, alpha: np.ndarray) -> np.ndarray:
        """Return the prior covariance of the contrasts times α."""
        by_class = self.to_classes(alpha)
        K = np.broadcast_to(self.K, (self.n_classes, *self.K.shape[-2:]))
        f = np.stack([K[c] @ by_class[:, c] for c in range(self.n_classes)], axis=1)
        return (self.to_contrasts(f) + by_class.take(self._own) / self.copies).ravel()

    @cached_property
    def _signs(self) -> np.ndarray:
        """(C, n (C - 1)) sign of each class in each contrast: 1 for class y, -1 for class j, 0 for others."""
        flat = np.arange(self.others.size)
        signs = np.zeros((self.n_classes, len(flat)))
        signs[np.repeat(self.y, self.n_classes - 1), flat] = 1.0
        signs[self.others.ravel(), flat] = -1.0
        return signs

    @cached_property
    def covariance(self) -> np.ndarray:
        """Covariance matrix of the contrasts, averaged over the copies of each datum: u has variance 1 / copies."""
        n, times = len(self.y), self.n_classes - 1
        if self.K.ndim == 2:
            out = np.repeat(np.repeat(self.K, times, axis=0), times, axis=1)
            out *= self._signs.T @ self._signs
        else:
            wide = np.repeat(np.repeat(self.K, times, axis=1), times, axis=2)
            out = np.einsum("cij,ci,cj->ij", wide, self._signs, self._signs)
        np.einsum("iaib->iab", out.reshape(n, times, n, times))[...] += 1 / np.reshape(self.copies, (-1, 1, 1))
        return out

    def to_inputs(self, G: np.ndarray) -> np.ndarray:
        """Return derivatives in K, (n, n) or (C, n, n), for symmetric derivatives G in `covariance`, which are changed."""
        if self.K.ndim == 2:
            G *= self._signs.T @ self._signs
            return self._summed(G)
        return np.stack([self._summed(sign[:, None] * G * sign) for sign in self._signs])

    def _summed(self, G):
        """Return the sum over the contrasts of each pair of data."""
        n, times = len(self.y), self.n_classes - 1
        rows = G.reshape(n, times, -1).sum(axis=1)
        return np.ascontiguousarray(rows.T).reshape(n, times, n).sum(axis=1)
