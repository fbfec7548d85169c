"""Powers of likelihoods with one latent function under a Gaussian."""

import numpy as np
import pytest
from scipy.integrate import trapezoid

from gpclass.gaussian import Places
from gpclass.likelihoods import Gaussian, Heaviside, Logit, Ordinal, Probit
from gpclass.likelihoods.tempered import Product, Tempered, tempered_targets

CONCAVE = [Probit(0.3), Logit(-0.5), Ordinal((-2.0, -0.5, 1.0)), Gaussian(0.4)]
rng = np.random.default_rng(2)
MEANS, VARS = (part.ravel() for part in np.meshgrid([-4.0, 0.5, 3.0], [0.05, 1.0, 60.0]))


def grid_of(mean, var):
    """A grid so fine that the trapezoid rule is exact for features wider than 1e-3."""
    reach = 12 * np.sqrt(var) + 14
    return np.linspace(mean - reach, mean + reach, 200_001)


def by_grid(log_prob, mean, var):
    f = grid_of(mean, var)
    log_density = log_prob(f) - 0.5 * (f - mean) ** 2 / var - 0.5 * np.log(2 * np.pi * var)
    top = log_density.max()
    return top + np.log(trapezoid(np.exp(log_density - top), f))


def targets_of(likelihood):
    return np.array([-0.7, 1.2]) if isinstance(likelihood, Gaussian) else likelihood.class_targets[[0, -1]]


@pytest.mark.parametrize("likelihood", CONCAVE, ids=repr)
@pytest.mark.parametrize("power", [0.1, 0.8, 3.0, 400.0])
def test_powers_against_a_grid(likelihood, power):
    """The rules have errors of 1e-12; those of a wide category of `Ordinal` up to 1e-7."""
    for y in targets_of(likelihood):
        got = likelihood.tilted_power(np.full(9, y), np.full(9, power), MEANS, VARS)[0]
        wanted = [
            by_grid(lambda f, y=y: power * likelihood.log_prob(np.full(f.shape, y), f)[0], m, v)
            for m, v in zip(MEANS, VARS, strict=True)
        ]
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("likelihood", [*CONCAVE, Probit(epsilon=0.1), Heaviside(0.1)], ids=repr)
@pytest.mark.parametrize("power", [0.3, 5.0])
def test_derivatives_of_powers(likelihood, power):
    """Central differences with step 1e-4: their own error is 1e-8 times third derivatives, at most about 100 here."""
    y, powers, h = np.full(9, targets_of(likelihood)[1]), np.full(9, power), 1e-4
    value, slope, curvature = likelihood.tilted_power(y, powers, MEANS, VARS)
    up, down = (likelihood.tilted_power(y, powers, MEANS + s * h, VARS) for s in (1, -1))
    np.testing.assert_allclose(slope, (up[0] - down[0]) / (2 * h), rtol=1e-6, atol=2e-6)
    np.testing.assert_allclose(curvature, (up[1] - down[1]) / (2 * h), rtol=1e-6, atol=2e-6)
    theta = likelihood.theta
    found = likelihood.tilted_power_theta(y, powers, MEANS, VARS)
    for k, e in enumerate(h * np.eye(len(theta))):
        up, down = (likelihood.with_theta(theta + s * e).tilted_power(y, powers, MEANS, VARS)[0] for s in (1, -1))
        np.testing.assert_allclose(found[k], (up - down) / (2 * h), rtol=1e-5, atol=1e-6)
    assert np.all(np.isfinite(value))


@pytest.mark.parametrize("epsilon", [0.2, 1e-6])
@pytest.mark.parametrize("power", [0.5, 20.0])
def test_powers_with_label_noise(epsilon, power):
    """Rare wrong labels make a sharp corner, which the nodes must resolve. The rules have errors of 1e-9."""
    likelihood = Probit(0.3, epsilon=epsilon)
    got = likelihood.tilted_power(np.full(9, -1.0), np.full(9, power), MEANS, VARS)[0]
    wanted = [by_grid(lambda f: power * likelihood.log_prob(-1.0, f)[0], m, v) for m, v in zip(MEANS, VARS, strict=True)]
    np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-8)


def test_products_with_label_noise_against_a_grid():
    likelihood, y, weight = Probit(epsilon=0.1), np.array([1.0, -1.0]), np.array([30.0, 4.0])
    product = Product(likelihood, y, weight, Places(1, np.array([0, 0])))
    wanted = by_grid(lambda f: weight @ likelihood.log_prob(y[:, None], np.stack([f, f]))[0], -4.0, 3.0)
    got = product.tilted_moments(None, np.array([-4.0]), np.array([3.0]))[0]
    np.testing.assert_allclose(got, wanted, rtol=1e-9)


def test_targets_of_power_one_use_the_closed_form():
    likelihood, y = Probit(), np.array([1.0, -1.0, 1.0])
    records = tempered_targets(y, np.array([1.0, 0.4, 1.0]))
    found = Tempered(likelihood).tilted_moments(records, MEANS[:3], VARS[:3])
    for part, whole in zip(found, likelihood.tilted_moments(y, MEANS[:3], VARS[:3]), strict=True):
        np.testing.assert_array_equal(part[[0, 2]], whole[[0, 2]])
        assert part[1] != whole[1]


def test_products_against_a_grid():
    """Observations of both classes at one latent value; heavy ones have a narrow product."""
    y, weight, places = np.array([1.0, -1.0, 1.0]), np.array([500.0, 200.0, 0.3]), Places(2, np.array([0, 0, 1]))
    product = Product(Logit(), y, weight, places)
    mean, var = np.array([0.4, -3.0]), np.array([9.0, 2.0])
    wanted = [
        by_grid(lambda f, mine=places.index == i: -(weight[mine] @ np.logaddexp(0, -y[mine, None] * f)), m, v)
        for i, (m, v) in enumerate(zip(mean, var, strict=True))
    ]
    np.testing.assert_allclose(product.tilted_moments(None, mean, var)[0], wanted, rtol=1e-10)
