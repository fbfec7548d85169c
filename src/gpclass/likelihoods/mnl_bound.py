"""Chai's lower bound of E[log softmax(f)_y] under f ~ N(mean, cov), which is tight at any variance.

Theorem 6 gives the lower bound h(y; q, b, S) = m_y + u(b, S), with u concave in b (C) and S (C × C) and the same for all y.
With log Σ_c exp x_c = max_p Σ_c p_c x_c + entropy(p), and with max and min exchanged, b = p and S follow from p in closed
form, and max u is the minimum of a convex function of a point p of the simplex:

    u* = min_p  ½ Σ_j [log s_j - 2(s_j - 1)] - mᵀp + Σ_c p_c log p_c,   s = ½ + √(¼ + λ),  λ the eigenvalues of LᵀA(p)L

with V = LLᵀ and A(p) = diag(p) - p pᵀ. So Newton's method has C - 1 dimensions instead of C + C(C + 1)/2, no matrix is
inverted, and each p has a bound on its error: u* - u(b = p, S(p)) ≤ KL(p ‖ ḡ). At the optimum b = ḡ = p.

W = S - V⁻¹ is -2 dh*/dV, the site precision: W + WVW = A. With A = R Rᵀ it is R s(RᵀVR)⁻¹ Rᵀ, s applied to the eigenvalues.

[C] Chai 2012, sections 2.3.1, 3.1, 3.2; lemmas 25-29.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..numerics import blocks
from ..numerics.classes import contrast_basis

NEWTON_STEPS = 200  # largest number of steps
DEFAULT_TOL = 1e-9  # size of a Newton step in log p after which the next one would be below rounding error
NEGLIGIBLE_LOG_P = -30.0  # log p of a class of negligible probability; steps do not go below it, since the way back is slow
SHORTEST_STEP = 2.0**-40  # smallest step fraction of a line search
LARGE_EXCESS = 30.0  # s - 1 above which the cheaper formula for W loses digits


@dataclass(frozen=True)
class BoundOptimum:
    """The maximum of h(y; q, b, S) over b and S, for each of n Gaussians."""

    mean: np.ndarray  # (n, C) means of the Gaussians
    cov: np.ndarray  # (n, C, C) their covariances
    value: np.ndarray  # (n,) u(b, S) = h - m_y; a valid lower bound for any gap
    log_b: np.ndarray  # (n, C) log b; can start a search at similar Gaussians
    precision: np.ndarray  # (n, C, C) W = S - V⁻¹ = -2 dh/dcov, psd with W 1 = 0
    root: np.ndarray  # (n, C, C-1) with W = root rootᵀ
    gap: np.ndarray  # (n,) upper bound on the distance to the exact maximum
    spread: tuple[np.ndarray, np.ndarray]  # arguments of `_stiffness`, from which `curvature` is computed
    n_steps: int  # Newton steps taken

    @property
    def b(self) -> np.ndarray:
        """(n, C) b on the simplex; the slope of h in the mean is (one-hot y) - b."""
        return np.exp(self.log_b)

    @cached_property
    def curvature(self) -> np.ndarray:
        """(n, C, C) -d²h/dmean² = db/dmean, psd and at most W."""
        R = multinomial_root(self.log_b)
        Rt = np.swapaxes(R, 1, 2)
        curvature = R @ np.linalg.solve(np.eye(R.shape[2]) + Rt @ _stiffness(*self.spread) @ R, Rt)
        return 0.5 * (curvature + np.swapaxes(curvature, 1, 2))

    def of_class(self, y: np.ndarray) -> np.ndarray:
        """Return h (n,) for labels y (n,) in 0 … C-1."""
        return self.value + _own(y, self.mean)

    @property
    def of_classes(self) -> np.ndarray:
        """(n, C) h for every label. [C] (24)"""
        return self.value[:, None] + self.mean


def maximise_bound(
    mean: np.ndarray,
    cov: np.ndarray,
    start: np.ndarray | None = None,
    *,
    tol: float = DEFAULT_TOL,
) -> BoundOptimum:
    """Maximise h over b and S for each of n Gaussians.

    Parameters
    ----------
    mean : ndarray of shape (n, C)
        Means of the Gaussians.
    cov : ndarray of shape (n, C, C)
        Covariances of the Gaussians; they may be singular.
    start : ndarray of shape (n, C), optional
        `log_b` of an earlier result.
    tol : float, default=1e-9
        The search stops after a Newton step in log b shorter than `tol`. The error of log b is then about tol².

    Returns
    -------
    BoundOptimum
    """
    mean, cov = np.asarray(mean, float), np.asarray(cov, float)
    n, C = mean.shape
    parts = list(blocks(n, C**3))
    if len(parts) > 1:
        starts = [None if start is None else start[k] for k in parts]
        return _joined([maximise_bound(mean[k], cov[k], s, tol=tol) for k, s in zip(parts, starts, strict=True)])
    search = _Search(mean, cov, tol)
    return search.optimum(*search.run(np.maximum(_start(mean, cov) if start is None else start, NEGLIGIBLE_LOG_P)))


def isotropic_bound(variance: float, n_classes: int) -> float:
    """Return max h at mean 0 and cov = variance × identity, in closed form. [C] lemma 29"""
    spread = np.sqrt(variance / n_classes + 0.25)
    excess = 2 * variance / n_classes / (spread + 0.5)  # 2 spread - 1
    return float(-0.5 * (n_classes - 1) * (excess - np.log1p(0.5 * excess)) - np.log(n_classes))


def multinomial_root(log_p: np.ndarray) -> np.ndarray:
    """Return R (…, C, C-1) with R Rᵀ = diag(p) - p pᵀ. Its columns sum to zero; no entry is computed as a difference.

    This is the Cholesky factor of a multinomial covariance in closed form: with t_k the sum of the p after k,
    R_kk = √(p_k t_k / t_{k-1}) and R_jk = -p_j √(p_k / (t_k t_{k-1})) for j > k.
    """
    p = np.exp(np.maximum(log_p, -600.0))
    tail = np.cumsum(p[..., ::-1], axis=-1)[..., ::-1]  # p_k and all after it
    before, after = np.sqrt(tail[..., :-1]), np.sqrt(tail[..., 1:])
    root = np.sqrt(p[..., :-1])
    C = p.shape[-1]
    below = -p[..., :, None] * (root / (after * before))[..., None, :] * np.tri(C, C - 1, -1)
    rows = np.arange(C - 1)
    below[..., rows, rows] = root * after / before
    return below


def _own(y, mean):
    return np.take_along_axis(mean, np.asarray(y)[:, None], axis=1)[:, 0]


def _log_sum_exp(x):
    top = np.max(x, axis=1)
    return top + np.log(np.sum(np.exp(x - top[:, None]), axis=1))


def _start(mean, cov):
    """Return log softmax of the means, shrunk for their variance as in the logistic-probit approximation."""
    C = mean.shape[1]
    total = np.trace(cov, axis1=1, axis2=2) - np.sum(cov, axis=(1, 2)) / C  # variance of f minus its mean over classes
    pull = 1 / np.sqrt(1 + np.pi / 4 * np.maximum(total, 0.0) / (C - 1))
    eta = mean * pull[:, None]
    return eta - _log_sum_exp(eta)[:, None]


@dataclass
class _State:
    """The quantities that p determines, for some of the data."""

    log_p: np.ndarray  # (n, C)
    excess: np.ndarray  # (n, C-1) s - 1 for each eigenvalue
    half: np.ndarray  # (n, C, C-1) rows Y_c with (e_c - p)ᵀ S⁻¹ (e_d - p) = Σ_j Y_cj Y_dj / s_j
    log_g: np.ndarray  # (n,) log Σ_c g_c at b = p. [C] (16)
    wanted: np.ndarray  # (n, C) log ḡ, the value of log p at the optimum
    objective: np.ndarray  # (n,) the convex function that is minimised over p

    def some(self, rows):
        return _State(*(x[rows] for x in vars(self).values()))

    def merge(self, rows, other, chosen):
        for name, mine in vars(self).items():
            mine[rows] = getattr(other, name)[chosen]


class _Search:
    """Newton's method for log p, for all data at once; data that have converged are dropped."""

    def __init__(self, mean, cov, tol):
        self.mean, self.cov, self.tol = mean, cov, tol
        # a common shift of all classes has no effect: L = H root(HᵀVH), so that V and LLᵀ agree on contrasts
        H = contrast_basis(mean.shape[1])
        self.root = H @ _roots(H.T @ cov @ H)

    def run(self, log_p):
        n = len(log_p)
        at = self.state(np.arange(n), log_p - _log_sum_exp(log_p)[:, None])
        active, steps, idle = np.arange(n), 0, np.zeros(n, dtype=int)
        while len(active) and steps < NEWTON_STEPS:
            steps += 1
            self.lift(at, active)
            here = at.some(active)
            step, slope = self.newton_step(here)
            share = self.line_search(at, active, here, step, slope)
            # steps are weighted by the probability of the class: negligible classes are determined by the others
            moved = np.max(np.abs(step) * np.exp(0.5 * np.maximum(here.log_p, here.wanted)), axis=1)
            gained = here.objective - at.objective[active] > 1e-15 * (1 + np.abs(here.objective))
            idle[active] = np.where(gained, 0, idle[active] + 1)  # steps without gain beyond rounding error
            active = active[(moved > self.tol) & (share > 0) & (idle[active] < 2)]
        return at, steps

    def lift(self, at, active):
        """Raise log p to NEGLIGIBLE_LOG_P for classes that are below it and whose wanted log p is above it."""
        low = (at.log_p[active] < NEGLIGIBLE_LOG_P) & (at.wanted[active] > NEGLIGIBLE_LOG_P)
        rows = active[low.any(axis=1)]
        if len(rows):
            log_p = np.where(low, NEGLIGIBLE_LOG_P, at.log_p[active])[low.any(axis=1)]
            at.merge(rows, self.state(rows, log_p - _log_sum_exp(log_p)[:, None]), slice(None))

    def state(self, rows, log_p):
        p = np.exp(log_p)
        root, mean = self.root[rows], self.mean[rows]
        half = root - (p[:, None, :] @ root)  # (I - 1pᵀ) L
        lam, P = np.linalg.eigh(np.swapaxes(half * p[:, :, None], 1, 2) @ half)  # LᵀAL
        lam = np.maximum(lam, 0.0)
        excess, half = lam / (np.sqrt(lam + 0.25) + 0.5), half @ P
        distance = (half * half @ (1 / (1 + excess))[:, :, None])[:, :, 0]  # (e_c - p)ᵀ S⁻¹ (e_c - p)
        wanted = mean + 0.5 * distance
        log_g = _log_sum_exp(wanted)
        wanted -= log_g[:, None]
        objective = np.sum(p * (log_p - mean), axis=1) + np.sum(0.5 * np.log1p(excess) - excess, axis=1)
        return _State(log_p, excess, half, log_g, wanted, objective)

    def newton_step(self, at):
        """Return the step (n, C) in log p, and the slope (n,) of the objective along it."""
        p = np.exp(at.log_p)
        missing = at.wanted - at.log_p
        K = _stiffness(at.half, at.excess)
        KA = (K - (K @ p[:, :, None])) * p[:, None, :]
        step = np.linalg.solve(KA + np.eye(p.shape[1]), missing[:, :, None])[:, :, 0]
        step -= np.sum(p * step, axis=1)[:, None]
        return step, -np.sum(p * (missing - np.sum(p * missing, axis=1)[:, None]) * step, axis=1)

    def line_search(self, at, active, here, step, slope):
        """Take the steps, shortened until the objective decreases. Return the fraction (n,) of each step that was taken."""
        share, done = np.ones(len(active)), np.zeros(len(active), dtype=bool)
        slack = 1e-14 * (1 + np.abs(here.objective))
        while not done.all():
            todo = np.flatnonzero(~done)
            log_p = here.log_p[todo] + share[todo, None] * step[todo]
            log_p -= _log_sum_exp(log_p)[:, None]
            log_p = np.where(here.log_p[todo] > NEGLIGIBLE_LOG_P, np.maximum(log_p, NEGLIGIBLE_LOG_P), log_p)
            trial = self.state(active[todo], log_p)
            better = trial.objective <= here.objective[todo] + 1e-4 * share[todo] * slope[todo] + slack[todo]
            at.merge(active[todo[better]], trial, better)
            done[todo[better]] = True
            share[todo[~better]] *= 0.5
            failed = todo[share[todo] < SHORTEST_STEP]
            share[failed], done[failed] = 0.0, True
        return share

    def optimum(self, at, steps):
        negligible = at.log_p < NEGLIGIBLE_LOG_P + 5
        if negligible.any():
            log_p = np.where(negligible, at.wanted, at.log_p)  # b = ḡ, safe where p is negligible
            at = self.state(np.arange(len(log_p)), log_p - _log_sum_exp(log_p)[:, None])
        value = 0.5 * np.sum(np.log1p(at.excess) - at.excess, axis=1) - at.log_g  # [C] (19) at b = p, S(p)
        gap = np.maximum(np.sum(np.exp(at.log_p) * (at.log_p - at.wanted), axis=1), 0.0)  # KL(p ‖ ḡ)
        root = self.precision_root(at, multinomial_root(at.log_p))
        precision = root @ np.swapaxes(root, 1, 2)
        spread = at.half, at.excess
        return BoundOptimum(self.mean, self.cov, value, at.log_p, precision, root, gap, spread, steps)

    def precision_root(self, at, R):
        """Return the root (n, C, C-1) of W = R s(RᵀVR)⁻¹ Rᵀ."""
        root = np.empty_like(R)
        wide = at.excess[:, -1] > LARGE_EXCESS
        if wide.any():
            lam, Q = np.linalg.eigh(np.swapaxes(R[wide], 1, 2) @ self.cov[wide] @ R[wide])
            root[wide] = R[wide] @ (Q / np.sqrt(0.5 + np.sqrt(0.25 + np.maximum(lam, 0.0)))[:, None, :])
        if not wide.all():  # s⁻¹ = I - Xᵀ s⁻² X with X = PᵀLᵀR: cheaper, with a relative loss of at most s
            R, half, s = R[~wide], at.half[~wide], 1 + at.excess[~wide]
            X = np.swapaxes(half, 1, 2) @ R / s[:, :, None]
            root[~wide] = R @ np.linalg.cholesky(np.eye(R.shape[2]) - np.swapaxes(X, 1, 2) @ X)
        return root


def _stiffness(half, excess):
    """Return the second derivative (n, C, C) in p of the objective without its entropy, along the simplex."""
    s = 1 + excess
    K = (half / s[:, None, :]) @ np.swapaxes(half, 1, 2)
    # the change of S with p: divided differences of 1/s(λ)
    weight = 0.5 / (s[:, :, None] * s[:, None, :] * (s[:, :, None] + excess[:, None, :]))
    n, C, size = half.shape
    pairs = (half[:, :, None, :] * half[:, None, :, :]).reshape(n, C * C, size)
    return K + np.einsum("ipj,ipj->ip", pairs @ weight, pairs).reshape(n, C, C)


def _roots(V):
    """Return L with L Lᵀ = V, for psd V (n, q, q)."""
    try:
        return np.linalg.cholesky(V)
    except np.linalg.LinAlgError:  # some of them are singular
        value, vector = np.linalg.eigh(V)
        return vector * np.sqrt(np.maximum(value, 0.0))[:, None, :]


def _joined(parts):
    arrays = ("mean", "cov", "value", "log_b", "precision", "root", "gap")
    joined: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in arrays}
    half, excess = (np.concatenate([part.spread[k] for part in parts]) for k in (0, 1))
    return BoundOptimum(**joined, spread=(half, excess), n_steps=max(part.n_steps for part in parts))
