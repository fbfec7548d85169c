"""Extreme but valid arguments: finite results, in range, and (by pytest's settings) no RuntimeWarning."""

import numpy as np
import pytest

from gpclass.likelihoods import Gaussian, Heaviside, Logit, Probit

ALL = [Logit(), Logit(3.0, True), Probit(), Probit(-2.0, True), Heaviside(0.001), Heaviside(0.0), Gaussian(), Gaussian(1e-6)]
EDGE_MEANS = [-1e8, -1e6, -1e3, -40.0, -1.0, -1e-8, 0.0, 1e-8, 1.0, 40.0, 1e3, 1e6, 1e8]
EDGE_VARS = [0.0, 1e-300, 1e-12, 1e-6, 1.0, 1e2, 1e4, 1e8, 1e12]
MEAN, VAR = (a.ravel() for a in np.meshgrid(EDGE_MEANS, EDGE_VARS))
UNDER_GAUSSIAN = ["tilted_moments", "expected_log_prob", "log_predictive", "tilted_theta", "expected_log_prob_theta"]
AT_POINT = ["log_prob", "log_prob_third", "log_prob_theta", "bound"]


def answers(likelihood, question, *args):
    result = getattr(likelihood, question)(*args)
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("y", [1.0, -1.0])
@pytest.mark.parametrize("likelihood", ALL, ids=repr)
def test_answers_are_finite(likelihood, y):
    for question in UNDER_GAUSSIAN:
        if hasattr(likelihood, question):
            for part in answers(likelihood, question, np.full_like(MEAN, y), MEAN, VAR):
                assert np.isfinite(part).all(), question
    f = np.array(EDGE_MEANS)
    for question in AT_POINT:
        if hasattr(likelihood, question):
            for part in answers(likelihood, question, np.full_like(f, y), f):
                assert np.isfinite(part).all(), question
    if hasattr(likelihood, "bound_point"):
        touch = likelihood.bound_point(y, MEAN, VAR)
        assert np.isfinite(touch).all()
        for part in (*answers(likelihood, "bound", y, touch), likelihood.bound_curvature(y, MEAN, VAR)):
            assert np.isfinite(part).all()


@pytest.mark.parametrize("likelihood", ALL, ids=repr)
def test_probabilities_stay_in_range(likelihood):
    p = likelihood.predictive(MEAN, VAR)
    assert np.all((p >= 0) & (p <= 1))
    assert np.all(p[1e3 * (1 + np.sqrt(VAR)) < MEAN] > 0.99)
    if hasattr(likelihood, "predictive_std"):
        std = likelihood.predictive_std(MEAN, VAR)
        assert np.all((std >= 0) & (std <= 0.5 + 1e-12))


@pytest.mark.parametrize("y", [1.0, -1.0])
@pytest.mark.parametrize("likelihood", [Logit(), Probit(), Heaviside(0.0), Gaussian()], ids=repr)
def test_log_concave_likelihoods_shrink_variances(likelihood, y):
    """0 ≤ tilted variance ≤ variance, up to rounding: curvatures between -1/var and 0."""
    _, _, d2 = likelihood.tilted_moments(np.full_like(MEAN, y), MEAN, VAR)
    assert np.all(d2 <= 1e-13)
    assert np.all(1 + VAR * d2 >= -1e-11)


@pytest.mark.parametrize("likelihood", [Logit(), Probit(), Gaussian()], ids=repr)
def test_jensen(likelihood):
    """E[log p] ≤ log E[p]."""
    below = likelihood.expected_log_prob(np.ones_like(MEAN), MEAN, VAR)[0]
    above = likelihood.tilted_moments(np.ones_like(MEAN), MEAN, VAR)[0]
    assert np.all(below <= above + 1e-9 * (1 + np.abs(above)))
