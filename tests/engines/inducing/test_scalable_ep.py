"""Scalable EP and GFITC at fixed hyperparameters: against EP with explicit matrices, identities, bad input."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.engines.inducing.step import take_step
from gpclass.kernels import RBF, Matern32
from gpclass.likelihoods import Heaviside, MultinomialProbit, RobustMax
from gpclass.sparse import GFITC, ScalableEP

from .inducing_problems import KERNEL, C, dense_pairwise_ep, matrices, problem


class Largest(MultinomialProbit):
    """The likelihood of the thesis: the largest latent value wins, no noise."""

    noise = 0.0


@pytest.mark.parametrize("kind", [MultinomialProbit, Largest])
def test_inducing_points_at_the_data_give_dense_ep(kind):
    X, y = problem(8, seed=3)
    K = KERNEL(X) + 1e-3 * np.eye(8)
    likelihood = kind(C)
    value, mean, var = dense_pairwise_ep(K, y, likelihood.noise)
    fit = ScalableEP(jitter=1e-12, tol=1e-10).fit(K, K, np.diag(K), y, likelihood)
    assert fit.converged
    # the only difference besides EP's tolerance is due to jitter (1e-12 of the prior variance of 4)
    assert_allclose(fit.log_evidence, value, atol=1e-7)
    assert_allclose(fit.mean, mean, atol=1e-6)
    assert_allclose(fit.var, var, atol=1e-6)


def test_a_single_factor_is_one_half():
    """Two classes, one datum: log Z_q = log ½ whatever the kernel, by the completed B.50 and B.51."""
    fit = ScalableEP().fit([[3.0]], [[2.0]], [5.0], [1], Largest(2))
    assert_allclose(fit.log_evidence, np.log(0.5), atol=1e-12)


def test_pairwise_evidence_is_below_the_joint_one():
    """The product of pairwise probabilities is no more than what it stands for."""
    X, y = problem(40)
    args = (*matrices(KERNEL, X, X[:8]), y, MultinomialProbit(C))
    pairwise, joint = ScalableEP("pairwise"), ScalableEP("joint")
    assert pairwise.fit(*args).log_evidence < joint.fit(*args).log_evidence - 0.1
    assert not pairwise.evidence_is_comparable(MultinomialProbit(C))
    assert joint.evidence_is_comparable(MultinomialProbit(C))


def test_only_joint_factors_prefer_small_variances_if_labels_are_noise():
    """Labels without a relation to the inputs are explained best by a prior with small variance, that is, by guessing."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 2)), rng.integers(0, 8, 80)

    def evidence(factors, variance):
        return ScalableEP(factors).fit(*matrices(Matern32(0.3, variance), X, X[:8]), y, MultinomialProbit(8)).log_evidence

    guessing = len(y) * np.log(1 / 8)
    assert_allclose(evidence("joint", 1e-4), guessing, atol=0.1)  # latent values of ±0.01 change log p by about 0.01² a row
    assert evidence("joint", 30.0) < guessing - 1
    assert evidence("pairwise", 30.0) > evidence("pairwise", 1e-4) + 10  # the known defect of pairwise factors


def test_two_classes_pairwise_is_exact():
    """With C = 2 there is one factor: pairwise and joint are the same."""
    X, y = problem(30, 2)
    args = (*matrices(KERNEL, X, X[:8]), y, MultinomialProbit(2))
    a, b = (ScalableEP(kind, tol=1e-9).fit(*args) for kind in ("pairwise", "joint"))
    assert_allclose(a.log_evidence, b.log_evidence, atol=1e-6)  # the joint one by quadrature
    assert_allclose(a.mean, b.mean, atol=1e-5)


def test_noise_free_likelihood_knows_no_scale():
    X, y = problem(30)
    fits = [ScalableEP(tol=1e-8).fit(*matrices(RBF(1.0, v), X, X[:8]), y, Largest(C)) for v in (0.1, 10)]
    assert all(fit.converged for fit in fits)
    assert_allclose(*(fit.log_evidence for fit in fits), atol=1e-6)


def test_robust_sites_may_be_negative():
    X, y = problem(60, seed=4)
    y = y.copy()
    y[:3] = (y[:3] + 1) % C  # wrong labels among others
    fit = ScalableEP(tol=1e-6).fit(*matrices(KERNEL, X, X[10:30]), y, RobustMax(C, epsilon=0.05))
    assert fit.converged
    assert fit.tau.min() < 0
    assert np.all(np.isfinite(fit.mean))
    assert np.all(fit.var > 0)


def test_duplicate_inducing_points_and_constant_inputs():
    X, y = problem(30)
    Z = np.concatenate([X[:4], X[:4]])
    twice = ScalableEP().fit(*matrices(KERNEL, X, Z), y, MultinomialProbit(C))
    once = ScalableEP().fit(*matrices(KERNEL, X, X[:4]), y, MultinomialProbit(C))
    assert_allclose(twice.log_evidence, once.log_evidence, atol=1e-3)  # two equal inducing inputs halve the jitter
    flat = ScalableEP().fit(*matrices(KERNEL, np.ones((30, 2)), np.ones((5, 2))), y, MultinomialProbit(C))
    assert flat.converged


def test_more_inducing_points_than_rows():
    """Points beyond the rows have no effect: all rows as points represent the posterior already."""
    X, y = problem(30)
    rows = ScalableEP().fit(*matrices(KERNEL, X[:10], X[:10]), y[:10], MultinomialProbit(C))
    more = ScalableEP().fit(*matrices(KERNEL, X[:10], X), y[:10], MultinomialProbit(C))
    assert_allclose(more.log_evidence, rows.log_evidence, atol=1e-4)


def test_bad_input():
    X, y = problem(10)
    K = matrices(KERNEL, X, X)
    with pytest.raises(ValueError, match="K_fu must be"):
        ScalableEP().fit(K[0][:4, :4], K[1], K[2], y, MultinomialProbit(C))
    with pytest.raises(TypeError, match="GFITC takes all rows at once"):
        take_step(GFITC(), None, None, y, {}, 10, MultinomialProbit(C))
    with pytest.raises(TypeError, match="needs contrast_factor, which RobustMax does not offer"):
        ScalableEP("pairwise").fit(*K, y, RobustMax(C))
    with pytest.raises(ValueError, match="factors must be one of"):
        ScalableEP("both")
    with pytest.raises(ValueError, match="labels must be integers from 0 to 2"):
        ScalableEP().fit(*K, y + 1, MultinomialProbit(C))
    with pytest.raises(ValueError, match="NaN"):
        ScalableEP().fit(*K[:2], np.full(10, np.nan), y, MultinomialProbit(C))


def test_heaviside_works_as_two_noise_free_classes():
    """One latent function with a step is C = 2 noise-free with the difference of two: half the variance each."""
    X, y = problem(30, 1, noise=0.0)
    a = ScalableEP(tol=1e-8).fit(*matrices(RBF(1.0, 2.0), X, X[:10]), y, Heaviside())
    b = ScalableEP(tol=1e-8).fit(*matrices(RBF(1.0, 1.0), X, X[:10]), (y > 0).astype(int), Largest(2))
    # the classes of b are independent a posteriori, the difference in a is one function: close, not equal
    assert_allclose(a.log_evidence, b.log_evidence, rtol=0.2)
    assert np.mean(np.sign(a.mean) == np.sign(b.mean[:, 1] - b.mean[:, 0])) > 0.9


# marginals at the training points -----------------------------------------------------------------------------------------


# minibatches with hyperparameters held ------------------------------------------------------------------------------------


# minibatches of different size --------------------------------------------------------------------------------------------
