"""Softmax: values, and its integral over Gaussians."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_softmax

from gpclass.likelihoods import Softmax

rng = np.random.default_rng(0)
F = rng.normal(size=(6, 4)) * np.array([0.1, 1, 3, 8, 20, 1])[:, None]
Y = np.array([0, 1, 2, 3, 0, 1])


def test_softmax_value():
    assert Softmax(4).log_prob(Y, F)[0] == pytest.approx(log_softmax(F, axis=1)[np.arange(6), Y], abs=1e-12)


def test_softmax_integral_against_gauss_hermite():
    """The quasi-random rule has errors of at most 1e-3 for standard deviations up to 3, compared with a product rule."""
    x, w = np.polynomial.hermite_e.hermegauss(40)
    nodes = np.stack([a.ravel() for a in np.meshgrid(x, x, x, indexing="ij")], axis=1)
    weights = np.einsum("i,j,k->ijk", w, w, w).ravel() / w.sum() ** 3
    rng = np.random.default_rng(0)
    for scale in (0.3, 1.0, 3.0):
        root = scale * np.tril(rng.normal(size=(3, 3))) / np.sqrt(3)
        mean = rng.normal(size=3)
        want = weights @ Softmax(3).class_probabilities(mean + nodes @ root.T)
        got = Softmax(3).predictive(mean[None], (root @ root.T)[None])[0]
        assert_allclose(got, want, atol=1e-3)


def test_expected_log_prob_has_the_derivatives_of_its_sum():
    """Slopes in the means; the curvature is twice the slope in the variances. Optimisers need derivatives of the sum."""
    likelihood, mean, var, h = Softmax(4, bias=(0.0, 0.5, -0.3, 0.2)), F[:4] / 4, np.exp(rng.normal(size=(4, 4))), 1e-5
    _, slope, curvature = likelihood.expected_log_prob(Y[:4], mean, var)
    for c, e in enumerate(h * np.eye(4)):
        in_mean = [likelihood.expected_log_prob(Y[:4], mean + sign * e, var)[0] for sign in (1, -1)]
        in_var = [likelihood.expected_log_prob(Y[:4], mean, var + sign * e)[0] for sign in (1, -1)]
        assert_allclose(slope[:, c], (in_mean[0] - in_mean[1]) / (2 * h), atol=1e-8)  # h², and eps/h
        assert_allclose(curvature[:, c], (in_var[0] - in_var[1]) / h, atol=1e-8)
