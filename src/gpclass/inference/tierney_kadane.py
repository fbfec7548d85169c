"""Laplace with Tierney and Kadane's correction: class probabilities as ratios of evidences.

p(y* = c | data) = Z(data and (x*, c)) / Z(data), both by Laplace's method, each at its own mode; normalised over c.

Each extended evidence is that of the engine itself, started at its mode. There the steps go for many test points and
labels at once, with the training system as it stands: the curvature of the training points is held at their mode, that
of the new point is its own, and eliminating the new point leaves matrix products and C × C solves. So a label of a test
point costs one set of factorisations, and more only where a label upsets its neighbours so that held curvature will not do.

[RJV] Riihimäki, Jylänki & Vehtari 2013, section 4.1.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..gaussian import Sites
from .fit import CoupledFit, Fit

STEPS = 40  # with the training system, each a few matrix products
STALLED = 0.7  # a step that leaves more than this part of the gap asks for new curvature, after some to find its feet
FEET = 5
SHORTEST = 2.0**-10  # of a line search
BLOCK = 1 << 20  # latent values at a time


@dataclass(frozen=True)
class CorrectedFit(Fit):
    """Laplace's Gaussian, one latent function per datum, with corrected class probabilities."""

    def log_class_probabilities(self, Ks: np.ndarray, kd: np.ndarray) -> np.ndarray:
        """(m, 2) log probabilities of the labels -1 and +1 at new points, as ratios of evidences."""
        self.predict(Ks[:, :0], kd[:0])  # for its checks
        return evidence_ratios(self, _OneLatent(self), np.asarray(Ks, float)[None], np.asarray(kd, float)[None])


@dataclass(frozen=True)
class CorrectedCoupledFit(CoupledFit):
    """Laplace's Gaussian, one latent function per class, with corrected class probabilities."""

    def log_class_probabilities(self, Ks: np.ndarray, kd: np.ndarray) -> np.ndarray:
        """(m, C) log class probabilities at new points, as ratios of evidences."""
        Ks, kd = np.asarray(Ks, float), np.asarray(kd, float)
        self.predict(Ks[..., :0], kd[..., :0])
        C = self.likelihood.n_latents
        Ks, kd = np.broadcast_to(Ks, (C, *Ks.shape[-2:])), np.broadcast_to(kd, (C, kd.shape[-1]))
        return evidence_ratios(self, _Several(self), Ks, kd)


def corrected(fit: Fit) -> Fit:
    """The same fit, with corrected class probabilities."""
    kind = CorrectedCoupledFit if isinstance(fit, CoupledFit) else CorrectedFit
    return kind(fit.engine, fit.posterior, fit.y, fit.likelihood, fit.status, fit.log_evidence)


def evidence_ratios(fit: Fit, view: _OneLatent | _Several, Ks: np.ndarray, kd: np.ndarray) -> np.ndarray:
    """(m, labels) log Z(data and new point) for each label, normalised; Ks (C, n, m), kd (C, m). [RJV] (23)"""
    labels = view.labels
    out = np.empty((Ks.shape[2], len(labels)))
    size = max(1, BLOCK // (len(fit.y) * len(kd) * len(labels)))
    for i in range(0, len(out), size):
        some = slice(i, min(i + size, len(out)))
        path = _Climb(view, fit.y, Ks[:, :, some].transpose(2, 1, 0), kd[:, some].T, labels)
        path.climb(fit.engine.tol)
        out[some] = np.array([view.evidence(*point) for point in path.extended()]).reshape(-1, len(labels))
    return out - np.logaddexp.reduce(out, axis=1, keepdims=True)


class _Climb:
    """(f, f*) = K (α, α*) on its way to the extended mode; a row for each (new point, label).

    α, f (rows, n, C); those of the new point (rows, C). k (rows, n, C) are cross covariances, kd (rows, C) variances.
    """

    def __init__(self, view, y, k, kd, labels):
        self.view, self.y = view, y
        self.labels = np.tile(labels, len(k))
        C, times = k.shape[2], len(labels)
        Mk = np.stack([view.times_M(k * np.eye(C)[c]) for c in range(C)], axis=3)  # (m, n, C, C) column by column
        S = kd[:, :, None] * np.eye(C) - np.einsum("rnc,rncd->rcd", k, Mk)  # covariance of f* given the training sites
        self.k, self.kd, self.Mk, self.S = (np.repeat(x, times, axis=0) for x in (k, kd, Mk, S))
        self.alpha = np.broadcast_to(view.alpha, self.k.shape).copy()
        self.f = np.broadcast_to(view.f, self.k.shape).copy()
        self.alpha_new = np.zeros(self.kd.shape)
        self.f_new = np.einsum("rnc,rnc->rc", self.k, self.alpha)

    def climb(self, tol: float) -> None:
        active, before = np.arange(len(self.k)), np.full(len(self.k), np.inf)
        for step in range(STEPS):
            value, missing, missing_new, W_new = self._derivatives(active)
            move = self._newton(active, missing, missing_new, W_new)
            gap = np.sqrt(np.maximum(_inner(missing, move[1]) + np.sum(missing_new * move[3], axis=1), 0.0))
            on = (gap > 0.1 * tol) & ((step < FEET) | (gap < STALLED * before[active]))
            if not np.any(on):
                return
            before[active] = gap
            self._step(active[on], [x[on] for x in move], value[on], gap[on])
            active = active[on]

    def _value(self, rows, alpha, f, alpha_new, f_new):
        log_p = self.view.value(self.y, f).sum(1) + self.view.value(self.labels[rows], f_new)
        return log_p - 0.5 * _inner(alpha, f) - 0.5 * np.sum(alpha_new * f_new, axis=1)

    def _derivatives(self, rows):
        state = self.alpha[rows], self.f[rows], self.alpha_new[rows], self.f_new[rows]
        slope = self.view.slope(self.y, state[1])
        slope_new, W_new = self.view.slope_and_curvature(self.labels[rows], state[3])
        return self._value(rows, *state), slope - state[0], slope_new - state[2], W_new

    def _newton(self, rows, missing, missing_new, W_new):
        """The step (dα, df, dα*, df*) with dα + W df = missing, W of the training points as it was in the fit."""
        k, Mk = self.k[rows], self.Mk[rows]
        K_missing = self.view.times_K(missing)
        # f* with the training points eliminated: (I + W* S) dα* = missing* - W* kᵀ(I - MK) missing
        pulled = np.einsum("rnc,rnc->rc", k, missing) - np.einsum("rncd,rnc->rd", Mk, K_missing)
        left = np.eye(k.shape[2]) + W_new @ self.S[rows]
        right = missing_new - np.einsum("rcd,rd->rc", W_new, pulled)
        d_new = np.linalg.solve(left, right[:, :, None])[:, :, 0]
        d_alpha = missing - self.view.times_M(K_missing) - np.einsum("rncd,rd->rnc", Mk, d_new)
        d_f = self.view.times_K(d_alpha) + k * d_new[:, None, :]
        return d_alpha, d_f, d_new, np.einsum("rnc,rnc->rc", k, d_alpha) + self.kd[rows] * d_new

    def _step(self, rows, move, value, gap):
        """Each row's step, halved until it pays."""
        state = [x[rows] for x in (self.alpha, self.f, self.alpha_new, self.f_new)]
        share, short = np.ones(len(rows)), np.ones(len(rows), bool)
        while np.any(short):
            trial = [x[short] + _columns(share[short], x) * d[short] for x, d in zip(state, move, strict=True)]
            wanted = value[short] + 0.1 * share[short] * gap[short] ** 2 - 1e-12 * np.abs(value[short])
            poor = self._value(rows[short], *trial) < wanted
            short[np.flatnonzero(short)] = poor & (share[short] > SHORTEST)
            share[short] *= 0.5
        for x, d in zip((self.alpha, self.f, self.alpha_new, self.f_new), move, strict=True):
            x[rows] += _columns(share, d) * d

    def extended(self) -> Iterator[tuple[np.ndarray, ...]]:
        """For each row: its label, cross covariances, variances, and (α, f) of training points and new point."""
        both = [
            np.concatenate([x, new[:, None]], axis=1) for x, new in ((self.alpha, self.alpha_new), (self.f, self.f_new))
        ]
        yield from zip(self.labels, self.k, self.kd, *both, strict=True)


class _Several:
    """A coupled fit as the climb wants to see it: rows first, classes last."""

    def __init__(self, fit: CoupledFit):
        self.fit, self.likelihood, self.system = fit, fit.likelihood, fit.posterior.system
        self.alpha, self.f = fit.alpha, fit.mean
        self.labels = np.arange(fit.likelihood.n_latents)

    def value(self, y, f):
        return self.likelihood.log_prob_slope(y, f)[0]

    def slope(self, y, f):
        return self.likelihood.log_prob_slope(y, f)[1]

    def slope_and_curvature(self, y, f):
        _, slope, hessian = self.likelihood.log_prob(y, f)
        return slope, -hessian

    def times_K(self, X):
        return np.stack([X[..., c] @ k for c, k in enumerate(self.system.K)], axis=-1)

    def times_M(self, X):
        b = self._times_B(X)
        coupling = self.system.P.solve(np.asfortranarray(b.sum(-1).T)).T
        return b - self._times_B(np.broadcast_to(coupling[..., None], X.shape))

    def _times_B(self, X):
        root = self.system.root
        return np.stack([root[:, c] * ((root[:, c] * X[..., c]) @ a) for c, a in enumerate(self.system.inverse)], axis=-1)

    def evidence(self, label, k, kd, alpha, f) -> float:
        K = self.fit.posterior.K
        if K.ndim == 2 and np.all(k == k[:, :1]) and np.all(kd == kd[0]):  # one kernel for all classes
            larger = _bordered(K, k[:, 0], kd[0])
        else:
            larger = np.stack([_bordered(own, k[:, c], kd[c]) for c, own in enumerate(self.system.K)])
        return _evidence(self.fit, larger, label, SimpleNamespace(alpha=alpha))


class _OneLatent:
    """The same for one latent function per datum."""

    labels = np.array([-1.0, 1.0])

    def __init__(self, fit: Fit):
        self.fit, self.likelihood = fit, fit.likelihood
        self.alpha, self.f = fit.alpha[:, None], fit.mean[:, None]

    def value(self, y, f):
        return self.likelihood.log_prob(y, f[..., 0])[0]

    def slope(self, y, f):
        return self.likelihood.log_prob(y, f[..., 0])[1][..., None]

    def slope_and_curvature(self, y, f):
        _, slope, curvature = self.likelihood.log_prob(y, f[..., 0])
        return slope[..., None], -curvature[..., None, None]

    def times_K(self, X):
        return (X[..., 0] @ self.fit.posterior.K)[..., None]

    def times_M(self, X):
        return np.stack([self.fit.posterior.apply_residual_precision(x) for x in X[..., 0]])[..., None]

    def evidence(self, label, k, kd, alpha, f) -> float:
        y, f = np.append(self.fit.y, label), f[:, 0]
        _, slope, curvature = self.likelihood.log_prob(y, f)
        larger = _bordered(self.fit.posterior.K, k[:, 0], kd[0])
        return _evidence(self.fit, larger, label, Sites(-curvature, slope - curvature * f))


def _evidence(fit: Fit, K: np.ndarray, label: Any, start: Any) -> float:
    """The engine's own evidence with the new point among the data: what the climb left undone is done here."""
    plain = replace(fit.engine, correction=None)
    return plain.fit(K, np.append(fit.y, label), fit.likelihood, start).log_evidence


def _bordered(K: np.ndarray, k: np.ndarray, kd: float) -> np.ndarray:
    return np.block([[K, k[:, None]], [k[None], np.full((1, 1), kd)]])


def _columns(share: np.ndarray, like: np.ndarray) -> np.ndarray:
    return share.reshape(-1, *[1] * (like.ndim - 1))


def _inner(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("rnc,rnc->r", a, b)
