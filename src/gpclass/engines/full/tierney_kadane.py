"""Laplace with Tierney and Kadane's correction: class probabilities as ratios of evidences.

p(y* = c | data) = Z(data and (x*, c)) / Z(data), both by Laplace's method, each at its own mode; normalised over c.

Each extended evidence is computed by the engine itself, started close to its mode. The steps towards that mode treat many
test points and labels at once and reuse the system of the training points: their curvature is fixed at the training mode,
the new point has its own. Eliminating the new point leaves matrix products and C × C solves. So each label of a test point
costs one set of factorisations, and more only if the label changes its neighbours so much that the fixed curvature is not
accurate.

[RJV] Riihimäki, Jylänki & Vehtari 2013, section 4.1.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...gaussian import newton_sites
from ...numerics import blocks
from ..fit import Fit
from ..observations import Data, data_of, with_label

MAX_STEPS = 30  # steps with the training system, each a few matrix products
MAX_HALVINGS = 10  # in a line search


def corrected_log_probabilities(fit: Fit, Ks: np.ndarray, kd: np.ndarray) -> np.ndarray:
    """Return the (m, C) log class probabilities at new points, as ratios of evidences."""
    fit.moments(Ks, kd)  # for its checks of the arguments
    Ks, kd, C = np.asarray(Ks, float), np.asarray(kd, float), fit.likelihood.n_latents
    Ks, kd = np.broadcast_to(Ks, (C, *Ks.shape[-2:])), np.broadcast_to(kd, (C, kd.shape[-1]))
    return evidence_ratios(fit, _OneLatent(fit) if C == 1 else _Several(fit), Ks, kd)


def evidence_ratios(fit: Fit, view: _OneLatent | _Several, Ks: np.ndarray, kd: np.ndarray) -> np.ndarray:
    """Return log Z(data and new point) (m, labels) for each label, normalised; Ks (C, n, m), kd (C, m). [RJV] (23)"""
    labels = view.labels
    out = np.empty((Ks.shape[2], len(labels)))
    for some in blocks(len(out), fit.targets.n * len(kd) * len(labels)):
        path = _ExtendedModes(view, Ks[:, :, some].transpose(2, 1, 0), kd[:, some].T, labels)
        path.climb(fit.engine.tol)
        out[some] = np.array([view.evidence(*point) for point in path.extended()]).reshape(-1, len(labels))
    return out - np.logaddexp.reduce(out, axis=1, keepdims=True)


class _ExtendedModes:
    """Iteration of (f, f*) = K (α, α*) towards the extended mode; a row for each (new point, label).

    A state, or a step, is [α, f, α*, f*]: (rows, n, C) twice and (rows, C) twice. k (rows, n, C) are cross covariances,
    kd (rows, C) variances. Newton steps with fixed curvature are made conjugate, so they also work if that curvature is
    inaccurate.
    """

    def __init__(self, view, k, kd, labels):
        self.view = view
        self.labels = np.tile(labels, len(k))
        C, times = k.shape[2], len(labels)
        Mk = np.stack([view.times_M(k * np.eye(C)[c]) for c in range(C)], axis=3)  # (m, n, C, C) column by column
        S = kd[:, :, None] * np.eye(C) - np.einsum("rnc,rncd->rcd", k, Mk)  # covariance of f* given the training sites
        self.k, self.kd, self.Mk, self.S = (np.repeat(x, times, axis=0) for x in (k, kd, Mk, S))
        alpha, f = (np.broadcast_to(x, self.k.shape).copy() for x in (view.alpha, view.f))
        self.state = [alpha, f, np.zeros(self.kd.shape), np.einsum("rnc,rnc->rc", self.k, alpha)]

    def climb(self, tol: float) -> None:
        rows = np.arange(len(self.k))
        past: Any = None  # (first-order gains of the last steps, the gradients there, the steps)
        for _ in range(MAX_STEPS):
            state = [x[rows] for x in self.state]
            missing, W_new = self._missing(rows, state)
            step = self._newton(rows, missing, W_new)
            size = _gain(missing, step)
            on = size > (0.1 * tol) ** 2
            if not np.any(on):
                return
            rows, size = rows[on], size[on]
            state, missing, step = ([x[on] for x in parts] for parts in (state, missing, step))
            if past is not None:
                past = past[0][on], [x[on] for x in past[1]], [x[on] for x in past[2]]
                step = _conjugate(missing, step, size, *past)
            self._advance(rows, state, step, _gain(missing, step))
            past = size, missing, step

    def _value(self, rows, alpha, f, alpha_new, f_new):
        log_p = self.view.data_value(f) + self.view.value(self.labels[rows], f_new)
        return log_p - 0.5 * _inner(alpha, f) - 0.5 * np.sum(alpha_new * f_new, axis=1)

    def _missing(self, rows, state):
        """Return the gradient in f and in f*, and the curvature at f*."""
        slope_new, W_new = self.view.slope_and_curvature(self.labels[rows], state[3])
        return [self.view.data_slope(state[1]) - state[0], slope_new - state[2]], W_new

    def _newton(self, rows, missing, W_new):
        """Return the step with dα + W df = missing, with W of the training points from the fit."""
        k, Mk = self.k[rows], self.Mk[rows]
        K_missing = self.view.times_K(missing[0])
        # f* with the training points eliminated: (I + W* S) dα* = missing* - W* kᵀ(I - MK) missing
        pulled = np.einsum("rnc,rnc->rc", k, missing[0]) - np.einsum("rncd,rnc->rd", Mk, K_missing)
        left = np.eye(k.shape[2]) + W_new @ self.S[rows]
        right = missing[1] - np.einsum("rcd,rd->rc", W_new, pulled)
        d_new = np.linalg.solve(left, right[:, :, None])[:, :, 0]
        d_alpha = missing[0] - self.view.times_M(K_missing) - np.einsum("rncd,rd->rnc", Mk, d_new)
        d_f = self.view.times_K(d_alpha) + k * d_new[:, None, :]
        return [d_alpha, d_f, d_new, np.einsum("rnc,rnc->rc", k, d_alpha) + self.kd[rows] * d_new]

    def _advance(self, rows, state, step, along):
        """Take a step for each row: its length by the secant method, halved until the objective increases."""
        value = self._value(rows, *state)
        left = _gain(self._missing(rows, _moved(state, step, np.ones(len(rows))))[0], step)
        share = np.clip(along / np.maximum(along - left, 0.25 * along), 0.05, 4.0)
        for _ in range(MAX_HALVINGS):
            paid = self._value(rows, *_moved(state, step, share)) - value
            poor = paid < 0.1 * share * along - 1e-12 * np.abs(value)
            if not np.any(poor):
                break
            share = np.where(poor, 0.5 * share, share)
        else:
            share = np.where(poor, 0.0, share)  # no length increases the objective: stay, the engine does the rest
        for x, moved in zip(self.state, _moved(state, step, share), strict=True):
            x[rows] = moved

    def extended(self) -> Iterator[tuple[np.ndarray, ...]]:
        """Yield for each row its label, cross covariances, variances, and (α, f) of training points and new point."""
        alpha, f, alpha_new, f_new = self.state
        both = [np.concatenate([x, new[:, None]], axis=1) for x, new in ((alpha, alpha_new), (f, f_new))]
        yield from zip(self.labels, self.k, self.kd, *both, strict=True)


def _conjugate(missing, step, size, last_size, last_missing, last_step):
    """Return the conjugate step (Polak and Ribière) if it leads uphill."""
    turn = np.maximum(size - _gain(last_missing, step), 0.0) / last_size
    turned = _moved(step, last_step, turn)
    uphill = _gain(missing, turned) > 0.1 * size
    return [np.where(_columns(uphill, x), t, x) for x, t in zip(step, turned, strict=True)]


class _View:
    """The log likelihood of the training data at latent values of several rows, (rows, n, C)."""

    data: Data
    value: Callable
    slope: Callable

    def data_value(self, f):
        """Return Σ log p(y | f) (rows,) over all data."""
        return np.sum(self.data.weight * self.value(self.data.y, self._at_data(f)), axis=1)

    def data_slope(self, f):
        """Return the (rows, n, C) slopes in the latent values."""
        slope = np.moveaxis(self.slope(self.data.y, self._at_data(f)), 1, 0)
        return np.moveaxis(self.data.at_places(slope), 0, 1)

    def _at_data(self, f):
        return np.moveaxis(self.data.places.spread(np.moveaxis(f, 1, 0)), 0, 1)


class _Several(_View):
    """A coupled fit in the form that the iteration needs: rows first, classes last."""

    def __init__(self, fit: Fit):
        self.fit, self.likelihood, self.system, self.data = fit, fit.likelihood, fit.posterior.system, fit.targets
        self.alpha, self.f = fit.alpha, fit.mean
        self.labels = np.arange(fit.likelihood.n_latents)

    def value(self, y, f):
        return self.likelihood.log_prob_value(y, f)

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


class _OneLatent(_View):
    """A fit with one latent function per datum in the same form."""

    def __init__(self, fit: Fit):
        self.fit, self.likelihood, self.data, self.labels = fit, fit.likelihood, fit.targets, fit.likelihood.class_targets
        self.alpha, self.f = fit.alpha[:, None], fit.mean[:, None]

    def value(self, y, f):
        return self.likelihood.log_prob_value(y, f[..., 0])

    def slope(self, y, f):
        return self.likelihood.log_prob_slope(y, f[..., 0])[1][..., None]

    def slope_and_curvature(self, y, f):
        _, slope, curvature = self.likelihood.log_prob(y, f[..., 0])
        return slope[..., None], -curvature[..., None, None]

    def times_K(self, X):
        return (X[..., 0] @ self.fit.posterior.K)[..., None]

    def times_M(self, X):
        return np.stack([self.fit.posterior.apply_residual_precision(x) for x in X[..., 0]])[..., None]

    def evidence(self, label, k, kd, alpha, f) -> float:
        larger, extended = _bordered(self.fit.posterior.K, k[:, 0], kd[0]), with_label(self.fit.y, label)
        data = data_of(self.fit.engine, extended, self.likelihood)
        f = data.places.spread(f[:, 0])
        _, slope, curvature = self.likelihood.log_prob(data.y, f)
        start = newton_sites(f, data.weight * slope, data.weight * curvature)
        return _evidence(self.fit, larger, label, start)


def _evidence(fit: Fit, K: np.ndarray, label: Any, start: Any) -> float:
    """Return the engine's evidence with the new point among the data; the engine completes the iteration."""
    plain = replace(fit.engine, correction=None)
    return plain.fit(K, with_label(fit.y, label), fit.likelihood, start).log_evidence


def _bordered(K: np.ndarray, k: np.ndarray, kd: float) -> np.ndarray:
    return np.block([[K, k[:, None]], [k[None], np.full((1, 1), kd)]])


def _columns(share: np.ndarray, like: np.ndarray) -> np.ndarray:
    return share.reshape(-1, *[1] * (like.ndim - 1))


def _moved(state: list[np.ndarray], step: list[np.ndarray], share: np.ndarray) -> list[np.ndarray]:
    return [x + _columns(share, x) * d for x, d in zip(state, step, strict=True)]


def _inner(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("rnc,rnc->r", a, b)


def _gain(missing: list[np.ndarray], step: list[np.ndarray]) -> np.ndarray:
    """Return the first-order gain of a step: gradient times (df, df*)."""
    return _inner(missing[0], step[1]) + np.sum(missing[1] * step[3], axis=1)
