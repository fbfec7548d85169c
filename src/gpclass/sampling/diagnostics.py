"""Convergence diagnostics: R-hat, effective sample size, and the Pareto shape of importance weights.

[VGSCB] Vehtari, Gelman, Simpson, Carpenter & Bürkner 2021, Rank-normalization, folding, and localization: an improved R-hat.
[VSGYG] Vehtari, Simpson, Gelman, Yao & Gabry 2024, Pareto smoothed importance sampling.
[ZS]    Zhang & Stephens 2009, A new and efficient estimation method for the generalized Pareto distribution.

Draws have shape (chains, draws, …); results have the shape of the remaining axes.
"""

from __future__ import annotations

import numpy as np
import scipy
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri

HIGH_K = 0.7  # Pareto shape above which sums of importance weights are not reliable. [VSGYG]
MIN_DRAWS = 8  # per chain; with fewer, diagnostics are NaN


def r_hat(draws: np.ndarray) -> np.ndarray:
    """Return the rank-normalised split R-hat, the maximum of bulk and tail. It is near 1 if the chains agree.

    Parameters
    ----------
    draws : ndarray of shape (chains, draws, ...)
        The draws.

    Returns
    -------
    ndarray of shape (...)
        NaN for fewer than 8 draws per chain.
    """
    halves = _split(draws)
    if halves is None:
        return np.full(np.shape(draws)[2:], np.nan)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.maximum(_basic_r_hat(_rank_normal(halves)), _basic_r_hat(_rank_normal(folded)))


def effective_size(draws: np.ndarray) -> np.ndarray:
    """Return the effective sample size: the number of independent draws with the same standard error of the mean.

    Parameters
    ----------
    draws : ndarray of shape (chains, draws, ...)
        The draws.

    Returns
    -------
    ndarray of shape (...)
        NaN for fewer than 8 draws per chain.
    """
    halves = _split(draws)
    if halves is None:
        return np.full(np.shape(draws)[2:], np.nan)
    chains, n = halves.shape[:2]
    total = chains * n
    autocovariance = _autocovariance(halves).mean(0)
    means = halves.mean(1)
    within = autocovariance[0] * n / (n - 1)
    pooled = within * (n - 1) / n + means.var(0, ddof=1)
    still = pooled <= 0
    rho = 1 - (within - autocovariance * n / (n - 1)) / np.where(still, 1.0, pooled)
    rho[0] = 1.0
    # Geyer: sums of neighbouring pairs are positive and decreasing; truncate where they are not
    pairs = rho[: 2 * (n // 2)].reshape(n // 2, 2, *rho.shape[1:]).sum(1)
    positive = np.minimum.accumulate((pairs > 0).astype(float), axis=0)
    falling = np.minimum.accumulate(np.where(positive > 0, pairs, 0.0), axis=0)
    time = np.maximum(2 * falling.sum(0) - 1, 1 / np.log10(max(total, 10)))
    return np.where(still, np.nan, total / time)


def pareto_k(log_weights: np.ndarray) -> float:
    """Return the shape k̂ of a generalised Pareto distribution fitted to the largest weights.

    Sums of the weights are not reliable if k̂ is above 0.7.

    Parameters
    ----------
    log_weights : ndarray of shape (S,)
        Logarithms of importance weights.

    Returns
    -------
    float
        NaN for fewer than 25 finite weights.
    """
    log_weights = np.asarray(log_weights, float)
    finite = log_weights[np.isfinite(log_weights)]
    if len(finite) < 25:
        return np.nan
    return _fit_tail(finite)[0]


def smooth_weights(log_weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Return normalised log weights, the largest replaced by quantiles of the fitted Pareto, and k̂. [VSGYG]"""
    log_weights = np.asarray(log_weights, float) - np.max(log_weights)
    k = np.nan
    if len(log_weights) >= 25:
        k, scale, cutoff, tail = _fit_tail(log_weights)
        if np.isfinite(k):
            order = tail[np.argsort(log_weights[tail])]
            p = (np.arange(len(order)) + 0.5) / len(order)
            log_weights = log_weights.copy()
            with np.errstate(over="ignore", divide="ignore"):  # tails so heavy that one weight dominates
                excess = scale * (np.expm1(-k * np.log1p(-p)) / k if abs(k) > 1e-12 else -np.log1p(-p))
                log_weights[order] = np.minimum(np.log(np.exp(cutoff) + excess), 0.0)
    return log_weights - np.logaddexp.reduce(log_weights), k


def _split(draws):
    draws = np.asarray(draws, float)
    half = draws.shape[1] // 2
    if draws.shape[1] < MIN_DRAWS:
        return None
    return np.concatenate([draws[:, :half], draws[:, -half:]], axis=0)


def _rank_normal(halves):
    """Return the normal scores of the ranks over all chains. [VGSCB] (14)"""
    flat = halves.reshape(halves.shape[0] * halves.shape[1], -1)
    ranks = scipy.stats.rankdata(flat, axis=0)
    return ndtri((ranks - 0.375) / (len(flat) + 0.25)).reshape(halves.shape)


def _basic_r_hat(halves):
    n = halves.shape[1]
    within = halves.var(axis=1, ddof=1).mean(0)
    between = halves.mean(1).var(0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt((n - 1) / n + between / within)
    return np.where((within == 0) & (between == 0), np.nan, ratio)  # undefined for constant draws


def _autocovariance(halves):
    """Return the autocovariances (chains, lag, …), by the fast Fourier transform."""
    n = halves.shape[1]
    size = next_fast_len(2 * n, real=True)
    spectrum = rfft(halves - halves.mean(1, keepdims=True), n=size, axis=1)
    return irfft(spectrum * np.conj(spectrum), n=size, axis=1)[:, :n] / n


def _fit_tail(log_weights):
    """Return k̂, scale, log cutoff and indices of the tail, for weights relative to the largest."""
    size = len(log_weights)
    log_weights = log_weights - log_weights.max()
    length = int(min(0.2 * size, 3 * np.sqrt(size)))  # [VSGYG] section 2
    order = np.argpartition(log_weights, size - length - 1)
    cutoff, tail = log_weights[order[size - length - 1]], order[size - length :]
    excess = np.sort(np.exp(log_weights[tail]) - np.exp(cutoff))
    if length < 5 or excess[-1] <= 1e-14:  # equal weights have no tail
        return -np.inf, 0.0, cutoff, tail
    k, scale = _generalised_pareto(np.maximum(excess, 1e-290))  # weights that underflow against the largest
    return (length * k + 5) / (length + 10), scale, cutoff, tail  # weak prior at ½. [VSGYG] appendix C


def _generalised_pareto(x):
    """Return shape and scale from sorted x > 0: the posterior mean over a grid of profile likelihoods. [ZS] (3)-(6)"""
    n = len(x)
    m = 30 + int(np.sqrt(n))
    quartile = x[int(n / 4 + 0.5) - 1]
    b = 1 / x[-1] + (1 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))) / (3 * quartile)
    shape = np.log1p(-b[:, None] * x).mean(1)
    profile = n * (np.log(-b / shape) - shape - 1)
    weight = np.exp(profile - np.logaddexp.reduce(profile))
    b_mean = np.sum(b * weight)
    k = np.log1p(-b_mean * x).mean()
    return k, -k / b_mean
