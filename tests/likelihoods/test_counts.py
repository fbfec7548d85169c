"""Ordered categories, counts, one against the rest, and softmax under independent Gaussians."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln
from scipy.stats import norm, poisson

from gpclass.inference import EP, KL, Laplace
from gpclass.kernels import RBF
from gpclass.likelihoods import Logit, OneAgainstRest, Ordinal, Poisson, Probit, Softmax
from gpclass.numerics.product import softmax_moments
from gpclass.testing.likelihoods import check_parameters

rng = np.random.default_rng(0)


def cavities(n):
    sd = np.exp(rng.uniform(np.log(0.1), np.log(5.0), size=n))
    return np.clip(rng.normal(scale=3.0, size=n), -6 * sd, 6 * sd), sd**2


# one latent value ------------------------------------------------------------------------------------------------------

def test_ordinal_is_differences_of_normal_probabilities():
    likelihood = Ordinal((-1.0, 0.5, 2.0))
    f = np.linspace(-4, 4, 9)
    cuts = np.array([-np.inf, -1.0, 0.5, 2.0, np.inf])
    for k in range(4):
        truth = norm.cdf(cuts[k + 1] - f) - norm.cdf(cuts[k] - f)  # off by 1e-16 of one
        assert_allclose(np.exp(likelihood.log_predictive(np.full(9, k), f, np.zeros(9))), truth, rtol=1e-12, atol=1e-15)
    p = likelihood.predictive(f, np.full(9, 2.0))
    assert_allclose(p.sum(1), 1.0, rtol=1e-13)
    # two categories are probit with a bias
    y = np.array([0, 1, 1, 0, 1])
    mean, var = rng.normal(size=5), rng.uniform(0.1, 3, size=5)
    for got, want in zip(
        Ordinal((0.7,)).tilted_moments(y, mean, var),
        Probit(bias=-0.7).tilted_moments(2.0 * y - 1, mean, var),
        strict=True,
    ):
        assert_allclose(got, want, rtol=1e-12)


def test_ordinal_far_off():
    """A category that is a thousand widths away looks like a Gaussian observation at its edge: [RW] hazard ~ distance."""
    likelihood = Ordinal((-1.0, 1.0))
    value, slope, curvature = likelihood.tilted_moments(np.array([1, 1, 2, 0]), np.array([1e3, -1e3, -1e3, 1e3]), np.ones(4))
    assert np.all(np.isfinite(value))
    assert_allclose(np.abs(slope), [999 / 2, 999 / 2, 1001 / 2, 1001 / 2], rtol=1e-5)  # 1/distance² below
    assert_allclose(curvature, -0.5, rtol=1e-5)


def test_poisson_against_a_fine_grid():
    """Wide and narrow cavities, small and large counts; the trapezoid rule about the mode with 20001 nodes is the truth."""
    for y in (0, 1, 7, 300):
        for mean in (-6.0, 0.0, 5.0):
            for var in (1e-6, 0.01, 1.0, 30.0, 1000.0):
                # the mode, by bisection on the slope
                low, high = mean - var * np.exp(min(mean, 50.0)) - 1, mean + var * y + 1
                for _ in range(200):
                    middle = 0.5 * (low + high)
                    up = y - np.exp(min(middle, 600.0)) - (middle - mean) / var > 0
                    low, high = (middle, high) if up else (low, middle)
                width = 1 / np.sqrt(1 / var + np.exp(low))
                right = low + min(9 * np.sqrt(var), 9 * width + 5)
                left = low - min(9 * np.sqrt(var), 9 * width + 45 / max(y, 1e-3))  # it falls like exp(y f), or like N
                f = np.concatenate([np.linspace(left, low, 20001), np.linspace(low, right, 20001)[1:]])
                g = y * f - np.exp(f) - gammaln(y + 1) - 0.5 * (f - mean) ** 2 / var - 0.5 * np.log(2 * np.pi * var)
                w = np.exp(g - g.max())
                mass = np.trapezoid(w, f)
                first = np.trapezoid(w * f, f) / mass
                second = np.trapezoid(w * (f - first) ** 2, f) / mass
                got = Poisson().tilted_moments(np.array([y]), np.array([mean]), np.array([var]))
                truth = np.log(mass) + g.max()
                # rounding of the exponents, of order |log Z|, and the grid's own error of 1e-8 widths²
                assert got[0][0] == pytest.approx(truth, abs=1e-7 + 1e-12 * abs(truth))
                assert mean + var * got[1][0] == pytest.approx(first, abs=1e-6 * np.sqrt(second))
                assert var + var**2 * got[2][0] == pytest.approx(second, rel=1e-6)


def test_poisson_is_scipy_s():
    f = np.linspace(-3, 3, 7)
    for y in (0, 2, 9):
        assert_allclose(Poisson(0.5).log_prob(y, f)[0], poisson.logpmf(y, np.exp(f + 0.5)), rtol=1e-12)
    assert_allclose(Poisson(0.5).predictive(1.0, 0.4), np.exp(1.7))


def test_engines_take_them():
    X = np.linspace(-3, 3, 40)[:, None]
    K = RBF(1.0)(X)
    f = np.sin(2 * X[:, 0])
    counts = np.random.default_rng(1).poisson(np.exp(1 + f))
    fits = [engine.fit(K, counts, Poisson(1.0)) for engine in (EP(), Laplace(), KL())]
    for fit in fits[1:]:
        assert_allclose(fit.mean, fits[0].mean, atol=0.1)  # three approximations of one posterior with width 0.3
    levels = np.digitize(f, [-0.5, 0.5])
    fit = EP().fit(K, levels, Ordinal((-0.5, 0.5)))
    assert np.corrcoef(fit.mean, f)[0, 1] > 0.95


def test_bad_targets_and_parameters():
    for y in ([0.5], [-1], [np.nan], [[1]], ["a"], [np.inf]):
        with pytest.raises(ValueError, match=r"whole numbers|one-dimensional"):
            Poisson().check_targets(y)
    with pytest.raises(ValueError, match="from 0 up to 2"):
        Ordinal((0.0, 1.0)).check_targets([3])
    for thresholds in ((1.0, 0.0), (), (np.nan,), (0.0, 0.0)):
        with pytest.raises(ValueError, match="ascending"):
            Ordinal(thresholds)
    with pytest.raises(ValueError, match="finite"):
        Poisson(np.nan)


# several --------------------------------------------------------------------------------------------------------------


def test_one_against_rest_is_binary_problems_side_by_side():
    y = np.array([0, 2, 1, 2])
    mean, var = rng.normal(size=(4, 3)), rng.uniform(0.1, 3, size=(4, 3))
    likelihood = OneAgainstRest(3, bias=(0.1, -0.4, 0.3), learn_bias=True, binary=Logit())
    value, slope, curvature = likelihood.tilted_moments(y, mean, var)
    total = np.zeros(4)
    for c, bias in enumerate((0.1, -0.4, 0.3)):
        v, s, k = Logit(bias=bias).tilted_moments(np.where(y == c, 1.0, -1.0), mean[:, c], var[:, c])
        total += v
        assert_allclose(slope[:, c], s)
        assert_allclose(curvature[:, c], k)
    assert_allclose(value, total)
    assert_allclose(likelihood.tilted_theta(y, mean, var), slope.T)
    check_parameters(likelihood)
    p = likelihood.predictive(mean, var)
    binary = Logit().predictive(mean + np.array([0.1, -0.4, 0.3]), var)
    assert_allclose(p, binary / binary.sum(1, keepdims=True))
    assert_allclose(likelihood.predictive(mean, var[:, :, None] * np.eye(3)), p)
    _, gradient, hessian = likelihood.log_prob(y, mean)
    h = 1e-5
    for c in range(3):
        step = h * np.eye(3)[c]
        up, down = likelihood.log_prob(y, mean + step), likelihood.log_prob(y, mean - step)
        assert_allclose(gradient[:, c], (up[0] - down[0]) / (2 * h), atol=1e-9)
        assert_allclose(hessian[:, c], (up[1] - down[1]) / (2 * h), atol=1e-9)


def test_softmax_of_two_classes_is_logit_of_the_difference():
    mean, var = rng.normal(size=(20, 2)), rng.uniform(0.05, 4.0, size=(20, 2))
    y = rng.integers(0, 2, size=20)
    value, slope, curvature = Softmax(2).tilted_moments(y, mean, var)
    sign = np.where(y == 1, 1.0, -1.0)
    truth = Logit().tilted_moments(sign, mean[:, 1] - mean[:, 0], var.sum(1))
    assert_allclose(value, truth[0], atol=2e-4)  # 40 nodes, at variances up to 8
    assert_allclose(slope[:, 1], truth[1], atol=1e-3)
    assert_allclose(slope[:, 0], -truth[1], atol=1e-3)
    assert_allclose(curvature[:, 1], truth[2], atol=2e-3)


def test_softmax_of_three_classes_against_a_dense_product_rule():
    x, w = np.polynomial.hermite_e.hermegauss(80)
    w = w / w.sum()
    a, b, c = np.meshgrid(x, x, x, indexing="ij")
    weights = (w[:, None, None] * w[None, :, None] * w).ravel()
    nodes = np.stack([a.ravel(), b.ravel(), c.ravel()], axis=1)
    for scale in (0.1, 1.0, 5.0):
        mean, var = rng.normal(size=3), scale * rng.uniform(0.5, 1.5, size=3)
        f = mean + np.sqrt(var) * nodes
        p = weights * np.exp(f[:, 0] - np.logaddexp.reduce(f, axis=1))
        first = (p[:, None] * f).sum(0) / p.sum()
        second = (p[:, None] * (f - first) ** 2).sum(0) / p.sum()
        value, slope, curvature = softmax_moments(mean[None], var[None])
        assert value[0] == pytest.approx(np.log(p.sum()), abs=1e-3)
        assert_allclose((mean + var * slope[0] - first) / np.sqrt(var), 0, atol=2e-3)
        assert_allclose((var + var**2 * curvature[0]) / second, 1, atol=4e-3)
        assert np.sum(slope) == pytest.approx(0, abs=2e-3)  # a shift of all latent values changes nothing


def test_softmax_with_many_classes_is_refused():
    with pytest.raises(ValueError, match="MultinomialProbit"):
        Softmax(8).tilted_moments(np.zeros(2, int), np.zeros((2, 8)), np.ones((2, 8)))


def test_softmax_certain_values():
    value, slope, curvature = Softmax(3).tilted_moments(np.array([1]), np.array([[0.0, 1.0, 2.0]]), np.zeros((1, 3)))
    assert value[0] == pytest.approx(1 - np.logaddexp.reduce([0.0, 1.0, 2.0]))
    assert np.all(slope == 0)  # nothing is known of their derivatives, and nothing is needed: such values do not move
    assert np.all(curvature == 0)
