"""Label noise: equal bit by bit to the noise-free likelihood at ε = 0; the mixture by brute force; limits, parameters."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gpclass.engines import UnsuitableLikelihood
from gpclass.inference import VB, NestedEP
from gpclass.likelihoods import MultinomialProbit, OneAgainstRest, Probit
from gpclass.likelihoods.multinomial_probit import NoiseFreeMultinomialProbit
from gpclass.likelihoods.probit import NoiseFreeProbit
from gpclass.numerics import hermite_nodes

rng = np.random.default_rng(0)
SIGNS, M, V = np.tile([1.0, -1.0], 4), rng.normal(scale=3.0, size=8), np.exp(rng.normal(size=8))
Y, MEAN, VAR = np.array([0, 1, 2, 0, 1]), 2 * rng.normal(size=(5, 3)), np.exp(rng.normal(size=(5, 3)))
BIAS = (0.1, -0.4, 0.2)
BINARY = (
    "log_prob", "log_prob_value", "log_prob_slope", "log_prob_third", "log_prob_theta", "tilted_moments", "tilted_slopes",
    "tilted_theta", "expected_log_prob", "expected_log_prob_theta", "bound", "log_predictive",
)  # fmt: skip
SEVERAL = (
    "log_prob", "log_prob_value", "log_prob_slope", "tilted_moments", "tilted_theta", "expected_log_prob", "log_predictive"
)  # fmt: skip


def same(a, b):
    for x, y in zip(a if isinstance(a, tuple) else (a,), b if isinstance(b, tuple) else (b,), strict=True):
        assert_array_equal(x, y)


def test_no_noise_is_the_noise_free_likelihood_bit_for_bit():
    one, plain = Probit(0.3, learn_bias=True), NoiseFreeProbit(0.3, learn_bias=True)
    for name in BINARY:
        args = (SIGNS, M, V) if any(part in name for part in ("tilted", "expected", "predictive")) else (SIGNS, M)
        same(getattr(one, name)(*args), getattr(plain, name)(*args))
    several, bare = MultinomialProbit(3, BIAS, True), NoiseFreeMultinomialProbit(3, BIAS, True)
    for name in SEVERAL:
        args = (Y, MEAN, VAR) if any(part in name for part in ("tilted", "expected", "predictive")) else (Y, MEAN)
        same(getattr(several, name)(*args), getattr(bare, name)(*args))
    for name in ("predictive", "predictive_std"):
        same(getattr(one, name)(M, V), getattr(plain, name)(M, V))
        same(getattr(several, name)(MEAN, VAR), getattr(bare, name)(MEAN, VAR))
    same(several.class_probabilities(MEAN), bare.class_probabilities(MEAN))
    assert Probit().log_concave
    assert MultinomialProbit(3).log_concave
    assert not Probit().names
    assert not Probit(epsilon=0.1).log_concave


@pytest.mark.parametrize("epsilon", [0.02, 0.4])
def test_several_classes_by_definition(epsilon):
    noisy, clean = MultinomialProbit(3, BIAS, epsilon=epsilon), MultinomialProbit(3, BIAS)
    p = (1 - epsilon) * clean.class_probabilities(MEAN) + epsilon / 3
    assert_allclose(noisy.class_probabilities(MEAN), p, rtol=1e-14)
    # the two integrals of the noise-free likelihood agree to 2e-7 of log p, see its module
    assert_allclose(noisy.log_prob_value(Y, MEAN), np.log(p[np.arange(5), Y]), atol=3e-7)
    assert_allclose(noisy.predictive(MEAN, VAR), (1 - epsilon) * clean.predictive(MEAN, VAR) + epsilon / 3, rtol=1e-14)
    assert_allclose(noisy.predictive_std(MEAN, VAR), (1 - epsilon) * clean.predictive_std(MEAN, VAR), rtol=1e-10)


@pytest.mark.parametrize("epsilon", [0.02, 0.4])
def test_tilted_moments_of_several_classes_by_product_quadrature(epsilon):
    """Mass, means and variances of N(f) p(y | f) on a grid of 28³ nodes."""
    likelihood = MultinomialProbit(3, BIAS, epsilon=epsilon)
    x, log_w = hermite_nodes(28, 3)
    value, slope, curvature = likelihood.tilted_moments(Y, MEAN, VAR)
    for i in range(5):
        f = MEAN[i] + np.sqrt(VAR[i]) * x
        w = np.exp(log_w) * likelihood.class_probabilities(f)[:, Y[i]]
        first = w @ f / w.sum()
        second = w @ (f - first) ** 2 / w.sum()
        assert_allclose(value[i], np.log(w.sum()), atol=1e-8)
        assert_allclose(MEAN[i] + VAR[i] * slope[i], first, atol=1e-7)
        assert_allclose(VAR[i] + VAR[i] ** 2 * curvature[i], second, atol=1e-6)


@pytest.mark.parametrize("epsilon", [1e-4, 0.05, 0.7])
def test_derivatives_of_several_classes(epsilon):
    h, likelihood = 1e-4, MultinomialProbit(3, BIAS, learn_bias=True, epsilon=epsilon)
    _, slope, hessian = likelihood.log_prob(Y, MEAN)
    assert_allclose(likelihood.log_prob_slope(Y, MEAN)[1], slope, atol=1e-12)
    _, tilted, curvature = likelihood.tilted_moments(Y, MEAN, VAR)
    for c, e in enumerate(h * np.eye(3)):
        up, down = (likelihood.log_prob(Y, MEAN + s * e) for s in (1, -1))
        # differences of sums whose nodes move with f: slopes have errors of 2e-7 of the value, see the module
        assert_allclose(slope[:, c], (up[0] - down[0]) / (2 * h), atol=1e-5)
        assert_allclose(hessian[:, c], (up[1] - down[1]) / (2 * h), atol=1e-4)
        up, down = (likelihood.tilted_moments(Y, MEAN + s * e, VAR) for s in (1, -1))
        assert_allclose(tilted[:, c], (up[0] - down[0]) / (2 * h), atol=1e-7)
        assert_allclose(curvature[:, c], (up[1] - down[1])[:, c] / (2 * h), atol=1e-7)
    by_theta = likelihood.tilted_theta(Y, MEAN, VAR)
    for k, e in enumerate(h * np.eye(3)):
        up, down = (likelihood.with_theta(likelihood.theta + s * e).tilted_moments(Y, MEAN, VAR)[0] for s in (1, -1))
        assert_allclose(by_theta[k], (up - down) / (2 * h), atol=1e-7)


def test_limits():
    """With ε → 0 the relative change is ε/(C Z), with Z above 1e-3 here; with ε → 1 the label has no information."""
    for likelihood, at in ((Probit(0.3), (SIGNS, np.clip(M, -2, 2), V)), (MultinomialProbit(3, BIAS), (Y, MEAN, VAR))):
        tiny, full = (type(likelihood)(**{**vars(likelihood), "epsilon": e}) for e in (1e-12, 1 - 1e-12))
        for got, wanted in zip(tiny.tilted_moments(*at), likelihood.tilted_moments(*at), strict=True):
            assert_allclose(got, wanted, atol=1e-8)
        value, slope, curvature = full.tilted_moments(*at)
        assert_allclose(value, -np.log(len(likelihood.class_targets)), atol=1e-11)
        assert_allclose(slope, 0, atol=1e-11)
        assert_allclose(curvature, 0, atol=1e-11)


def test_loss_is_bounded_and_influence_vanishes():
    likelihood = Probit(epsilon=0.1)
    for value, slope, curvature in (likelihood.log_prob(1.0, -np.array([40.0, 1e3, 1e150])),
                                    likelihood.tilted_moments(1.0, -np.array([80.0, 1e3, 1e150]), np.ones(3))):  # fmt: skip
        assert_allclose(value, np.log(0.05), rtol=1e-14)
        assert_allclose([slope, curvature], 0, atol=1e-300)
    assert likelihood.tilted_moments(1.0, np.array([-3.0]), np.ones(1))[2] > 0  # not log-concave
    assert np.all(likelihood.log_prob_third(1.0, -np.array([40.0, 1e3])) == 0)
    far = MultinomialProbit(3, epsilon=0.3).log_prob(np.array([0]), np.array([[-100.0, 0.0, 0.0]]))
    assert_allclose(far[0], np.log(0.1))
    assert_allclose(far[2], 0, atol=1e-300)


@pytest.mark.parametrize("likelihood", [Probit(0.3, epsilon=0.3), MultinomialProbit(3, BIAS, epsilon=0.3)], ids=str)
def test_auxiliary_variables_have_the_mean_of_the_mixture(likelihood):
    """p(y | f) = E[p(y | v)] under v ~ N(f, I), so that E[v | y] = f + d log p/df, and cov[v | y] = I + its Hessian."""
    count = 10_000
    y, f = (SIGNS[:4], M[:4]) if likelihood.n_latents == 1 else (Y, MEAN)
    many = np.repeat(f[:, None], count, axis=1)
    v = likelihood.draw_auxiliary(y[:, None], many, np.random.default_rng(1))
    _, slope, bend = likelihood.log_prob(y, f)
    variance = 1 + (bend if likelihood.n_latents == 1 else np.einsum("icc->ic", bend))
    assert np.abs(v.mean(1) - f - slope).max() < 4.5 * np.sqrt(variance.max() / count)
    assert np.abs(v.var(1) - variance).max() < 4.5 * np.sqrt(8 * variance.max() ** 2 / count)  # fourth moments up to 9


def test_parameters():
    likelihood = MultinomialProbit(3, learn_bias=True, epsilon=0.1)
    assert likelihood.names == ["bias[1]", "bias[2]", "epsilon"]
    assert likelihood.bounds.shape == (3, 2)
    moved = likelihood.with_theta([0.5, -0.5, np.log(0.02)])
    assert moved.bias == (0.0, 0.5, -0.5)
    assert moved.epsilon == pytest.approx(0.02)
    assert moved.learn_epsilon
    assert Probit(epsilon=0.1, learn_epsilon=False).names == []
    assert Probit(epsilon=0.1).names == ["epsilon"]
    for bad in (-0.1, 1.0, np.nan):
        with pytest.raises(ValueError, match="epsilon must be at least 0 and below 1"):
            Probit(epsilon=bad)
    with pytest.raises(ValueError, match="2 free parameters, but got 1"):
        Probit(learn_bias=True, epsilon=0.1).with_theta([0.0])
    assert not OneAgainstRest(3, binary=Probit(epsilon=0.1)).log_concave


def test_what_noise_takes_away_is_not_offered():
    assert not Probit(epsilon=0.1).offers("bound")
    assert Probit().offers("bound")
    with pytest.raises(UnsuitableLikelihood, match=r"which Probit with epsilon > 0 does not offer.*: Logit, Probit\."):
        VB().check_likelihood(Probit(epsilon=0.1))
    with pytest.raises(UnsuitableLikelihood, match="which MultinomialProbit with epsilon > 0 does not offer"):
        NestedEP().check_likelihood(MultinomialProbit(3, epsilon=0.1))
