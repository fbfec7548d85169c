"""Expected shares of classes against scipy's integrals, plain averages over many points, and symmetries."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import ndtr, ndtri, softmax
from scipy.stats import multivariate_normal, norm, qmc

from gpclass.numerics import covariance_roots, expected_softmax, winner_probabilities
from gpclass.numerics.orthants import bivariate_orthant

BOTH = [expected_softmax, winner_probabilities]


def problems(C, scale, rows, seed=0):
    """Correlated latent values; half of the rows have means of the same size as the standard deviations."""
    rng = np.random.default_rng([C, rows, seed])
    A = rng.normal(size=(rows, C, C)) * scale / np.sqrt(C)
    mean = scale * rng.normal(size=(rows, C)) * (np.arange(rows) % 2)[:, None]
    return mean, A @ np.swapaxes(A, 1, 2)


def plain_softmax(mean, cov, count):
    """E[softmax] by an average over quasi-random points, each class where it has its mass:

    E[softmax_c(f)] = exp(m_c + V_cc/2) E'[1 / Σ exp(f_j)], f ~ N(m + V e_c, V) under E'; it has no rare event, and for
    common ones the plain average is better. Halves of the points differ by 2e-4 or 1 %, where they are used below.
    """
    z = ndtri(qmc.Sobol(len(mean), rng=np.random.default_rng(5)).random(count))
    f = mean + z @ np.linalg.cholesky(cov + 1e-10 * np.trace(cov) * np.eye(len(mean))).T
    plain = softmax(f, axis=1).mean(0)
    for c in np.flatnonzero(plain < 0.02):
        shifted = f + cov[c] - mean[c] - cov[c, c]  # relative to f_c's own tilted mean
        top = shifted.max(1)
        total = top + np.log(np.exp(shifted - top[:, None]).sum(1))
        plain[c] = np.exp(-0.5 * cov[c, c]) * np.exp(-total).mean()
    return plain


def orthant(mean, cov, c):
    """P(f_c is the largest) by scipy's integral over the contrasts."""
    B = np.delete(np.eye(len(mean))[c] - np.eye(len(mean)), c, axis=0)
    exactly = {"maxpts": 100_000, "abseps": 5e-5, "releps": 1e-5, "seed": np.random.default_rng(0)}
    return multivariate_normal(-B @ mean, B @ cov @ B.T, allow_singular=True, **exactly).cdf(np.zeros(len(mean) - 1))


@pytest.mark.parametrize("C", [2, 3, 4, 6, 10])
@pytest.mark.parametrize("scale", [0.3, 1.5, 5.0])
def test_the_largest_by_orthant_probabilities(C, scale):
    mean, cov = problems(C, scale, 4 if C < 10 else 2)
    truth = [[orthant(m, V, c) for c in range(C)] for m, V in zip(mean, cov, strict=True)]
    # up to three classes closed forms, with only scipy's error; otherwise the stated accuracy
    assert_allclose(winner_probabilities(mean, cov), truth, rtol=0, atol=1e-4 if C <= 3 else 1e-3)


@pytest.mark.parametrize("C", [2, 3, 4, 6, 10])
@pytest.mark.parametrize("scale", [0.3, 1.5, 4.0])
def test_softmax_by_plain_averages(C, scale):
    mean, cov = problems(C, scale, 6)
    truth = np.array([plain_softmax(m, V, 1 << (15 if C < 10 else 18)) for m, V in zip(mean, cov, strict=True)])
    p = expected_softmax(mean, cov)
    assert_allclose(p, truth, rtol=0, atol=1.2e-3)  # the stated 1e-3, and the truth's error
    # 5 %, and the truth's error; under a wide Gaussian the truth is too inaccurate for small probabilities
    seen = truth > (1e-5 if scale < 4 else 1e-2)
    assert_allclose(p[seen], truth[seen], rtol=0.06, atol=0)


def independent_softmax(mean, var):
    """(C,) E softmax_c = ∫ G_c'(v) ∏_{j≠c} G_j(v) dv with G_j(v) = E exp(-exp(f_j - v)); exact to 1e-6."""
    sd = np.sqrt(var)
    e = np.linspace(-7, 7, 101 + int(16 * sd.max()))
    v = np.linspace(np.max(mean - 7 * sd) - 4, np.max(mean + 7 * sd) + 17, 1201)
    rate = np.exp(np.minimum(mean[:, None, None] + sd[:, None, None] * e - v[:, None], 30.0))
    G, slope = (x @ (norm.pdf(e) / norm.pdf(e).sum()) for x in (np.exp(-rate), rate * np.exp(-rate)))
    others = [np.prod(np.delete(G, c, 0), axis=0) for c in range(len(mean))]
    p = (slope * others).sum(1) * (v[1] - v[0])
    assert p.sum() == pytest.approx(1, abs=2e-6)  # the truth's own check
    return p


@pytest.mark.parametrize("var", [16.0, 1.0, 0.04])
@pytest.mark.parametrize("C", [3, 5, 10])
def test_softmax_of_independent_classes_by_one_integral(C, var):
    mean = np.array([5 * np.sqrt(1 + var)] + [0.0] * (C - 1))
    truth = independent_softmax(mean, np.full(C, var))
    p = expected_softmax(mean[None], var * np.eye(C)[None])[0]
    assert_allclose(p, truth, rtol=0.005, atol=1e-4)  # of the mixtures for Gumbel noise
    assert_allclose(p[1:], p[1], rtol=1e-13)  # exchangeable


def test_two_orthants_and_their_limits():
    rng = np.random.default_rng(1)
    mu, sd = rng.normal(size=(2, 40)), np.exp(rng.normal(size=(2, 40)))
    rho = np.r_[rng.uniform(-1, 1, 36), 1.0, -1.0, 0.999, 0.0]
    mu[:, 5], mu[0, 6], mu[1, 7] = 0.0, 0.0, 0.0
    S = np.array([[sd[0] ** 2, rho * sd[0] * sd[1]], [rho * sd[0] * sd[1], sd[1] ** 2]])
    h, k = mu / sd

    def truth(h, k, rho):
        if abs(rho) == 1:
            return ndtr(min(h, k)) if rho > 0 else max(ndtr(h) - ndtr(-k), 0.0)
        edge = np.clip(-k / (rho or 1.0), -h, 9.0)
        given = lambda x: norm.pdf(x) * ndtr((k + rho * x) / np.sqrt(1 - rho**2))  # noqa: E731
        return quad(given, -h, 9.0, points=[edge], limit=200)[0]

    assert_allclose(bivariate_orthant(mu, S), [truth(*one) for one in zip(h, k, rho, strict=True)], atol=1e-7)  # of quad


def test_small_probabilities_keep_their_digits():
    """Class 0 is far behind: its probability is that of exceeding the leading class, whatever the other classes are."""
    gap = np.array([5.0, 10.0, 20.0])
    for C in (3, 4, 7):
        mean = np.full((3, C), -200.0)
        mean[:, 0], mean[:, 1] = 0.0, gap
        cov = np.tile(np.eye(C), (3, 1, 1))
        assert_allclose(winner_probabilities(mean, cov)[:, 0], ndtr(-gap / np.sqrt(2)), rtol=0.02)
        # softmax there is exp(-gap + var/2), var = 2 of the contrast
        assert_allclose(expected_softmax(mean, cov)[2:, 0], np.exp(-gap[2:] + 1.0), rtol=0.02)


@pytest.mark.parametrize("shares", BOTH)
@pytest.mark.parametrize("C", [2, 3, 4, 10])
def test_nothing_depends_on_labels_or_on_other_rows(shares, C):
    mean, cov = problems(C, 3.0, 30)
    mean[:4], cov[:4] = 0.0, 4 * np.eye(C)
    p = shares(mean, cov)
    assert_array_equal(p, np.concatenate([shares(mean[i : i + 1], cov[i : i + 1]) for i in range(30)]))
    assert_array_equal(p, np.concatenate([shares(mean[i : i + 7], cov[i : i + 7]) for i in range(0, 30, 7)]))
    order = np.random.default_rng(C).permutation(C)
    assert_allclose(shares(mean[:, order], cov[:, order][:, :, order]), p[:, order], rtol=0, atol=1e-12)
    assert_allclose(p[:4], 1 / C, atol=1e-15)
    # the common part of all classes does not matter, except for the rounding of contrasts
    assert_allclose(shares(mean + 7.0, cov + 3.0), p, rtol=0, atol=2e-4)


@pytest.mark.parametrize("shares", BOTH)
def test_extreme_and_singular_covariances(shares):
    C = 4
    mean = np.array([[1e8, 0, 0, 0], [0, 0, 0, 0], [3, 1, 0, -2.0], [0, 0, 0, 0], [1, 0, 0, 0]])
    one = np.ones((C, C))
    cov = np.stack([np.zeros((C, C)), 1e12 * np.eye(C), 1e-14 * np.eye(C), 5 * one, np.diag([0, 1e10, 1e-10, 1.0])])
    p = shares(mean, cov)
    assert_allclose(p[0], [1, 0, 0, 0], atol=1e-12)
    assert_allclose(p[1], 0.25, atol=1e-12)
    assert_allclose(p[3], 0.25, atol=1e-12)
    assert_allclose(p[2], softmax(mean[2]) if shares is expected_softmax else [1, 0, 0, 0], atol=1e-4)
    assert p[4, 1] == pytest.approx(0.5, abs=1e-3)  # its sign decides
    z = np.linspace(-8, 8, 2001)[:, None]  # if it is negative, the last class has 0 + z against 1 and 0
    soft = shares is expected_softmax
    left = softmax(np.hstack([0 * z + 1, 0 * z, z]), axis=1) if soft else np.hstack([z < 1, 0 * z, z > 1])
    assert_allclose(p[4, [0, 2, 3]], 0.5 * (norm.pdf(z[:, 0]) @ left) * (z[1] - z[0]), atol=1e-3)


@pytest.mark.parametrize("C", [3, 6])
def test_softmax_of_independent_classes_of_different_widths(C):
    """Some variances are zero or very different; terms that do not change differences of values are added."""
    rng = np.random.default_rng(4)
    mean, var = 3 * rng.normal(size=(12, C)), np.exp(2 * rng.normal(size=(12, C))) * (rng.random((12, C)) < 0.8)
    a = rng.normal(size=(12, C))
    truth = [independent_softmax(m, v) for m, v in zip(mean, var, strict=True)]
    for cov in (var[:, :, None] * np.eye(C), var[:, :, None] * np.eye(C) + a[:, :, None] + a[:, None]):
        assert_allclose(expected_softmax(mean, cov), truth, rtol=0, atol=1e-4)


def test_roots_of_covariances():
    mean, cov = problems(5, 2.0, 6)
    cov[3], cov[1, 2:, :], cov[1, :, 2:] = 3 * np.eye(5), 0.0, 0.0
    R = covariance_roots(mean, cov)
    assert_allclose(R @ np.swapaxes(R, 1, 2), cov, atol=1e-10)
    order, rest = np.random.default_rng(0).permutation(5), slice(2, None)  # classes that differ
    permuted = covariance_roots(mean[:, order], cov[:, order][:, :, order])
    assert_allclose(permuted[rest], R[rest][:, order], atol=1e-12)
    nudged = covariance_roots(mean, cov + 1e-12 * np.ones((5, 5)))
    assert np.abs(nudged - R)[3].max() < 1e-10  # equal eigenvalues are harmless


@pytest.mark.parametrize("n_classes", [3, 4])
@pytest.mark.parametrize(("wide", "narrow"), [(15.0, 0.05), (50.0, 0.1), (100.0, 1.0), (300.0, 3.0)])
def test_softmax_of_contrasts_of_which_some_are_much_wider_than_others(wide, narrow, n_classes):
    """f = (u + v/2, u - v/2, 0, …), u wide and v narrow: a sum over a grid of u, Gauss-Hermite in v, exact to 1e-9."""
    node, weight = np.polynomial.hermite_e.hermegauss(40)
    u = wide * np.linspace(-7, 7, int(14 * wide / 0.1))
    mass = np.exp(-0.5 * (u / wide) ** 2)
    A = np.zeros((n_classes, 2))
    A[:2] = [[1.0, 0.5], [1.0, -0.5]]
    cov = A @ np.diag([wide**2, narrow**2]) @ A.T
    for mean_u, mean_v in [(0.0, 1.0), (-0.5 * wide, 10.0), (0.4 * wide, -30.0), (-2.0 * wide, 0.3 * wide)]:
        mean = A @ [mean_u, mean_v] - 3.0 * (np.arange(n_classes) == 3)
        f = mean[:, None, None] + A[:, :1, None] * u[:, None] + A[:, 1:, None] * narrow * node
        truth = np.einsum("cuv,u,v->c", softmax(f, axis=0), mass / mass.sum(), weight / weight.sum())
        found = expected_softmax(mean[None], cov[None])[0]
        assert_allclose(found, truth, atol=1e-4 if n_classes == 3 else 1e-3)
        seen = truth > 1e-5
        assert_allclose(found[seen], truth[seen], rtol=0.05)


@pytest.mark.parametrize("sd", [5.5, 6.5, 22.0, 26.0])
def test_softmax_of_wide_contrasts_as_the_choice_of_the_largest(sd):
    """Against the integral for independent latent values; on both sides of each reduction of the number of normals."""
    rng = np.random.default_rng(0)
    mean, var = sd * rng.normal(size=(5, 3)) * 1.5, sd**2 * rng.uniform(1.0, 2.0, size=(5, 3))
    found = expected_softmax(mean, var[:, :, None] * np.eye(3))
    truth = np.array([independent_softmax(m, v) for m, v in zip(mean, var, strict=True)])
    assert_allclose(found, truth, atol=1e-4)
    assert_allclose(found[truth > 1e-5], truth[truth > 1e-5], rtol=0.02)


@pytest.mark.parametrize("noise", [0.0, 1e-6, 1e-3])
@pytest.mark.parametrize("C", [4, 7])
def test_the_largest_under_nearly_singular_covariances(C, noise):
    """f = mean + a t + noise: values that jump along one coordinate, so that averages of few points agree by chance.

    Given t the classes are independent, and P(f_c is the largest | t) is one integral; without noise it is a comparison.
    """
    rng = np.random.default_rng(9)
    t = norm.ppf((np.arange(2000) + 0.5) / 2000)
    e = np.linspace(-5.5, 5.5, 45)
    for _ in range(6):
        a, mean = rng.normal(size=C), rng.normal(size=C) * rng.uniform(0, 1.5)
        f = mean + t[:, None] * a
        if noise:
            own = f[:, :, None] + np.sqrt(noise) * e  # (t, c, e)
            below = [ndtr((own - f[:, j, None, None]) / np.sqrt(noise)) for j in range(C)]
            ahead = [np.prod([below[j][:, c] for j in range(C) if j != c], axis=0) for c in range(C)]
            truth = np.mean(ahead, axis=1) @ norm.pdf(e) * (e[1] - e[0])
        else:
            truth = np.bincount(f.argmax(1), minlength=C) / len(t)
        assert truth.sum() == pytest.approx(1, abs=1e-5)  # the truth's own check; off by 1 / 4000 for a jump
        found = winner_probabilities(mean[None], (np.outer(a, a) + noise * np.eye(C))[None])[0]
        assert_allclose(found, truth, rtol=0, atol=1e-3)  # the stated accuracy


def test_classes_that_only_look_alike_are_not_averaged():
    """Classes 0 and 1 have equal means and the same variances of their contrasts, but with different rivals."""
    mean = np.array([[0.0, 0.0, 0.5, -3.0]])
    cov = np.array([[[4, 0, 3, 0], [0, 4, 0, 3], [3, 0, 4, 0], [0, 3, 0, 4.0]]])
    truth = [orthant(mean[0], cov[0], c) for c in range(4)]
    assert abs(truth[0] - truth[1]) > 0.01
    assert_allclose(winner_probabilities(mean, cov)[0], truth, rtol=0, atol=1e-3)
    assert_allclose(expected_softmax(mean, cov)[0], plain_softmax(mean[0], cov[0], 1 << 15), rtol=0, atol=1.2e-3)


@pytest.mark.parametrize("C", [4, 8])
def test_softmax_where_only_triples_of_classes_are_wide(C):
    """All contrasts are wide but one direction is not: still the choice of the largest, as averages over points show."""
    rng = np.random.default_rng(C)
    A = 80 * rng.normal(size=(C, C - 2))
    mean, cov = 40 * rng.normal(size=C), A @ A.T + np.eye(C)
    assert_allclose(expected_softmax(mean[None], cov[None])[0], plain_softmax(mean, cov, 1 << 18), rtol=0, atol=1.2e-3)
