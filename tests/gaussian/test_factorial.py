"""The factorial posterior N(K α, Dg(v)) against formulas with explicit inverses."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.gaussian import FactorialPosterior
from gpclass.numerics import Factor

N, M = 7, 4


@pytest.fixture(params=[1e-10, 1.0, 1e6], ids="prior={:g}".format)
def case(request):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N + M, 2))
    joint = request.param * (np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(-1)) + 0.05 * np.eye(N + M))
    K, Ks, kd = joint[:N, :N].copy(), joint[:N, N:].copy(), np.diag(joint)[N:].copy()
    alpha, var = rng.normal(size=N) / np.sqrt(request.param), rng.uniform(0.05, 0.5, size=N) * request.param
    inverse = np.linalg.inv(K)
    conditional, response = 1 / np.diag(inverse), rng.uniform(0.5, 1.0, size=N) * request.param
    q = FactorialPosterior(
        K, Factor(K.copy()), alpha=alpha, mean=K @ alpha, var=var, conditional_var=conditional, response=response
    )
    return q, K, inverse, Ks, kd


def test_scalars(case):
    q, K, inverse, _, _ = case
    V = np.diag(q.var)
    assert_allclose(q.log_det, np.linalg.slogdet(K @ np.linalg.inv(V))[1], rtol=1e-10)
    assert_allclose(q.trace_ratio, np.trace(V @ inverse), rtol=1e-10)


def test_conditional_is_the_priors(case):
    """f_i given the means of the others: the conditional of N(0, K) at one point given the rest."""
    q, K, _, _, _ = case
    mean, var = q.conditional()
    for i in range(N):
        rest = np.arange(N) != i
        weights = np.linalg.solve(K[np.ix_(rest, rest)], K[rest, i])
        assert_allclose(mean[i], weights @ q.mean[rest], rtol=1e-9, atol=1e-10 * np.abs(q.mean).max())
        assert_allclose(var[i], K[i, i] - weights @ K[rest, i], rtol=1e-10)


def test_cavity_adds_the_others_variances(case):
    """The variance is that of a prediction from the other factors; the mean is tested with the engine."""
    q, K, _, _, _ = case
    _, var = q.cavity()
    for i in range(N):
        rest = np.arange(N) != i
        weights = np.linalg.solve(K[np.ix_(rest, rest)], K[rest, i])
        assert_allclose(var[i], K[i, i] - weights @ K[rest, i] + weights**2 @ q.var[rest], rtol=1e-9)


@pytest.mark.parametrize("inverted", [False, True])
def test_predict(case, inverted):
    q, K, inverse, Ks, kd = case
    if inverted:
        assert_allclose(q.prior_precision(), inverse, rtol=0, atol=1e-10 * np.abs(inverse).max())
    mean, var = q.predict(Ks, kd)
    truth = kd - np.diag(Ks.T @ (inverse - inverse @ np.diag(q.var) @ inverse) @ Ks)
    assert_allclose(mean, Ks.T @ inverse @ (K @ q.alpha), rtol=1e-9, atol=1e-11 * np.abs(mean).max())
    assert_allclose(var, truth, rtol=1e-10, atol=1e-12 * kd.max())


def test_prediction_at_the_data_returns_the_posterior(case):
    q, K, _, _, _ = case
    mean, var = q.predict(K.copy(), np.diag(K).copy())
    assert_allclose(mean, q.mean, rtol=1e-10, atol=1e-12 * np.abs(q.mean).max())
    assert_allclose(var, q.var, rtol=1e-9)
