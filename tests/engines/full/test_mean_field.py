"""MeanFieldProbit: a bound below the exact evidence, Girolami and Rogers' fixed point, gradients, symmetries."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from gpclass.inference import Laplace, MeanFieldProbit
from gpclass.kernels import RBF
from gpclass.likelihoods import MultinomialProbit, Probit, Softmax
from gpclass.sampling import HMC, orthant_evidence

from .truth import several_classes as problem


@pytest.mark.parametrize("variance", [0.01, 1.0, 25.0])
@pytest.mark.parametrize(("seed", "C"), [(0, 3), (1, 3), (2, 4)])
def test_evidence_is_a_lower_bound(variance, seed, C):
    _, K, y = problem(C=C, variance=variance, seed=seed)
    exact = orthant_evidence(K, y, MultinomialProbit(C))
    bound = MeanFieldProbit().fit(K, y, MultinomialProbit(C)).log_evidence
    assert bound < exact.log_evidence
    if variance < 0.1:  # v and f differ to first order in K: the bound loses ½ tr K and little else
        assert bound > exact.log_evidence - 0.5 * C * np.trace(K)


def test_evidence_is_the_expectation_of_log_p_over_q():
    """E_q[log p(f) + log N(v | f, I) - log q(f) - log q(v)] by draws from q itself, n = 2 and C = 3."""
    K, y, rng = np.array([[2.0, 1.2], [1.2, 3.0]]), np.array([0, 2]), np.random.default_rng(0)
    fit = MeanFieldProbit().fit(K, y, MultinomialProbit(3))
    R = 50_000
    S = np.linalg.inv(np.linalg.inv(K) + np.eye(2))
    f = fit.mean + np.einsum("ij,rjc->ric", np.linalg.cholesky(S), rng.normal(size=(R, 2, 3)))
    v = MultinomialProbit(3).draw_auxiliary(y, np.broadcast_to(fit.mean, (R, 2, 3)), rng)
    assert np.all(np.argmax(v, axis=2) == y)

    def log_normal(x, V):
        quadratic = np.einsum("ric,ij,rjc->r", x, np.linalg.inv(V), x)
        return -0.5 * quadratic - 1.5 * np.linalg.slogdet(2 * np.pi * V)[1]

    log_cone = MultinomialProbit(3).log_prob(y, fit.mean)[0].sum()  # the normaliser of q(v)
    prior = log_normal(f, K) + log_normal(v - f, np.eye(2))
    value = prior - log_normal(f - fit.mean, S) - log_normal(v - fit.mean, np.eye(2)) + log_cone
    error = value.std() / np.sqrt(R)
    assert error < 0.01
    assert abs(fit.log_evidence - value.mean()) < 4 * error


@pytest.mark.parametrize("variance", [1.0, 25.0])
def test_the_mean_is_girolami_and_rogers_fixed_point_and_a_mode(variance):
    _, K, y = problem(variance=variance)
    fit = MeanFieldProbit().fit(K, y, MultinomialProbit(3))
    S = K - K @ np.linalg.solve(K + np.eye(len(y)), K)
    v = fit.mean + MultinomialProbit(3).log_prob_slope(y, fit.mean)[1]
    assert_allclose(S @ v, fit.mean, atol=1e-7 * np.abs(fit.mean).max())
    assert_allclose(fit.posterior.table(fit.sites.nu), v, atol=1e-7)
    assert_allclose(fit.var, np.diag(S)[:, None] * np.ones(3), rtol=1e-9)
    # their iteration from zero converges to the same point, but more slowly
    m = np.zeros_like(fit.mean)
    for _ in range(3000):
        m = S @ (m + MultinomialProbit(3).log_prob_slope(y, m)[1])
    assert_allclose(m, fit.mean, atol=1e-5 * np.abs(fit.mean).max())


def test_the_mean_of_the_cone_is_the_slope():
    """E[v] - f = d log p/df, by draws."""
    rng, f = np.random.default_rng(0), np.array([0.3, -1.0, 0.8])
    n = 100_000
    draws = MultinomialProbit(3).draw_auxiliary(np.zeros(n, int), np.broadcast_to(f, (n, 3)), rng)
    slope = MultinomialProbit(3).log_prob_slope(np.array([0]), f[None])[1][0]
    assert_allclose(draws.mean(0) - f, slope, atol=4 / np.sqrt(n))  # four standard errors; the deviation is below one


def test_one_matrix_per_class():
    X, K, y = problem()
    one, three = (MeanFieldProbit().fit(k, y, MultinomialProbit(3)) for k in (K, np.stack([K] * 3)))
    new = np.random.default_rng(1).normal(size=(5, 2))
    Ks, kd = RBF(1.0, 4.0)(X, new), np.full(5, 4.0)
    for a, b in zip(one.predict(Ks, kd), three.predict(np.stack([Ks] * 3), np.stack([kd] * 3)), strict=True):
        assert_allclose(a, b, atol=1e-8)
    scales = np.array([1.0, 2.0, 0.5])[:, None, None]
    mixed = MeanFieldProbit().fit(scales * K, y, MultinomialProbit(3))
    exact = orthant_evidence(scales * K, y, MultinomialProbit(3))
    assert mixed.log_evidence < exact.log_evidence
    mean, cov = mixed.predict(scales * K, scales[:, 0] * np.diagonal(K))  # at the training points
    assert_allclose(mean, mixed.mean, atol=1e-8)
    assert_allclose(cov, mixed.cov, atol=1e-8)


def test_predictions_and_cavities():
    X, K, y = problem(n=30, variance=2.0)
    fit = MeanFieldProbit().fit(K, y, MultinomialProbit(3))
    new = np.random.default_rng(1).normal(size=(6, 2))
    k = RBF(1.0, 2.0)
    draws = HMC(n_draws=600, n_warmup=300, random_state=0).fit(K, y, MultinomialProbit(3))
    p, q = (np.exp(a.log_class_probabilities(k(X, new), k.diag(new))) for a in (fit, draws))
    assert_allclose(p, q, atol=0.15)  # the method's own error: its variances do not depend on the labels
    assert np.all(np.argmax(p, axis=1) == np.argmax(q, axis=1))
    # the cavity is regression on the other E[v] with noise one
    mean, cov = fit.posterior.latent.cavity()
    rest = np.arange(1, 30)
    solve = np.linalg.solve(K[np.ix_(rest, rest)] + np.eye(29), K[rest, 0])
    assert_allclose(mean[0], solve @ fit.posterior.table(fit.sites.nu)[rest], atol=1e-8)
    assert_allclose(cov[0], (K[0, 0] - solve @ K[rest, 0]) * np.eye(3), atol=1e-8)


@pytest.mark.parametrize("log_scale", [-4, 0, 2, 4])
@pytest.mark.parametrize("log_length", [-2, 0, 3])
def test_convergence_over_a_grid(log_scale, log_length):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = np.argmax(X + 0.5 * rng.normal(size=(40, 3)), axis=1)
    fit = MeanFieldProbit().fit(RBF(np.exp(log_length), np.exp(2 * log_scale))(X), y, MultinomialProbit(3))
    assert fit.converged
    assert fit.n_iter <= 12
    assert np.all(fit.var > 0)


def test_awkward_problems():
    X, K, y = problem(n=9)
    assert MeanFieldProbit().fit(K[:3, :3], np.arange(3), MultinomialProbit(12)).converged
    missing = MeanFieldProbit().fit(K, np.zeros(9, int), MultinomialProbit(3))
    assert np.all(missing.mean[:, 0] > missing.mean[:, 1])
    double = RBF(1.0, 4.0)(np.concatenate([X, X]))
    repeated = MeanFieldProbit().fit(double, np.concatenate([y, (y + 1) % 3]), MultinomialProbit(3))
    assert_allclose(repeated.mean[:9], repeated.mean[9:], atol=1e-6)


def test_bad_input_and_unfinished_runs():
    _, K, y = problem(variance=1000.0)
    with pytest.raises(TypeError, match="several classes"):
        MeanFieldProbit().fit(K, 2.0 * (y > 0) - 1, Probit())
    with pytest.raises(TypeError, match="MeanFieldProbit needs contrast_factor, which Softmax does not offer"):
        MeanFieldProbit().fit(K, y, Softmax(3))
    with pytest.raises(ValueError, match="start"):
        MeanFieldProbit().fit(K[:5, :5], y[:5], MultinomialProbit(3), start=Laplace().fit(K, y, Softmax(3)))
    with pytest.warns(ConvergenceWarning, match="MeanFieldProbit stopped after 1 sweep.*max_iter"):
        fit = MeanFieldProbit(max_iter=1).fit(K, y, MultinomialProbit(3))
    assert not fit.converged
