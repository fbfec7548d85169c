"""The evidence of an active set: derivatives with fixed sites."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.gaussian import MatrixColumns, MatrixGradient
from gpclass.inference import EP
from gpclass.likelihoods import Gaussian, Probit
from gpclass.sparse import IVM, log_evidence
from gpclass.testing.problems import ordinary_problem

n = 30


@pytest.mark.parametrize("likelihood", [Probit(bias=0.2, learn_bias=True), Gaussian(0.4)], ids=repr)
@pytest.mark.parametrize("rows", [None, np.arange(0, n, 2)], ids=["all rows", "some rows"])
def test_gradient_with_sites_held(likelihood, rows):
    K, y = ordinary_problem(likelihood, n)
    fit = IVM(active=12).fit(K, y, likelihood)

    def value(K, likelihood=likelihood):
        return log_evidence([MatrixColumns(K)], fit.at, y, likelihood, rows).value

    sink = MatrixGradient(n)
    held = log_evidence([MatrixColumns(K)], fit.at, y, likelihood, rows, [sink])
    assert held.value == pytest.approx(value(K), abs=1e-12)
    if rows is None:
        assert held.value == pytest.approx(fit.log_evidence, abs=1e-9)
    assert_allclose(sink.total, sink.total.T, atol=1e-14)
    rng = np.random.default_rng(2)
    for _ in range(4):
        direction = rng.normal(size=(n, 5))
        direction = direction @ direction.T
        h = 1e-6  # error h² times third derivatives in eigenvalues up to 30, eps/h times a value of order 100
        numeric = (value(K + h * direction) - value(K - h * direction)) / (2 * h)
        assert np.sum(sink.total * direction) == pytest.approx(numeric, rel=1e-6, abs=1e-6)
    h = 1e-5
    up, down = (value(K, likelihood.with_theta(likelihood.theta + s * h)) for s in (1, -1))
    assert held.in_theta[0] == pytest.approx((up - down) / (2 * h), rel=1e-6)


def test_gradient_is_ep_s_where_ep_has_settled():
    K, y = ordinary_problem(Probit(), n)
    fit, ep = IVM(active=n, sweeps=200, tol=1e-10).fit(K, y, Probit()), EP(tol=1e-10).fit(K, y, Probit())
    sink = MatrixGradient(n)
    held = log_evidence([MatrixColumns(K)], fit.at, y, Probit(), sinks=[sink])
    assert_allclose(sink.total, ep.evidence_gradient(), atol=1e-8)  # 100 × tol
    assert_allclose(held.in_sites.tau, 0, atol=1e-7)  # stationary, to the same tolerance
    assert_allclose(held.in_sites.nu, 0, atol=1e-7)
