"""MultinomialProbit: values by brute force, two classes, auxiliary variables."""

import mpmath as mp
import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr
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


@pytest.mark.slow_cases("0.0-300", "1.0-300")
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
    assert p == pytest.approx(np.array(truth), abs=1e-9)  # the accuracy that the module states, with a margin


def test_small_probit_class_probabilities():
    gap = np.array([1.0, 5.0, 10.0, 15.0, 1e5])
    p = MultinomialProbit(2).class_probabilities(np.column_stack([0 * gap, -gap]))
    assert p[:, 1] == pytest.approx(ndtr(-gap / np.sqrt(2)), rel=1e-3, abs=0)  # the rule ends ten below the maximum


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
