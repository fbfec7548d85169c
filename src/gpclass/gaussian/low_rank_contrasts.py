"""Inducing variables of C latent functions that are coupled by the sites of the data.

The prior is that of `low_rank`: v = (v_1, …, v_C) ~ N(0, I), g_ic = φ_icᵀ v_c, and f_i = g_i + e_i with independent e_i. A
site on g_i has precision Π_i = diag(π_i) - π_i π_iᵀ/(1ᵀπ_i). The sites of multinomial probit on f_i have this form, and
`class_sites` gives those on g_i, of the same form with smaller π. The posterior of v is one Gaussian of C M variables,

    q(v) = N(μ, A⁻¹),    A = I + S,    S_cd = Σ_i Π_i,cd φ_ic φ_idᵀ

S costs C (C + 1)/2 outer products of M × M per row, and so do the covariances of g_i. A factorisation costs C² times as
much as C separate ones. Arrays for v have one group: S (1, C M, C M), μ (1, C M).

[RJV] Riihimäki, Jylänki & Vehtari 2013, section 3.2 and appendix B.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..numerics import blocks
from .coupled import precisions
from .low_rank import BLOCK_ROWS, LowRankMoments, LowRankPosterior, LowRankPrior, Marginals, Rows
from .products import times, times_triangle, transposed_times
from .sites import matrix_cavity


class ContrastLowRankPrior(LowRankPrior):
    """N(0, K_uu) of the inducing variables of each latent function; sites couple the latent functions of a datum."""

    @staticmethod
    def no_sites(n_latents: int, M: int) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((1, n_latents * M, n_latents * M)), np.zeros((1, n_latents * M))

    def add_sites(self, P: np.ndarray, h: np.ndarray, rows: np.ndarray, tau: np.ndarray, nu: np.ndarray) -> None:
        """Add the natural parameters of sites with π = `tau` (m, C) and ν (m, C) to P (1, C M, C M) and h (1, C M)."""
        C, M = self.n_latents, self.M
        Pi = precisions_or_zero(tau)
        for some in blocks(len(tau), C * M, least=BLOCK_ROWS):
            for c in range(C):
                own, scaled = _of(rows, c)[some], Pi[some, c, : c + 1, None] * _of_first(rows[:, some], c + 1)
                P[0, c * M : (c + 1) * M, : (c + 1) * M] += transposed_times(own, scaled.reshape(len(scaled), -1))
                h[0, c * M : (c + 1) * M] += nu[some, c] @ own

    def moments(self, mu: np.ndarray, root: np.ndarray) -> ContrastMoments:
        return ContrastMoments(self, mu, root)

    def posterior(self, S: np.ndarray, pull: np.ndarray) -> ContrastLowRankPosterior:
        return ContrastLowRankPosterior(self, S, pull)

    def _congruent(self, P, h, triangles, transposed=False):
        """Return L_cᵀ P_cd L_d and L_cᵀ h_c, or with L_cᵀ in place of L_c."""
        C, M = self.n_latents, self.M
        half = self._by_columns(P[0].reshape(C * M, C, M), triangles, transposed)
        turned = np.ascontiguousarray(half.reshape(C * M, C * M).T)  # P is symmetric
        out = self._by_columns(turned.reshape(C * M, C, M), triangles, transposed).reshape(1, C * M, C * M)
        pull = self._by_columns(h[0].reshape(1, C, M), triangles, transposed).reshape(1, C * M)
        return 0.5 * (out + np.swapaxes(out, 1, 2)), pull

    def _by_columns(self, X: np.ndarray, triangles: np.ndarray, transposed: bool) -> np.ndarray:
        """Return X_kc L_c for X (k, C, M)."""
        if len(triangles) == 1:
            return times_triangle(X.reshape(-1, self.M), triangles[0], transposed).reshape(X.shape)
        parts = (times_triangle(np.ascontiguousarray(X[:, c]), L, transposed) for c, L in enumerate(triangles))
        return np.stack(list(parts), axis=1)


class ContrastMoments(LowRankMoments):
    """q(v) = N(μ, A⁻¹) with μ (1, C M) and A⁻¹ (1, C M, C M)."""

    def marginals(self, rows: Rows, slopes: bool = False) -> ContrastMarginals:
        C, M, m = self.prior.n_latents, self.prior.M, rows.phi.shape[1]
        mu, cov = self.mu.reshape(C, M), np.empty((m, C, C))
        for c in range(C):  # the blocks above the diagonal follow by symmetry
            of_own = times(_of(rows.phi, c), np.ascontiguousarray(self._block_row(c)))
            lower = np.einsum("idk,idk->id", of_own.reshape(m, c + 1, M), _of_first(rows.phi, c + 1))
            cov[:, c, : c + 1] = lower
            cov[:, : c + 1, c] = lower
        mean = np.stack([_of(rows.phi, c) @ mu[c] for c in range(C)], axis=1)
        var = np.einsum("icc->ic", cov)
        np.maximum(var, 0.0, out=var)
        return ContrastMarginals(rows, mu, None, mean, var, cov, self.A_inv[0])

    def _block_row(self, c: int) -> np.ndarray:
        """Return the covariances (M, (c + 1) M) of v_c with v_0 … v_c."""
        M = self.prior.M
        return self.A_inv[0, c * M : (c + 1) * M, : (c + 1) * M]


class ContrastLowRankPosterior(ContrastMoments, LowRankPosterior):
    """q(v) = N(μ, A⁻¹), A = I + S, with natural parameters S (1, C M, C M) and `pull` (1, C M) of the sites."""

    def change_of_moments(self) -> np.ndarray:
        C, M, groups = self.prior.n_latents, self.prior.M, self.prior.n_groups
        mu = self.mu.reshape(groups, -1, M)
        own = np.einsum("cicj->cij", self.A_inv[0].reshape(C, M, C, M)).reshape(groups, -1, M, M)
        return np.stack([transposed_times(part, part) for part in mu]) + own.sum(1) - C // groups * np.eye(M)


@dataclass(frozen=True)
class ContrastMarginals(Marginals):
    """Marginals of g_i, with covariances between latent functions."""

    cov: np.ndarray  # (m, C, C)
    A_inv: np.ndarray  # (C M, C M) of the posterior that the marginals come from

    @property
    def spread(self) -> np.ndarray:
        return self.cov

    def feature_slopes(self, prior: LowRankPrior, slope: np.ndarray, spread: np.ndarray) -> list[np.ndarray]:
        """Return Σ_c slope_c μ_c + Σ_cd spread_cd cov(v_c, g_d) for each row, (m, M), summed over each group."""
        C, M, m = prior.n_latents, prior.M, len(self.mean)
        out = [np.zeros((m, M)) for _ in range(prior.n_groups)]
        for c in range(C):
            scaled = spread[:, c, :, None] * _of_first(self.rows.phi, C)
            own = times(scaled.reshape(m, C * M), np.ascontiguousarray(self.A_inv[:, c * M : (c + 1) * M]))
            own += slope[:, c, None] * self.mu[c]
            out[c if prior.n_groups > 1 else 0] += own
        return out

    def without(self, tau: np.ndarray, nu: np.ndarray, least: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the means (m, C) and covariances (m, C, C) with sites (π, ν) removed; see `coupled_cavity`."""
        left = coupled_cavity(self.mean, self.cov, tau, nu, least)
        return left.mean, left.cov

    def move(self, old: tuple[np.ndarray, np.ndarray], new: tuple[np.ndarray, np.ndarray]) -> float:
        d_Pi, d_nu = precisions_or_zero(new[0]) - precisions_or_zero(old[0]), new[1] - old[1]
        sd = np.sqrt(self.var)
        shift = np.abs(d_nu - np.einsum("icd,id->ic", d_Pi, self.mean)) * sd
        turn = np.abs(d_Pi) * sd[:, :, None] * sd[:, None, :]
        return float(np.maximum(np.max(turn, initial=0.0), np.max(shift, initial=0.0)))


def _of(rows: np.ndarray, c: int) -> np.ndarray:
    """Return the features (m, M) of one class, given those of all (1 or C, m, M)."""
    return rows[c if len(rows) > 1 else 0]


def _of_first(rows: np.ndarray, k: int) -> np.ndarray:
    """Return the features (m, k, M) of the first k classes, given those of all (1 or C, m, M)."""
    _, m, M = rows.shape
    return np.broadcast_to(np.swapaxes(rows[:k], 0, 1), (m, k, M))


def precisions_or_zero(pi: np.ndarray) -> np.ndarray:
    """Return Π (m, C, C) for π (m, C); zero for rows without sites, where π is zero."""
    known = np.any(pi, axis=1)
    return precisions(np.where(known[:, None], pi, 1.0)) * known[:, None, None]


# sites on contrasts -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClassSites:
    """Sites exp(constant - ½ gᵀΠg + νᵀg) of data, Π = diag(π) - ππᵀ/(1ᵀπ)."""

    pi: np.ndarray  # (m, C)
    nu: np.ndarray  # (m, C)
    constant: np.ndarray  # (m,)


def class_sites(own: np.ndarray, tau: np.ndarray, nu: np.ndarray, rest: np.ndarray) -> ClassSites:
    """Return sites on g that act as scalar sites on the contrasts x_j = f_y - f_j + u, f = g + e, u and e integrated out.

    u ~ N(0, 1) and e ~ N(0, diag(rest)). All arrays are (m, C); `own` is true for class y, where τ and ν are zero. Without e
    this is [RJV] (12) and (15). e_j reduces τ_j to τ_j/(1 + rest_j τ_j), a precision on g_y - g_j + e_y + u, and e_y adds to
    the variance of u.
    """
    grown = 1 + rest * tau
    tau, each = tau / grown, nu / grown
    pi = np.where(own, 1 / (1 + rest), tau)
    total, pushed = pi.sum(1), each.sum(1)
    by_e = np.sum(rest * nu * each - np.log(grown), axis=1)
    by_u = pushed**2 / total + np.log(np.sum(pi, axis=1, where=own) / total)
    each = each - tau * (pushed / total)[:, None]
    return ClassSites(pi, np.where(own, each.sum(1, keepdims=True), -each), 0.5 * (by_e + by_u))


@dataclass(frozen=True)
class MatrixCavity:
    """Marginals of g with the site of each datum removed."""

    mean: np.ndarray  # (m, C)
    cov: np.ndarray  # (m, C, C)
    gain: np.ndarray  # (m, C, C) G: the covariance of v with g without the site is that with the site times G
    tilt: np.ndarray  # (m, C) the mean of v without the site is that with the site plus its covariance with g times this


def coupled_cavity(mean: np.ndarray, cov: np.ndarray, pi: np.ndarray, nu: np.ndarray, least: float) -> MatrixCavity:
    """Return marginals with sites (π, ν) removed.

    A site is removed only in part if the cavity would keep less than `least` of the precision: the smallest eigenvalue of
    I - √Π cov √Π.
    """
    Pi = precisions_or_zero(pi)
    room = _room(cov, pi, Pi, least)
    Pi, nu = room[:, None, None] * Pi, room[:, None] * nu
    without, cov_without = matrix_cavity(mean, cov, Pi, nu)
    gain = np.linalg.inv(np.eye(pi.shape[1]) - Pi @ cov)
    tilt = np.einsum("icd,id->ic", gain, np.einsum("icd,id->ic", Pi, mean) - nu)
    return MatrixCavity(without, cov_without, gain, tilt)


def _room(cov: np.ndarray, pi: np.ndarray, Pi: np.ndarray, least: float) -> np.ndarray:
    """Return the fraction (m,) of each site that can be removed."""
    room = np.ones(len(pi))
    check = np.einsum("icd,idc->i", Pi, cov) > 1 - least  # the trace bounds the largest eigenvalue
    if np.any(check):
        root = np.sqrt(np.maximum(pi[check], 0.0))
        q = root / np.linalg.norm(root, axis=1, keepdims=True)
        R = root[:, :, None] * (np.eye(pi.shape[1]) - q[:, :, None] * q[:, None, :])  # Π = R Rᵀ: I - qqᵀ is a projection
        largest = np.linalg.eigvalsh(np.swapaxes(R, 1, 2) @ cov[check] @ R)[:, -1]
        room[check] = np.minimum(1.0, (1 - least) / np.maximum(largest, 1e-300))
    return room
