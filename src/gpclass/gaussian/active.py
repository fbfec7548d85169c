"""A prior with sites on an active set only: q(f) ∝ N(f | 0, K) ∏_{i in I} exp(-½ τ_i f_i² + ν_i f_i).

The restriction of q to I is a `FullPosterior` of d rows, and it determines q together with the covariances with these rows.
While the set grows, `Stubs` updates the marginals of all candidates. Each inclusion costs one column of K and one
matrix-vector product: it appends the column √ν (K_.i - M M_iᵀ) to M = K_.I √Π L⁻ᵀ.

[SLH] Seeger, Lawrence & Herbrich, sections 3.1, 3.2; appendix C. Its b is our ν (`nu`), its Π our τ (`tau`), its h and a are
`mean` and `var`. Departs from C.1: h and a change by α_i A_i and -ν_i A_i² with A_i = K_.i - M M_iᵀ, ν_i = -curvature,
so there is no division by Π^½. L and β are not stored, since one factorisation of d rows at the end is cheap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.blas import dgemv

from .columns import Columns, MatrixColumns, cross, gram
from .full import FullPosterior
from .rounding import SMALLEST_VARIANCE
from .sites import Sites

STUBS_PER_PIECE = 16  # number of stubs allocated at a time when memory is limited


class Stubs:
    """Marginals of the candidates while sites are added one by one. `rows` holds the numbers of the candidates.

    The stub of a row is M_i, its row of M. A row with a site need not be a candidate: its covariances with the candidates
    and its stub suffice.
    """

    def __init__(self, covariance: Columns, piece: int = STUBS_PER_PIECE, rows: np.ndarray | None = None):
        self.covariance, self.piece = covariance, piece
        self.rows = np.arange(len(covariance)) if rows is None else rows
        self.prior_var = np.array(covariance.diag, dtype=float)
        self._least = SMALLEST_VARIANCE * self.prior_var
        self.mean, self.var = np.zeros(len(self.rows)), self.prior_var.copy()
        self.count = 0
        self._pieces: list[np.ndarray] = []  # of M transposed, up to `piece` rows each

    def include(self, i: int, slope: float, curvature: float) -> None:
        """Add the site of candidate i, given slope and curvature of log Z_i in its mean. C.1"""
        self.add(self.column(i), self.stub_of(i), slope, curvature, i)

    def column(self, i: int) -> np.ndarray:
        """Return the covariances (m,) of the candidates with candidate i, as a new array."""
        return np.ascontiguousarray(self.covariance.columns(np.array([i]))[:, 0])

    def stub_of(self, rows: Any) -> np.ndarray:
        """Return M_i of candidate i (count,), or (k, count) of several."""
        parts = [piece[:used, rows].T for piece, used in self._filled()]
        return np.concatenate(parts, axis=-1) if parts else np.zeros((*np.shape(rows), 0))

    def add(self, A: np.ndarray, own: np.ndarray, slope: float, curvature: float, i: int | None) -> None:
        """Add the site of any row, given the slope and curvature of log Z in its mean. C.1

        A (m,) holds its covariances with the candidates and is overwritten. `own` is its stub. i is its position among the
        candidates, or None if it is not one of them.
        """
        if not len(A):
            self.count += 1
            return
        first = 0
        for piece, used in self._filled():
            dgemv(-1.0, piece[:used].T, own[first : first + used], 1.0, A, overwrite_y=1)
            first += used
        if i is not None:
            A[i] = self.var[i]  # equal up to rounding
        stub = self._stub(A)
        self.mean += np.multiply(A, slope, out=stub)  # `stub` serves as scratch memory here
        np.multiply(A, np.sqrt(-curvature), out=stub)
        self.var -= np.multiply(stub, stub, out=A)
        np.maximum(self.var, self._least, out=self.var)
        self.count += 1

    def _filled(self):
        """Yield pairs of a piece and the number of stubs in it."""
        used = (self.count - self.piece * j for j in range(len(self._pieces)))
        return ((piece, min(self.piece, left)) for piece, left in zip(self._pieces, used, strict=True) if left > 0)

    def _stub(self, like: np.ndarray) -> np.ndarray:
        """Return memory for the next column of M."""
        if self.count == self.piece * len(self._pieces):
            self._pieces.append(np.empty((self.piece, len(like))))
        return self._pieces[-1][self.count % self.piece]

    def keep(self, which: np.ndarray) -> None:
        """Drop all candidates except `which`. Pieces are replaced one at a time to limit the peak memory."""
        for j in range(len(self._pieces)):
            self._pieces[j] = self._pieces[j][:, which]
        self.covariance = self.covariance.take(which)
        self.rows, self.prior_var, self._least = self.rows[which], self.prior_var[which], self._least[which]
        self.mean, self.var = self.mean[which], self.var[which]


@dataclass(frozen=True)
class ActiveSites:
    """Sites in the order of inclusion. A row can have a site for each of several latent functions."""

    rows: np.ndarray  # (d,) rows of the sites
    latents: np.ndarray  # (d,) latent functions of the sites; all zero if there is only one
    sites: Sites

    def __len__(self) -> int:
        return len(self.rows)

    def of(self, latent: int) -> tuple[np.ndarray, Sites]:
        """Return the rows and sites of one latent function."""
        mine = self.latents == latent
        return self.rows[mine], Sites(self.sites.tau[mine], self.sites.nu[mine])

    def with_sites(self, sites: Sites) -> ActiveSites:
        return ActiveSites(self.rows, self.latents, sites)

    def renumbered(self, rows: np.ndarray) -> ActiveSites:
        """Return the same sites, with rows given as positions in `rows`."""
        order = np.argsort(rows)
        return ActiveSites(order[np.searchsorted(rows, self.rows, sorter=order)], self.latents, self.sites)

    @property
    def union(self) -> np.ndarray:
        """All rows with a site, in the order of first inclusion."""
        rows, first = np.unique(self.rows, return_index=True)
        return rows[np.argsort(first)]


class ActivePosterior:
    """Independent latent functions, each with sites on its own active set.

    `rows` (u,) is the union of all active sets: the rows that predictions need. `active` is the list of the functions'
    active sets, `positions` the same as positions in `rows`, and `parts` the posteriors there.
    """

    def __init__(self, covariances: Sequence[Columns], at: ActiveSites):
        self.at, self.rows = at, at.union
        self.active: list[np.ndarray] = []
        self.parts: list[Any] = []  # FullPosterior or EmptyPosterior
        for c, covariance in enumerate(covariances):
            rows, sites = at.of(c)
            self.active.append(rows)
            self.parts.append(FullPosterior(gram(covariance, rows), sites) if len(rows) else EmptyPosterior())
        local = at.renumbered(self.rows)
        self.positions = [local.of(c)[0] for c in range(len(covariances))]

    def state(self) -> dict[str, np.ndarray]:
        """Return the arrays that `restored` needs besides the covariances."""
        at = self.at
        return {"rows": at.rows, "latents": at.latents, "tau": at.sites.tau, "nu": at.sites.nu}

    @classmethod
    def restored(cls, K: np.ndarray, n: int, n_latents: int, state: Mapping[str, Any]) -> ActivePosterior:
        """Rebuild the posterior from its `state`; K (u, u) or (C, u, u) holds the covariances among its `rows`, out of n."""
        at = ActiveSites(state["rows"], state["latents"], Sites(state["tau"], state["nu"]))
        rows = at.union
        place = np.zeros(n, int)
        place[rows] = np.arange(len(rows))
        return cls([MatrixColumns(k, place) for k in np.broadcast_to(K, (n_latents, len(rows), len(rows)))], at)

    def renumbered(self) -> ActivePosterior:
        """Return the same posterior with its `rows` numbered 0 … u-1."""
        made = copy(self)
        made.at, made.rows, made.active = self.at.renumbered(self.rows), np.arange(len(self.rows)), self.positions
        return made

    @property
    def n_latents(self) -> int:
        return len(self.parts)

    @property
    def log_det(self) -> float:
        return sum(p.log_det for p in self.parts)

    @property
    def log_partition(self) -> float:
        """log ∫ N(f | 0, K) ∏ exp(-½ τ f² + ν f) df."""
        return sum(p.log_partition for p in self.parts)

    @property
    def divergence(self) -> float:
        """KL(q ‖ prior). Only the active rows contribute: given them, q is the prior."""
        return 0.5 * sum(p.log_det + p.trace_ratio + float(p.alpha @ p.mean) - len(p.alpha) for p in self.parts)

    def predict(self, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the means and variances (m, C) at new points; Ks (u, m) or (C, u, m), prior variances kd (m,) or (C, m)."""
        C, m = self.n_latents, Ks.shape[-1]
        Ks, kd = np.broadcast_to(Ks, (C, *Ks.shape[-2:])), np.broadcast_to(kd, (C, m))
        moments = [p.predict(Ks[c][at], kd[c]) for c, (p, at) in enumerate(zip(self.parts, self.positions, strict=True))]
        return np.stack([mean for mean, _ in moments], axis=1), np.stack([var for _, var in moments], axis=1)


class EmptyPosterior:
    """The posterior of a function without sites, equal to its prior."""

    sites = Sites.zeros(0)
    mean = var = alpha = np.zeros(0)
    log_det = log_partition = trace_ratio = 0.0

    def cavity(self) -> tuple[np.ndarray, np.ndarray]:
        return self.mean, self.var

    def gradient(self) -> np.ndarray:
        return np.zeros((0, 0))

    def predict(self, Ks: np.ndarray, kd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(len(kd)), np.array(kd)


@dataclass(frozen=True)
class Block:
    """Quantities of m rows relative to the active rows of one function."""

    K: np.ndarray  # (d, m) cross covariances
    stubs: np.ndarray  # (d, m) M transposed
    mean: np.ndarray  # (m,)
    var: np.ndarray  # (m,)


def block(part: Any, covariance: Columns, active: np.ndarray, rows: np.ndarray, prior_var: np.ndarray) -> Block:
    """Return the block of rows without sites, given the posterior of the active rows."""
    K = cross(covariance, active, rows)
    if not np.any(part.sites.tau) or not len(rows):
        return Block(K, np.zeros_like(K), K.T @ part.alpha, prior_var.copy())
    system = part._system
    stubs = system.factor.whiten(system.root[:, None] * K)
    var = prior_var - np.einsum("ij,ij->j", stubs, stubs)
    return Block(K, stubs, K.T @ part.alpha, np.maximum(var, SMALLEST_VARIANCE * prior_var))
