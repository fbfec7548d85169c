"""`converged=True` means that the engine's own equations hold, recomputed here from K and the sites in extended precision.

Means come from K α, variances from a Cholesky factorisation of I + √τ K √τ written out below, both in long double: a run
that stops at a wrong point, or whose mean has drifted away from K α, is detected. Moves are in standard deviations.
"""

import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning

from gpclass.engines.full.independent_ep import inner_ep
from gpclass.inference import (
    EP,
    FV,
    KL,
    TAP,
    VB,
    IndependentEP,
    Laplace,
    MeanFieldProbit,
    NestedEP,
    QuadratureEP,
    TAPNaive,
    VariationalMNL,
)
from gpclass.kernels import RBF, Linear, Polynomial
from gpclass.likelihoods import Heaviside, Logit, MultinomialProbit, Probit, Softmax
from gpclass.likelihoods.multiclass import own_first, restore_order

from .truth import frozen

LONG = np.longdouble
ORDINARY = 100  # times the engine's tolerance: variances here are upper bounds, and τ and mean moved once more
MAX_ROUNDING = 1e-3  # the rounding error allowed by `iterate.MAX_ROUNDING` if the scale of K is huge
HUGE = 1e6  # prior variances from which the second applies


def problem(name):
    """K (n, n) and labels 0, 1, 2."""
    X, y = load_wine(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:18]
    X, y = X[rows], y[rows]
    scaled = (X - X.mean(0)) / X.std(0)
    flat = scaled[:, :2]
    made = {
        "ordinary": lambda: RBF(2.0, 4.0)(scaled),
        "raw units, linear": lambda: Linear()(X),
        "raw units, squares": lambda: Polynomial(2)(X),
        "raw units, cubes": lambda: Polynomial(3)(X),
        "squares": lambda: Polynomial(2)(scaled),
        "wide": lambda: RBF(1.0, 1e8)(flat),
        "narrow": lambda: RBF(1.0, 1e-8)(flat),
        "wide and short": lambda: RBF(0.05, 1e4)(flat),
        "wide and smooth": lambda: RBF(30.0, 1e4)(flat),
        "equal rows": lambda: RBF(1.0, 1e4)(np.repeat(flat[:6], 3, axis=0)),
        "constant": lambda: np.full((18, 18), 1e4),
    }
    return made[name](), y


NAMES = [
    "ordinary",
    "raw units, linear",
    "raw units, squares",
    "raw units, cubes",
    "squares",
    "wide",
    "narrow",
    "wide and short",
    "wide and smooth",
    "equal rows",
    "constant",
]


# posteriors in extended precision ---------------------------------------------------------------------------------------


def lower_inverse(B):
    """L⁻¹ of the Cholesky factor of B."""
    n, L = len(B), np.zeros_like(B)
    for j in range(n):
        L[j:, j] = B[j:, j] - L[j:, :j] @ L[j, :j]
        assert L[j, j] > 0
        L[j:, j] /= np.sqrt(L[j, j])
    inverse = np.zeros_like(L)
    for j in range(n):
        inverse[j, j] = 1 / L[j, j]
        for i in range(j + 1, n):
            inverse[i, j] = -(L[i, j:i] @ inverse[j:i, j]) / L[i, i]
    return inverse


def marginals(K, tau, alpha):
    """Means, variances and 1 - τ var; τ ≥ 0."""
    K, tau, alpha = (np.asarray(x, LONG) for x in (K, tau, alpha))
    root = np.sqrt(tau)
    white = lower_inverse(np.eye(len(K), dtype=LONG) + root[:, None] * K * root)
    kept = np.einsum("ij,ij->j", white, white)
    half = white @ (root[:, None] * K)
    direct = np.diagonal(K) - np.einsum("ij,ij->j", half, half)
    strong = tau * np.diagonal(K) > 1
    var = np.where(strong, (1 - kept) / np.where(strong, tau, 1), direct)
    return K @ alpha, var, kept


def double(*parts):
    return tuple(np.asarray(x, float) for x in parts)


def cavities(K, tau, alpha):
    mean, var, kept = marginals(K, tau, alpha)
    return double(mean - var / kept * np.asarray(alpha, LONG), var / kept)


def matched(cavity, d1, d2):
    """Site precisions by moment matching."""
    return -d2 / (1 + cavity[1] * d2)


def moves(K, alpha, tau, wanted_alpha, wanted_tau):
    """Largest remaining moves of a mean and of a variance by the equations."""
    var = np.minimum(np.diagonal(K), 1 / np.maximum(tau, 1e-300))  # at least the posterior's
    return max(np.max(np.abs(wanted_alpha - alpha) * np.sqrt(var)), np.max(np.abs(wanted_tau - tau) * var))


# what each engine's equations ask for -----------------------------------------------------------------------------------


def of_mode(fit, K, y):
    mean, _, _ = double(*marginals(K, fit.sites.tau, fit.alpha))
    _, slope, curvature = fit.likelihood.log_prob(y, mean)
    return moves(K, fit.alpha, fit.sites.tau, slope, -curvature)


def of_expectations(fit, K, y):
    mean, var, _ = double(*marginals(K, fit.sites.tau, fit.alpha))
    _, slope, curvature = fit.likelihood.expected_log_prob(y, mean, var)
    return moves(K, fit.alpha, fit.sites.tau, slope, -curvature)


def of_bounds(fit, K, y):
    mean, var, _ = double(*marginals(K, fit.sites.tau, fit.alpha))
    _, nu, tau = fit.likelihood.bound(y, fit.likelihood.bound_point(y, mean, var))
    return moves(K, fit.alpha, fit.sites.tau, nu - tau * mean, tau)


def of_moments(fit, K, y):
    if np.any(fit.sites.tau < 0):
        pytest.skip("negative sites have no square root")
    cavity = cavities(K, fit.sites.tau, fit.alpha)
    _, d1, d2 = fit.likelihood.tilted_moments(y, *cavity)
    return moves(K, fit.alpha, fit.sites.tau, d1, matched(cavity, d1, d2))


def of_naive_moments(fit, K, y):
    mean = np.asarray(K, LONG) @ np.asarray(fit.alpha, LONG) - np.diagonal(K) * np.asarray(fit.alpha, LONG)
    cavity = (*double(mean), np.diagonal(K))
    _, d1, d2 = fit.likelihood.tilted_moments(y, *cavity)
    return moves(K, fit.alpha, fit.sites.tau, d1, matched(cavity, d1, d2))


def of_factors(fit, K, y):
    ridged = np.asarray(K, LONG) + LONG(fit.engine.ridge * np.mean(np.diagonal(K))) * np.eye(len(K), dtype=LONG)
    white = lower_inverse(ridged)
    var = 1 / np.einsum("ij,ij->j", white, white)
    alpha = np.asarray(fit.alpha, LONG)
    _, d1, d2 = fit.likelihood.tilted_moments(y, *double(ridged @ alpha - var * alpha, var))
    spread = np.sqrt(np.maximum(var + var**2 * d2, 0))  # of each factor
    return float(np.max(np.abs(d1 - fit.alpha) * spread))


def of_coupled_mode(fit, K, y):
    mean = double(np.asarray(K, LONG) @ np.asarray(fit.alpha, LONG))[0]
    missing = fit.likelihood.log_prob_slope(y, mean)[1] - fit.alpha
    W = -fit.likelihood.log_prob(y, mean)[2]
    # covariance of each datum without the others: at least the posterior's
    alone = np.linalg.inv(W + np.eye(W.shape[1]) / np.diagonal(K)[:, None, None])
    return float(np.sqrt(np.max(np.einsum("ic,icd,id->i", missing, alone, missing))))


def of_independent_moments(fit, K, y):
    C, n = fit.likelihood.n_classes, len(y)
    tau, alpha = fit.posterior.sites.tau.reshape(C, n), fit.alpha.T
    mean, var = np.transpose([cavities(K, t, a) for t, a in zip(tau, alpha, strict=True)], (1, 2, 0))
    if isinstance(fit.engine, IndependentEP):
        _, slope, wanted, _ = inner_ep(own_first(y, mean), own_first(y, var), Probit())
        slope, wanted = restore_order(y, slope), restore_order(y, wanted)
    else:
        _, slope, curvature = fit.likelihood.tilted_moments(y, mean, var)
        wanted = matched((mean, var), slope, curvature)
    return max(moves(K, a, t, s, w) for a, t, s, w in zip(alpha, tau, slope.T, wanted.T, strict=True))


def of_contrasts(fit, K, y):
    """Binary EP on g = f_y - f_j + u, whose prior covariance is written out."""
    C, n, sites = fit.likelihood.n_classes, len(y), fit.posterior.sites
    pick = np.zeros((n, C - 1, n, C))
    # of the latent functions, as predictions use it: a rival's α is minus that of its contrast
    alpha = -np.array([[fit.alpha[i, j] for j in range(C) if j != y[i]] for i in range(n)]).ravel()
    for i in range(n):
        for k, j in enumerate(c for c in range(C) if c != y[i]):
            pick[i, k, i, y[i]], pick[i, k, i, j] = 1, -1
    pick = pick.reshape(n * (C - 1), n, C)
    prior = np.einsum("aic,ij,bjc->ab", pick, K, pick) + np.kron(np.eye(n), np.ones((C - 1, C - 1)))
    cavity = cavities(prior, sites.tau, alpha)
    _, d1, d2 = Probit().tilted_moments(1.0, *cavity)
    return moves(prior, alpha, sites.tau, d1, matched(cavity, d1, d2))


def of_variational_bound(fit, K, y):
    mean = double(np.asarray(K, LONG) @ np.asarray(fit.alpha, LONG))[0]
    cov = fit.posterior.contrast_cov
    bound = fit.likelihood.expected_log_prob_bound(mean, cov)
    missing = np.eye(fit.likelihood.n_classes)[y] - bound.b - fit.alpha
    turned = (bound.precision - fit.posterior.precision) @ cov
    assert fit.log_evidence < 0  # a lower bound of a log probability
    shift = np.sqrt(np.maximum(np.einsum("ic,icd,id->i", missing, cov, missing), 0))
    return float(max(np.max(shift), np.max(np.abs(np.einsum("icc->i", turned)))))


CASES = [
    *((Laplace(), likelihood, of_mode) for likelihood in (Probit(), Logit())),
    *((KL(), likelihood, of_expectations) for likelihood in (Probit(), Logit())),
    *((VB(), likelihood, of_bounds) for likelihood in (Probit(), Logit())),
    *((EP(), likelihood, of_moments) for likelihood in (Probit(), Logit(), Heaviside(0.1))),
    (EP(schedule="sequential"), Probit(), of_moments),
    *((TAP(), likelihood, of_moments) for likelihood in (Probit(), Logit(), Heaviside(0.1))),
    *((TAPNaive(), likelihood, of_naive_moments) for likelihood in (Probit(), Logit())),
    *((FV(), likelihood, of_factors) for likelihood in (Probit(), Logit())),
    (Laplace(), Softmax(3), of_coupled_mode),
    (MeanFieldProbit(), MultinomialProbit(3), of_coupled_mode),
    (NestedEP(), MultinomialProbit(3), of_contrasts),
    (IndependentEP(), MultinomialProbit(3), of_independent_moments),
    (QuadratureEP(coupled=False), MultinomialProbit(3), of_independent_moments),
    (VariationalMNL(), Softmax(3), of_variational_bound),
]


def name_of(case):
    engine, likelihood, _ = case
    kind = "sequential-" if getattr(engine, "schedule", "") == "sequential" else ""
    return f"{kind}{type(engine).__name__}-{type(likelihood).__name__}"


@cache
def outcome(case, name):
    """A fit, or the message if the engine raised an error; and whether it warned."""
    engine, likelihood, _ = case
    K, labels = problem(name)
    y = labels if likelihood.n_latents > 1 else np.where(labels == 1, 1.0, -1.0)
    frozen(K, y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fit = engine.fit(K, y, likelihood)
        except (np.linalg.LinAlgError, FloatingPointError) as error:
            return str(error), K, y, False
    return fit, K, y, any(issubclass(w.category, ConvergenceWarning) for w in caught)


@pytest.mark.slow_cases("QuadratureEP-MultinomialProbit-raw units, cubes")  # 16 s
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_converged_means_that_the_equations_hold(case, name):
    fit, K, y, warned = outcome(case, name)
    if isinstance(fit, str):
        assert name != "ordinary"
        assert "variance" in fit or "epsilon" in fit  # suggests a remedy
        return
    assert fit.converged != warned  # exactly one of them
    assert np.isfinite(fit.log_evidence)
    if not fit.converged:
        assert name not in ("ordinary", "narrow", "wide and short")
        return
    # products with K are rounded by eps × its largest entry, whatever the engine does
    rounding = max(MAX_ROUNDING, 4 * np.finfo(float).eps * K.max())
    assert case[2](fit, K, y) < (ORDINARY * fit.engine.tol if K.max() < HUGE else rounding)
