"""The series for the largest of nearly independent Gaussian values, against exact cases and averages over many points."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gpclass.numerics import nearly_independent as module
from gpclass.numerics import orthants, winner_probabilities
from gpclass.numerics.gumbel import GUMBEL
from gpclass.numerics.nearly_independent import NO_NOISE, nearly_independent
from gpclass.numerics.winner import log_largest


def latent_values(C, rows, correlation, seed=0):
    """Means and covariances as those of a classifier: different variances, a common part, small correlations besides."""
    rng = np.random.default_rng([C, rows, seed])
    sd = np.exp(rng.uniform(0.0, 1.0, (rows, C)))
    A = rng.normal(size=(rows, C, 4 * C))
    A /= np.linalg.norm(A, axis=2, keepdims=True)
    R = correlation * (A @ np.swapaxes(A, 1, 2))
    np.einsum("icc->ic", R)[...] = 1.0
    common = 0.2 * rng.uniform(size=(rows, C))  # V_cd + a_c + a_d has the same differences as V
    return 2 * rng.normal(size=(rows, C)), sd[:, :, None] * R * sd[:, None] + common[:, :, None] + common[:, None]


def by_many_points(mean, cov):
    """Contrasts drawn in turn at 8192 points, without leaving out any; the error is about 5e-5."""
    mu, L, drawn = orthants.drawing_order(*orthants.class_contrasts(mean, cov))
    first, orthants.FIRST_POINTS = orthants.FIRST_POINTS, 1 << 13
    try:
        p = orthants.pairs_to_rows(orthants._by_drawing(mu, L, drawn, len(mu)), mean.shape[1])
    finally:
        orthants.FIRST_POINTS = first
    return p / p.sum(1, keepdims=True)


def in_order(mean, cov):
    """The largest mean first."""
    order, row = np.argsort(-mean, axis=1), np.arange(len(mean))[:, None]
    return mean[row, order], cov[row[..., None], order[:, :, None], order[:, None]]


@pytest.mark.parametrize("C", [3, 4, 10])
def test_independent_values_need_no_series(C):
    rng = np.random.default_rng(C)
    mean, var, common = -np.sort(rng.normal(size=(20, C))), np.exp(rng.uniform(-1, 1, (20, C))), rng.normal(size=(20, C))
    cov = np.eye(C) * var[:, :, None]
    p, doubt = nearly_independent(mean, cov + common[:, :, None] + common[:, None])  # the same differences
    assert not doubt.any()
    assert_allclose(p, np.exp(log_largest(mean, var)), rtol=0, atol=5e-5)  # of LARGEST_STEP


@pytest.mark.parametrize("C", [4, 6, 10])
def test_the_series_agrees_with_averages_over_many_points(C):
    mean, cov = in_order(*latent_values(C, 25, 0.3))
    p, doubt = nearly_independent(mean, cov)
    truth, used = by_many_points(mean, cov), ~doubt
    assert used.mean() > 0.8
    # half of the last term, as stated, and the error of the averages
    assert np.abs(p - truth)[used].max() <= 0.5 * module.LAST_TERM + 1e-4
    assert_allclose(p[used & (p > 1e-5)], truth[used & (p > 1e-5)], rtol=0.04)
    assert_allclose(p[used.all(1)].sum(1), 1.0, atol=2e-4)


@pytest.mark.parametrize("noise", [NO_NOISE, GUMBEL])
def test_derivatives_in_covariances_are_mixed_ones_in_means(noise, monkeypatch):
    """Plackett's identity, with differences of probabilities of independent values: both terms of the series."""
    monkeypatch.setattr(module, "LARGEST_STEP", 0.4)  # differences multiply the error of the nodes
    mean, var = np.array([[0.5, 0.0, -0.2, -1.0]]), np.array([[1.3, 2.0, 0.9, 1.6]])
    E, (i, j), h = np.zeros((1, 4, 4)), np.triu_indices(4, 1), 0.1
    E[0, i, j] = E[0, j, i] = 0.2 * np.random.default_rng(1).normal(size=6)
    single = {-2: 1 / 12, -1: -8 / 12, 1: 8 / 12, 2: -1 / 12}  # a derivative, to the fourth order in h

    def derivative(stencil):
        """{shifts: weight} of Σ E_cd ∂²/∂m_c∂m_d of {shifts: weight}."""
        out = {}
        for at, weight in stencil.items():
            for c, d in zip(i, j, strict=True):
                for (left, x), (right, y) in product(single.items(), single.items()):
                    to = list(at)
                    to[c], to[d] = to[c] + left, to[d] + right
                    out[tuple(to)] = out.get(tuple(to), 0.0) + weight * x * y * E[0, c, d] / h**2
        return out

    total = {(0, 0, 0, 0): 1.0}
    first = derivative(total)
    for term, factor in ((first, 1.0), (derivative(first), 0.5)):
        for at, weight in term.items():
            total[at] = total.get(at, 0.0) + factor * weight
    shifted = mean + h * np.array(list(total))
    alone = module._series(shifted, np.repeat(var, len(shifted), 0), np.repeat(0 * E, len(shifted), 0), noise)[0]
    assert_allclose(module._series(mean, var, E, noise)[0][0], list(total.values()) @ alone, atol=2e-5)  # of h⁴


def test_a_common_factor_where_covariances_are_larger():
    """Values with a common term b t: the plain series is inaccurate, but given t they are independent."""
    rng = np.random.default_rng(2)
    b, var = rng.uniform(0.8, 1.2, (10, 6)) * [1, 1, 1, 0, 0, 0], rng.uniform(1.5, 2.5, (10, 6))
    mean, cov = in_order(0.5 * rng.normal(size=(10, 6)), b[:, :, None] * b[:, None] + var[:, :, None] * np.eye(6))
    weight = module._weights(mean, cov, NO_NOISE)
    plain = module._series(mean, *module._remaining(cov, module._common_part(cov, weight)), NO_NOISE)
    p, doubt = nearly_independent(mean, cov)
    assert module._doubt(*plain, NO_NOISE.smallest).all(1).mean() > 0.5
    assert not doubt.any()
    assert_allclose(p, by_many_points(mean, cov), atol=2e-4)


@pytest.mark.parametrize("noise", [NO_NOISE, GUMBEL])
def test_rows_that_the_rule_cannot_serve_are_in_doubt(noise):
    narrow = np.diag([1e-9, 1e6, 1e6, 1e6, 1e6])  # one value is much narrower than the range of the nodes
    A = 20 * np.random.default_rng(0).normal(size=(5, 2))
    cov = np.stack([narrow, A @ A.T + 0.01 * np.eye(5), np.zeros((5, 5))])
    doubt = nearly_independent(np.zeros((3, 5)), cov, noise)[1]
    assert doubt[:2].all()
    assert doubt[2].all() == (noise is NO_NOISE)  # noise alone is a narrow but simple case


def test_the_series_and_points_serve_rows_side_by_side():
    """Rows of nearly independent and of strongly correlated values, and rare classes: the same alone and together."""
    rng = np.random.default_rng(3)
    C = 6
    mean, cov = latent_values(C, 40, 0.2)
    A = rng.normal(size=(20, C, C))
    cov[::2] += 3 * A @ np.swapaxes(A, 1, 2)
    mean[5:9, 2] -= 30.0
    assert 0.1 < np.mean(nearly_independent(*in_order(mean, cov))[1].all(1)) < 0.9
    p = winner_probabilities(mean, cov)
    assert_array_equal(p, np.concatenate([winner_probabilities(mean[i : i + 1], cov[i : i + 1]) for i in range(40)]))
    assert_allclose(p, by_many_points(mean, cov), rtol=0, atol=1e-3)


def test_contrasts_that_are_certain_are_left_out_of_the_average():
    """The same probabilities within the loss that `CERTAIN_SDS` states, with fewer contrasts drawn."""
    mean, cov = latent_values(8, 30, 0.5)
    mean[:, 4:] -= 25.0
    mu, S = orthants.class_contrasts(mean, cov)
    drawn = orthants.drawing_order(mu, S, orthants.CERTAIN_SDS)[2]
    assert drawn.min() >= 1
    assert np.mean(drawn < 7) > 0.5
    p = orthants.pairs_to_rows(orthants._by_points(mu, S), 8)
    assert_allclose(p / p.sum(1, keepdims=True), by_many_points(mean, cov), rtol=0, atol=1e-3)
