"""Softmax and MultinomialProbit: values against other formulas, derivatives against central differences."""

import mpmath as mp
import numpy as np
import pytest
from scipy.special import log_ndtr, log_softmax, ndtr
from scipy.stats import norm

from gpclass.likelihoods import MultinomialProbit, Probit, Softmax

BOTH = [Softmax, MultinomialProbit]
rng = np.random.default_rng(0)
F = rng.normal(size=(6, 4)) * np.array([0.1, 1, 3, 8, 20, 1])[:, None]
Y = np.array([0, 1, 2, 3, 0, 1])


def exact_probit(f, y):
    """log p by adaptive quadrature with 30 digits."""
    with mp.workdps(30):
        leads = [mp.mpf(f[y]) - mp.mpf(g) for j, g in enumerate(f) if j != y]
        peak = max(0.0, -float(min(leads)) / 2)
        stops = [peak + s for s in (-14, -7, -4, -2, -1, 0, 1, 2, 4, 7, 14)]
        return float(mp.log(mp.quad(lambda u: mp.npdf(u) * mp.fprod(mp.ncdf(u + a) for a in leads), stops)))


@pytest.mark.parametrize("C", [2, 3, 5, 12])
@pytest.mark.parametrize("scale", [0.0, 1.0, 4.0])
def test_probit_value(C, scale):
    f = scale * np.random.default_rng(C).normal(size=C)
    value = MultinomialProbit(C).log_prob_slope(np.array([0]), f[None])[0][0]
    assert value == pytest.approx(exact_probit(f, 0), abs=1e-7)  # what 32 nodes give


def test_equal_latent_values_give_equal_probabilities():
    for C in (2, 3, 7, 20):
        for cls in BOTH:
            p = cls(C).class_probabilities(np.full((1, C), 3.0))
            assert p == pytest.approx(np.full((1, C), 1 / C), abs=1e-7)
            value = cls(C).log_prob_slope(np.array([C - 1]), np.full((1, C), -5.0))[0]
            assert value[0] == pytest.approx(-np.log(C), abs=1e-7)


def test_two_classes_are_binary_probit_of_the_scaled_difference():
    f = np.linspace(-20, 20, 41)
    both = np.stack([np.zeros_like(f), f], axis=1)
    value = MultinomialProbit(2).log_prob_slope(np.ones(41, int), both)[0]
    assert value == pytest.approx(log_ndtr(f / np.sqrt(2)), abs=1e-9, rel=1e-9)


def test_softmax_value():
    assert Softmax(4).log_prob(Y, F)[0] == pytest.approx(log_softmax(F, axis=1)[np.arange(6), Y], abs=1e-12)


@pytest.mark.parametrize("cls", BOTH)
def test_derivatives(cls):
    likelihood, h = cls(4), 1e-5
    value, slope, hessian = likelihood.log_prob(Y, F)
    up = [likelihood.log_prob(Y, F + h * e) for e in np.eye(4)]
    down = [likelihood.log_prob(Y, F - h * e) for e in np.eye(4)]
    assert slope == pytest.approx(np.stack([(u[0] - d[0]) / (2 * h) for u, d in zip(up, down, strict=True)], -1), abs=1e-6)
    assert hessian == pytest.approx(np.stack([(u[1] - d[1]) / (2 * h) for u, d in zip(up, down, strict=True)], -1), abs=1e-6)
    assert slope.sum(-1) == pytest.approx(np.zeros(6), abs=1e-9)  # only differences count
    assert hessian.sum(-1) == pytest.approx(np.zeros((6, 4)), abs=1e-8)
    pair = likelihood.log_prob_slope(Y, F)
    assert pair[0] == pytest.approx(value)
    assert pair[1] == pytest.approx(slope)


@pytest.mark.parametrize("cls", BOTH)
def test_columns_at_once(cls):
    likelihood = cls(4)
    stacked = np.stack([F, 2 * F, -F], axis=1)  # (n, R, C)
    value, slope = likelihood.log_prob_slope(Y[:, None], stacked)
    for r, f in enumerate((F, 2 * F, -F)):
        one = likelihood.log_prob_slope(Y, f)
        assert value[:, r] == pytest.approx(one[0])
        assert slope[:, r] == pytest.approx(one[1])
    p = likelihood.class_probabilities(stacked)
    assert p.sum(-1) == pytest.approx(np.ones((6, 3)), abs=1e-12)
    assert p[np.arange(6), :, Y] == pytest.approx(np.exp(value), abs=1e-7)


@pytest.mark.parametrize("C", [2, 3, 8, 12, 13, 300])
@pytest.mark.parametrize("scale", [0.0, 1.0, 5.0])
def test_probit_class_probabilities_by_brute_force(C, scale):
    f = scale * np.random.default_rng(C).normal(size=C)
    bias = tuple(np.linspace(-1, 1, C))
    x = np.linspace(-60, 60, 6001)  # the trapezoid rule on an entire integrand: all digits
    ahead = x[:, None] - (f + bias)
    cdf = ndtr(ahead)
    truth = [np.sum(norm.pdf(ahead[:, c]) * np.prod(np.delete(cdf, c, 1), axis=1)) * 0.02 for c in range(C)]
    p = MultinomialProbit(C, bias=bias).class_probabilities(f)
    assert p == pytest.approx(np.array(truth), abs=1e-9)  # what the module states, with room


def test_small_probit_class_probabilities():
    gap = np.array([1.0, 5.0, 10.0, 15.0, 1e5])
    p = MultinomialProbit(2).class_probabilities(np.column_stack([0 * gap, -gap]))
    assert p[:, 1] == pytest.approx(ndtr(-gap / np.sqrt(2)), rel=1e-3, abs=0)  # the rule's range ends ten below the top


@pytest.mark.parametrize("cls", BOTH)
def test_far_tails(cls):
    f = np.array([[0.0, 300.0, -1e4], [1e8, 0.0, 0.0], [-1e8, 0.0, 1e8]])
    value, slope, hessian = cls(3).log_prob(np.zeros(3, int), f)
    assert np.all(np.isfinite(value) & (value <= 0))
    assert np.all(np.isfinite(slope))
    assert np.all(np.isfinite(hessian))
    assert value[1] == pytest.approx(0, abs=1e-7)
    tail = -300.0 if cls is Softmax else -(300.0**2) / 4
    assert value[0] == pytest.approx(tail, rel=1e-3)


def test_auxiliary_variables_lie_in_their_cone():
    f = np.repeat(F[:, None], 4000, axis=1)
    v = MultinomialProbit(4).draw_auxiliary(Y[:, None], f, np.random.default_rng(0))
    assert np.all(v.argmax(-1) == Y[:, None])
    # E[v] - f is the slope of log p; 4000 draws of variance below one have errors of 1/√4000
    slope = MultinomialProbit(4).log_prob_slope(Y, F)[1]
    assert np.abs(v.mean(1) - F - slope).max() < 4.5 / np.sqrt(4000)


def test_auxiliary_variables_of_binary_probit():
    y, f = np.array([1.0, -1.0, 1.0]), np.array([-3.0, -3.0, 40.0])
    v = Probit(bias=0.5).draw_auxiliary(y[:, None], np.repeat(f[:, None], 4000, 1), np.random.default_rng(0))
    assert np.all(np.sign(v + 0.5) == y[:, None])
    assert np.abs(v.mean(1) - f - Probit(bias=0.5).log_prob(y, f)[1]).max() < 4.5 / np.sqrt(4000)


def test_labels_are_checked():
    for bad in ([0, 1, 3], [-1, 0], [0.5, 1], ["a", "b"]):
        with pytest.raises(ValueError, match="labels must be integers from 0 to 2"):
            Softmax(3).check_targets(np.array(bad))
    with pytest.raises(ValueError, match="one-dimensional"):
        Softmax(3).check_targets(np.zeros((2, 2), int))
    assert Softmax(3).check_targets([0.0, 2.0]).dtype.kind == "i"
    for bad in (1, 2.5, "3"):
        with pytest.raises(ValueError, match="n_classes"):
            Softmax(bad)


@pytest.mark.parametrize("cls", BOTH)
def test_averages_over_latent_values_by_product_quadrature(cls):
    """Biased classes, correlated latent values: a Gauss-Hermite rule in three dimensions is the truth, to 1e-5 or so."""
    likelihood, y = cls(3, bias=(0.0, 0.7, -0.4)), np.array([0, 1, 2, 1])
    r = np.random.default_rng(3)
    mean, root = r.normal(size=(4, 3)), r.normal(size=(4, 3, 3))
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    grid = np.stack(np.meshgrid(nodes, nodes, nodes), axis=-1).reshape(-1, 3)
    weight = np.prod(np.stack(np.meshgrid(weights, weights, weights), axis=-1), axis=-1).ravel() / np.sum(weights) ** 3
    f = mean[:, None] + grid @ np.swapaxes(root, 1, 2)
    cov = root @ np.swapaxes(root, 1, 2)
    p = likelihood.class_probabilities(f)
    average = weight @ p
    # three classes: exact, or by two trapezoid rules; the truth has errors of 1e-5
    np.testing.assert_allclose(likelihood.predictive(mean, cov), average, rtol=0, atol=1e-4)
    spread = np.sqrt(weight @ p**2 - average**2)
    np.testing.assert_allclose(likelihood.predictive_std(mean, cov), spread, rtol=0, atol=0.01)  # 512 quasi-random points
    if cls is Softmax:
        log_p = log_softmax(f + likelihood.offset, axis=-1)[np.arange(4), :, y]
        np.testing.assert_allclose(likelihood.mean_log_prob(y, mean, cov), log_p @ weight, rtol=0, atol=1e-3)
