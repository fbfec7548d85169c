"""OneAgainstRest equals separate binary problems."""

import numpy as np
from numpy.testing import assert_allclose

from gpclass.likelihoods import Logit, OneAgainstRest
from gpclass.testing.likelihoods import check_parameters

rng = np.random.default_rng(0)


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
