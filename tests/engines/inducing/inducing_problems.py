"""Labels of smooth functions, and matrices of inducing inputs, for the tests of engines on inducing points."""

import numpy as np
from scipy.special import log_ndtr
from scipy.stats import norm

from gpclass.kernels import RBF

C = 3
KERNEL = RBF(lengthscale=1.0, variance=4.0)


def of_rows(sites, rows):
    """Sites of some rows."""
    return {name: part[rows] for name, part in sites.items()}


def problem(n, C=C, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    centres = rng.normal(size=(20, 2))
    f = 2 * RBF(1.0, 1.0)(X, centres) @ rng.normal(size=(20, C)) + noise * rng.normal(size=(n, C))
    return X, f.argmax(1) if C > 1 else np.where(f[:, 0] > 0, 1.0, -1.0)


def matrices(kernel, X, Z):
    return kernel(Z), kernel(X, Z), kernel.diag(X)


def dense_pairwise_ep(K, y, noise, sweeps=400):
    """EP on f itself with explicit matrices: a factor Φ((f_y - f_c)/√(2 noise)) or step for each wrong class, q independent
    between classes, sites as natural parameters of scalars f_i, one factor after the other."""
    n, C = len(y), y.max() + 1
    tau, nu = np.zeros((2, n, C, C)), np.zeros((2, n, C, C))  # [i, c, k]: the part of factor (i, c) on class k
    tau, nu = tau[0], nu[0]
    for _ in range(sweeps):
        before = tau.copy()
        for i in range(n):
            for c in range(C):
                if c == y[i]:
                    continue
                cav = {}
                for k in (y[i], c):
                    T, N = tau[:, :, k].sum(1), nu[:, :, k].sum(1)
                    V = np.linalg.inv(np.linalg.inv(K) + np.diag(T))
                    precision, pull = 1 / V[i, i] - tau[i, c, k], (V @ N)[i] / V[i, i] - nu[i, c, k]
                    cav[k] = pull / precision, 1 / precision
                (my, vy), (mc, vc) = cav[y[i]], cav[c]
                B = vy + vc + 2 * noise
                beta = (my - mc) / np.sqrt(B)
                alpha = np.exp(norm.logpdf(beta) - log_ndtr(beta))
                for k, sign in ((y[i], 1), (c, -1)):
                    m, v = cav[k]
                    new_m, new_v = m + sign * v * alpha / np.sqrt(B), v - v**2 * alpha * (alpha + beta) / B
                    tau[i, c, k], nu[i, c, k] = 1 / new_v - 1 / v, new_m / new_v - m / v
        if np.max(np.abs(tau - before)) < 1e-11:
            break
    mean, var, value = np.empty((n, C)), np.empty((n, C)), 0.0
    post = []
    for k in range(C):
        T, N = tau[:, :, k].sum(1), nu[:, :, k].sum(1)
        V = np.linalg.inv(np.linalg.inv(K) + np.diag(T))
        post.append(V)
        mean[:, k], var[:, k] = V @ N, np.diag(V)
        value += 0.5 * np.linalg.slogdet(V)[1] - 0.5 * np.linalg.slogdet(K)[1] + 0.5 * N @ V @ N
    for i in range(n):
        for c in range(C):
            if c == y[i]:
                continue
            lead, B, ratio = 0.0, 2 * noise, 0.0
            for k, sign in ((y[i], 1), (c, -1)):  # log s̃ = log Z + g(cavity) - g(q), corrected B.51
                v = 1 / (1 / var[i, k] - tau[i, c, k])
                m = v * (mean[i, k] / var[i, k] - nu[i, c, k])
                lead, B = lead + sign * m, B + v
                ratio += 0.5 * np.log(v / var[i, k]) + 0.5 * m**2 / v - 0.5 * mean[i, k] ** 2 / var[i, k]
            value += log_ndtr(lead / np.sqrt(B)) + ratio
    return value, mean, var
