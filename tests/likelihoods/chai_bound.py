"""Bounds of E[log softmax(f)_y] in Chai 2012, for any parameters, to compare with `maximise_bound`."""

import numpy as np
from scipy.special import logsumexp


def expected_bound(y, mean, cov, b, S):
    """h(y; q, b, S) (n,) ≤ E[log p(y | f)], for any b (n, C) and positive definite S (n, C, C). (19)"""
    C, SV = mean.shape[1], S @ cov
    apart = b[:, :, None] - np.eye(C)  # columns b - e_c
    log_g = mean + 0.5 * np.einsum("iac,iac->ic", apart, np.linalg.solve(S, apart))  # (16)
    trace = np.trace(SV, axis1=1, axis2=2)
    return 0.5 * (C + np.linalg.slogdet(SV)[1] - trace) + mean[np.arange(len(y)), y] - logsumexp(log_g, axis=1)


def jensen_bounds(y, mean, cov):
    """The two bounds from Jensen's inequality: h with S = V⁻¹ and b = y, or b = 0. (9), (10)"""
    own = np.arange(len(y)), y
    var = np.diagonal(cov, axis1=1, axis2=2)
    apart = var + var[own][:, None] - 2 * cov[own]  # variances of f_c - f_y
    return tuple(mean[own] - logsumexp(mean + 0.5 * spread, axis=1) for spread in (apart, var))
