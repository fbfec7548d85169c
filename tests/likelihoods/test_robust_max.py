"""RobustMax: values by definition, integrals by draws, derivatives by central differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.likelihoods import MultinomialProbit, RobustMax, Softmax

rng = np.random.default_rng(0)
Y = np.array([0, 1, 2, 3, 0, 1])
MEAN, VAR = rng.normal(size=(6, 4)), np.exp(rng.normal(size=(6, 4)))


def test_values():
    f = np.array([[3.0, 1.0, 0.0], [0.0, 0.0, -1.0]])
    p = RobustMax(3, epsilon=0.1).class_probabilities(f)
    assert_allclose(p[0], [0.9, 0.05, 0.05])
    assert_allclose(p[1], [0.475, 0.475, 0.05])  # a tie is shared
    assert_allclose(RobustMax(3, epsilon=0.1).log_prob_value(np.array([1, 2]), f), np.log([0.05, 0.05]))
    assert_allclose(RobustMax(3, bias=(0, 5, 0), epsilon=0.1).class_probabilities(f)[0], [0.05, 0.9, 0.05])


@pytest.mark.parametrize("bias", [None, (0.0, 1.0, -0.5, 0.3)])
def test_integrals_against_draws(bias):
    likelihood = RobustMax(4, bias=bias, epsilon=0.05)
    draws = MEAN[:, None] + np.sqrt(VAR)[:, None] * rng.normal(size=(6, 40_000, 4))
    p = likelihood.class_probabilities(draws)
    error = 4.5 * 0.5 / np.sqrt(40_000)
    assert np.abs(p.mean(1) - likelihood.predictive(MEAN, VAR)).max() < error
    assert np.abs(p.std(1) - likelihood.predictive_std(MEAN, VAR)).max() < error
    mass = np.exp(likelihood.tilted_moments(Y, MEAN, VAR)[0])
    assert np.abs(mass - p.mean(1)[np.arange(6), Y]).max() < error


def test_diagonal_and_dense_covariances_agree():
    likelihood = RobustMax(4)
    diagonal = VAR[:, :, None] * np.eye(4)
    exact = likelihood.predictive(MEAN, diagonal)
    assert_allclose(exact, likelihood.predictive(MEAN, VAR), atol=1e-14)
    assert_allclose(exact.sum(1), 1, atol=1e-12)
    shared = diagonal + 2.0  # the common part of all latent values has no effect
    assert_allclose(likelihood.predictive(MEAN, shared), exact, atol=3e-3)  # 512 quasi-random points


@pytest.mark.parametrize("epsilon", [1e-4, 0.05, 0.4])
@pytest.mark.parametrize("cls", [RobustMax, MultinomialProbit])
def test_derivatives(cls, epsilon):
    extra = {"epsilon": epsilon, "learn_epsilon": True} if cls is RobustMax else {}
    likelihood, h = cls(4, bias=(0.1, -0.4, 0.2, 0.0), learn_bias=True, **extra), 1e-4
    _, slope, curvature = likelihood.tilted_moments(Y, MEAN, VAR)
    for c in range(4):
        e = h * np.eye(4)[c]
        up, down = (likelihood.tilted_moments(Y, MEAN + s * e, VAR) for s in (1, -1))
        assert_allclose(slope[:, c], (up[0] - down[0]) / (2 * h), atol=1e-7)
        assert_allclose(curvature[:, c], (up[1] - down[1])[:, c] / (2 * h), atol=1e-7)
    by_theta = likelihood.tilted_theta(Y, MEAN, VAR)
    assert by_theta.shape == (len(likelihood.theta), 6)
    for k, e in enumerate(h * np.eye(len(likelihood.theta))):
        up, down = (likelihood.with_theta(likelihood.theta + s * e).tilted_moments(Y, MEAN, VAR)[0] for s in (1, -1))
        assert_allclose(by_theta[k], (up - down) / (2 * h), atol=1e-7)


def test_no_spread_at_all():
    p = RobustMax(3, epsilon=0.1).predictive(np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), np.zeros((2, 3)))
    assert_allclose(p, [[1 / 3, 1 / 3, 1 / 3], [0.9, 0.05, 0.05]], atol=1e-9)
    assert np.all(np.isfinite(RobustMax(3).tilted_moments(np.array([1]), np.zeros((1, 3)), np.zeros((1, 3)))[0]))


def test_parameters():
    likelihood = RobustMax(3, learn_bias=True, learn_epsilon=True)
    assert likelihood.names == ["bias[1]", "bias[2]", "epsilon"]
    assert likelihood.bounds.shape == (3, 2)
    moved = likelihood.with_theta([0.5, -0.5, np.log(0.02)])
    assert moved.bias == (0.0, 0.5, -0.5)
    assert moved.epsilon == pytest.approx(0.02)
    assert RobustMax(3).theta.shape == (0,)
    for bad in (0, -0.1, 0.7):
        with pytest.raises(ValueError, match="epsilon must be above 0 and below"):
            RobustMax(3, epsilon=bad)
    for cls in (RobustMax, Softmax, MultinomialProbit):
        with pytest.raises(ValueError, match="bias must be 3 finite numbers"):
            cls(3, bias=(1.0, 2.0))
        with pytest.raises(ValueError, match="free parameters"):
            cls(3, learn_bias=True).with_theta([1.0])
    assert not hasattr(RobustMax(3), "log_prob")  # there are no derivatives in f


def test_no_slope_is_offered():
    """p(y | f) is constant between jumps: values, but no derivatives in f."""
    likelihood = RobustMax(3)
    assert likelihood.offers("log_prob_value")
    assert not likelihood.offers("log_prob_slope")
    assert not likelihood.offers("log_prob")
    assert Softmax(3).offers("log_prob_slope")
