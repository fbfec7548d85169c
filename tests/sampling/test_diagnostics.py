"""Diagnostics against chains whose properties are known, and against scipy."""

import numpy as np
import pytest
from scipy import stats

from gpclass.sampling.diagnostics import effective_size, pareto_k, r_hat, smooth_weights

rng = np.random.default_rng(0)


def autoregressive(a, shape):
    noise = rng.normal(size=shape)
    x = np.empty(shape)
    x[:, 0] = noise[:, 0] / np.sqrt(1 - a**2)
    for t in range(1, shape[1]):
        x[:, t] = a * x[:, t - 1] + noise[:, t]
    return x


@pytest.mark.parametrize("a", [0.0, 0.5, 0.9, -0.3])
def test_effective_size_of_autoregressions(a):
    x = autoregressive(a, (4, 4000, 8))
    want = 16000 * (1 - a) / (1 + a)
    assert effective_size(x).mean() == pytest.approx(want, rel=0.15)  # single estimates vary by a tenth
    assert r_hat(x).max() < 1.03


@pytest.mark.parametrize("break_it", ["shifted", "wider", "drifting", "stuck"])
def test_broken_chains_are_caught(break_it):
    x = rng.normal(size=(4, 1000, 3))
    if break_it == "shifted":
        x[0] += 1
    elif break_it == "wider":
        x[0] *= 4  # only the folded R-hat detects this
    elif break_it == "drifting":
        x += np.linspace(0, 3, 1000)[:, None]
    else:
        x[0] = 0.3
    assert r_hat(x).min() > 1.05


def test_good_chains_are_let_through():
    assert r_hat(rng.standard_cauchy(size=(4, 1000, 5))).max() < 1.02  # ranks are robust to heavy tails


def test_too_few_draws_and_constants_are_nan():
    assert np.all(np.isnan(r_hat(np.zeros((4, 7, 2)))))
    assert np.all(np.isnan(effective_size(np.zeros((4, 7, 2)))))
    assert np.all(np.isnan(r_hat(np.ones((4, 100, 2)))))
    assert np.all(np.isnan(effective_size(np.ones((4, 100, 2)))))


@pytest.mark.parametrize("k", [0.1, 0.5, 0.9, 1.5])
def test_pareto_shape(k):
    x = stats.genpareto.rvs(k, size=50_000, random_state=rng)
    # 670 tail values: errors of (1 + k)/√670, and a bias of 10/680 towards ½
    assert pareto_k(np.log(x)) == pytest.approx(k, abs=4 * (1 + k) / np.sqrt(670) + 0.02)


def test_pareto_shape_of_hopeless_weights_is_high():
    assert pareto_k(200 * rng.normal(size=5000)) > 1
    assert pareto_k(np.zeros(5000)) < 0
    assert np.isnan(pareto_k(np.zeros(10)))


def test_smoothing_keeps_good_weights_and_tames_bad_ones():
    good = 0.1 * rng.normal(size=2000)
    smooth, k = smooth_weights(good)
    assert k < 0.5
    assert np.exp(smooth).sum() == pytest.approx(1)
    assert smooth == pytest.approx(good - np.logaddexp.reduce(good), abs=0.05)
    bad = stats.pareto(0.8).rvs(2000, random_state=rng)
    assert smooth_weights(np.log(bad))[1] > 0.7
