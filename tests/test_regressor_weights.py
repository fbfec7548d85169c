"""GPRegressor with weights."""

import numpy as np
import pytest

from gpclass import GPRegressor
from gpclass.inference import EP

rng = np.random.default_rng(3)
X = rng.normal(size=(40, 2))
Y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=40)


@pytest.mark.parametrize("name", ["exact", "ivm"])
def test_weights_are_repeated_rows(name):
    weight = rng.integers(0, 4, 40)
    rows = np.repeat(np.arange(40), weight)[rng.permutation(weight.sum())]
    # exact copies make the noise tend to zero, where a search depends on the rounding of the targets' scale
    settings = {"inference": name, "random_state": 0, "noise_variance": 0.2, "optimizer": None}
    weighted = GPRegressor(**settings).fit(X, Y, sample_weight=weight)
    repeated = GPRegressor(**settings).fit(X[rows], Y[rows])
    np.testing.assert_allclose(weighted.log_evidence_, repeated.log_evidence_, atol=1e-8)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-8)


def test_different_targets_of_equal_inputs_share_a_latent_value():
    """By hand: the posterior of n rows with repeated inputs, in closed form."""
    twice, targets = np.concatenate([X, X]), np.concatenate([Y, Y + 0.2 * rng.normal(size=40)])
    reg = GPRegressor("rbf", optimizer=None, normalize_y=False, noise_variance=0.3).fit(twice, targets)
    assert reg.inputs_.shape == (40, 2)
    K = reg.kernel_(twice) + 0.3 * np.eye(80)
    sign, log_det = np.linalg.slogdet(2 * np.pi * K)
    assert sign == 1
    np.testing.assert_allclose(reg.log_evidence_, -0.5 * targets @ np.linalg.solve(K, targets) - 0.5 * log_det, atol=1e-8)
    np.testing.assert_allclose(reg.predict(X), reg.kernel_(X, twice) @ np.linalg.solve(K, targets), atol=1e-9)


def test_fractional_weights_scale_the_noise():
    """For Gaussian noise the density to the power w is, up to a constant, that of noise variance / w."""
    weight = rng.uniform(0.2, 3, 40)
    reg = GPRegressor("rbf", optimizer=None, normalize_y=False, noise_variance=0.3).fit(X, Y, sample_weight=weight)
    K = reg.kernel_(X) + np.diag(0.3 / weight)
    np.testing.assert_allclose(reg.predict(X), reg.kernel_(X) @ np.linalg.solve(K, Y), atol=1e-9)


def test_engines_without_weights_take_equal_rows_as_they_are():
    class Plain(EP):
        weights = "none"

    twice, targets = np.concatenate([X, X]), np.concatenate([Y, Y + 0.1])
    settings = {"kernel": "rbf", "optimizer": None, "random_state": 0}
    apart, shared = (GPRegressor(inference=e, **settings).fit(twice, targets) for e in (Plain(), EP()))
    assert apart.inputs_.shape == (80, 2)
    np.testing.assert_allclose(apart.log_evidence_, shared.log_evidence_, atol=1e-7)
    with pytest.raises(ValueError, match=r"Plain does not support weights.*exact"):
        GPRegressor(inference=Plain(), **settings).fit(X, Y, sample_weight=np.ones(40))


def test_bad_weights():
    with pytest.raises(ValueError, match="not negative"):
        GPRegressor().fit(X, Y, sample_weight=-np.ones(40))
