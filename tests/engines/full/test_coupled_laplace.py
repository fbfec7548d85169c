"""Laplace for softmax: importance sampling, the mode under priors of large scale, runs that cannot move."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning

from gpclass.inference import Laplace
from gpclass.kernels import Polynomial
from gpclass.likelihoods import Softmax
from gpclass.sampling import importance_sampling

from .truth import several_classes as problem


def test_softmax_laplace_against_importance_sampling():
    _, K, y = problem(variance=1.0)
    fit = Laplace().fit(K, y, Softmax(3))
    truth = importance_sampling(K, y, Softmax(3), random_state=0)
    assert abs(fit.log_evidence - truth.log_evidence) < 0.3  # Laplace's own error; the sampling error is 0.01
    # at the mode the gradient of the log posterior vanishes
    slope = Softmax(3).log_prob_slope(y, fit.mean)[1]
    assert_allclose(slope, fit.alpha, atol=1e-7)


def wine(order):
    X, y = load_wine(return_X_y=True)
    return Polynomial(2)(X)[np.ix_(order, order)], y[order]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_laplace_ends_at_the_mode_in_raw_units(seed):
    """K has entries of 1e13: the gradient is zero for any order of the rows, and a warning states the rounding error."""
    order = np.random.default_rng(seed).permutation(178)
    K, y = wine(order)
    with pytest.warns(ConvergenceWarning, match="scale the kernel's variance down"):
        fit = Laplace().fit(K, y, Softmax(3))
    f = (K.astype(np.longdouble) @ fit.alpha.astype(np.longdouble)).astype(float)
    missing = Softmax(3).log_prob_slope(y, f)[1] - fit.alpha
    # to 1e-8 of its value at zero, where slopes are of order one
    assert np.max(np.abs(missing)) < 1e-8
    assert np.max(np.abs(missing)) < 1e-5 * np.max(np.abs(fit.alpha))
    assert np.mean(np.argmax(f, axis=1) == y) == 1.0  # quadratic functions separate all wines
    twin = np.argsort(order)
    with pytest.warns(ConvergenceWarning):
        plain = Laplace().fit(*wine(np.arange(178)), Softmax(3))
    moves = (fit.mean[twin] - plain.mean) / np.sqrt(plain.var)
    assert np.max(np.abs(moves)) < Laplace().tol  # in posterior standard deviations, which are 5e4 and more
    assert_allclose(fit.log_evidence, plain.log_evidence, atol=1e-2)  # the rounding error that the warning states


def test_laplace_that_cannot_move_says_so(monkeypatch):
    """For example if a line search finds no step that increases the objective."""
    K, y = wine(np.arange(178))
    monkeypatch.setattr("gpclass.engines.full.coupled_laplace.uphill", lambda look, along, negligible: (0.0, None))
    with pytest.warns(ConvergenceWarning, match="scale the kernel's variance down"):
        fit = Laplace().fit(1e-12 * K, y, Softmax(3))
    assert not fit.converged
    assert fit.status.change > 1
    assert fit.n_iter <= 2  # and stops early
