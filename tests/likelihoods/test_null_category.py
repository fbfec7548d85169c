"""The null category noise model: its categories, powers, tails, and rows without a label."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from gpclass.likelihoods import NullCategory, Probit
from gpclass.testing.integrals import tilted_truth

rng = np.random.default_rng(0)
MEAN, VAR = rng.normal(scale=3.0, size=30), np.exp(rng.uniform(-3, 3, size=30))
Y = np.tile([0.0, 1.0, -1.0], 10)


def test_the_categories_of_a_row_sum_to_one():
    f, width = np.linspace(-5, 5, 11), 1.4
    likelihood = NullCategory(0.3, width=width)
    null = norm.cdf(f + 0.3 + width / 2) - norm.cdf(f + 0.3 - width / 2)
    below, above, either = (np.exp(likelihood.log_prob_value(np.full(11, y), f)) for y in (-1.0, 1.0, 0.0))
    assert_allclose(below + null + above, 1, atol=1e-14)
    assert_allclose(either, 1 - null, atol=1e-14)


def test_without_a_gap_it_is_probit_and_rows_without_a_label_say_nothing():
    y = np.tile([1.0, -1.0], 15)
    got, wanted = (l.tilted_moments(y, MEAN, VAR) for l in (NullCategory(0.2, width=0.0), Probit(0.2)))
    assert_allclose(got, wanted, rtol=1e-12)
    nothing = NullCategory(0.2, width=0.0).tilted_moments(np.zeros(30), MEAN, VAR)
    assert_allclose(nothing, np.zeros((3, 30)), atol=1e-14)


@pytest.mark.parametrize("mean", [0.0, 1e-3, 2.0, 30.0, -200.0])
@pytest.mark.parametrize("var", [0.0, 1e-4, 5.0, 1e6])
def test_rows_without_a_label_in_extended_precision(mean, var):
    with mp.workdps(60):
        h, scale = mp.mpf(1.5), mp.sqrt(1 + mp.mpf(var))

        def log_z(m):
            parts = [mp.erfc((h - sign * m) / scale / mp.sqrt(2)) / 2 for sign in (1, -1)]
            return mp.log(parts[0] + parts[1])

        # the difference from one is the mass of the tails
        wanted = [mp.diff(log_z, mp.mpf(mean), k) for k in range(3)]
    got = NullCategory(width=3.0).tilted_moments(np.array([0.0]), np.array([mean]), np.array([var]))
    for a, b in zip(got, wanted, strict=True):
        assert_allclose(a[0], float(b), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("power", [0.05, 0.5, 1.7])
def test_powers(power):
    likelihood = NullCategory(-0.2, True, width=2.5)
    got = likelihood.tilted_power(Y, np.full(30, power), MEAN, VAR)
    mass, mean, var = tilted_truth(lambda f: power * likelihood.log_prob_value(Y[:, None], f), MEAN, VAR)
    assert_allclose(got[0], mass, atol=1e-9)
    assert_allclose(MEAN + VAR * got[1], mean, atol=1e-8)
    assert_allclose(VAR + VAR**2 * got[2], var, atol=1e-7)
    h = 1e-5
    up, down = (NullCategory(b, True, 2.5).tilted_power(Y, np.full(30, power), MEAN, VAR)[0] for b in (-0.2 + h, -0.2 - h))
    assert_allclose(likelihood.tilted_power_theta(Y, np.full(30, power), MEAN, VAR), [(up - down) / (2 * h)], atol=1e-7)


@pytest.mark.parametrize("sd", [1e-8, 0.9, 1.1, 40.0, 3e3])
@pytest.mark.parametrize("mean", [0.0, 5.0, 900.0])
def test_quadrature_at_any_scale(sd, mean):
    """The power one and the average of the class probability have closed forms."""
    likelihood, m, v = NullCategory(0.4, width=4.0), np.array([mean]), np.array([sd**2])
    wanted = likelihood.tilted_moments(np.zeros(1), m, v)
    for got, exact, scale in zip(likelihood._unlabelled_power(np.ones(1), m, v), wanted, (1, sd, sd**2), strict=True):
        assert_allclose(got * scale, exact * scale, atol=1e-11)
    p, weights = likelihood._class_probability(m, v)
    assert_allclose((p * weights).sum(), likelihood.predictive(m, v), atol=1e-11)


def test_near_the_boundary_a_row_without_a_label_has_negative_precision():
    _, d1, d2 = NullCategory(width=3.0).tilted_moments(np.zeros(3), np.array([-6.0, 0.0, 6.0]), np.ones(3))
    assert d2[1] > 0 > d2[0] == pytest.approx(d2[2])
    assert d1[0] < 0 == d1[1] < d1[2]  # away from zero


def test_expected_entropy_is_that_of_the_class():
    likelihood = NullCategory(width=2.0)
    p = likelihood.predictive(MEAN, VAR)
    entropy = likelihood.expected_entropy(MEAN, VAR)
    assert np.all(entropy >= -1e-15)
    assert np.all(entropy <= -p * np.log(p) - (1 - p) * np.log1p(-p) + 1e-12)  # concave
    known = likelihood.expected_entropy(np.array([0.3]), np.array([1e-14]))
    q = likelihood.predictive(np.array([0.3]), np.array([0.0]))
    assert_allclose(known, -q * np.log(q) - (1 - q) * np.log1p(-q), rtol=1e-6)


def test_wrong_settings_are_named():
    with pytest.raises(ValueError, match=r"width must be in \[0, 6\], but is 7"):
        NullCategory(width=7)
    with pytest.raises(ValueError, match="unlabelled must not be NaN: replace missing labels by another value"):
        NullCategory(unlabelled=np.nan)
    with pytest.raises(TypeError, match="unlabelled must be a number, a string or None"):
        NullCategory(unlabelled=[-1])
    with pytest.raises(ValueError, match=r"targets must be -1 or .1, or 0 for rows without a label, but y contains"):
        NullCategory().check_targets([1, 2])
