"""ScalableEP(power=…): power EP on inducing variables, against its closed form in regression, and its limit SVGP."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from gpclass import GPClassifier
from gpclass.inference import EP
from gpclass.kernels import RBF
from gpclass.likelihoods import Gaussian, MultinomialProbit, Probit
from gpclass.persist import load, save
from gpclass.sparse import SVGP, ScalableEP

rng = np.random.default_rng(0)
X, KERNEL = rng.normal(size=(30, 2)), RBF(1.0, 3.0)
Z, Y = X[:7] + 0.1, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=30)
PRIOR = KERNEL(Z), KERNEL(X, Z), KERNEL.diag(X)
SIGNS = np.sign(Y)


@pytest.mark.parametrize("power", [1.0, 0.6, 0.05])
def test_regression_has_a_closed_form(power):
    """Bui, Yan & Turner 2017: log N(y | 0, Q + α D + σ² I) - (1 - α)/2α Σ log(1 + α D/σ²), D = diag(K - Q)."""
    K_uu, K_fu, k_diag = PRIOR
    noise, Q = 0.2, K_fu @ np.linalg.solve(K_uu, K_fu.T)
    D = k_diag - np.diagonal(Q)
    total = Q + np.diag(power * D + noise)
    exact = multivariate_normal.logpdf(Y, cov=total) - (1 - power) / (2 * power) * np.sum(np.log1p(power * D / noise))
    fit = ScalableEP(power=power, jitter=1e-12, tol=1e-10).fit(*PRIOR, Y, Gaussian(noise))
    assert_allclose(fit.log_evidence, exact, atol=1e-6)
    new = rng.normal(size=(4, 2))
    cross = KERNEL(Z, new)
    mean = cross.T @ np.linalg.solve(K_uu, K_fu.T) @ np.linalg.solve(total, Y)
    assert_allclose(fit.predict(cross, KERNEL.diag(new))[0], mean, atol=1e-6)


def test_small_powers_tend_to_svgp():
    svgp = SVGP(tol=1e-9).fit(*PRIOR, SIGNS, Probit())
    gaps = [abs(ScalableEP(power=p).fit(*PRIOR, SIGNS, Probit()).log_evidence - svgp.log_evidence) for p in (1e-2, 1e-3)]
    assert gaps[1] < 0.03  # of the order of the power times the number of rows
    assert_allclose(gaps[0] / gaps[1], 10, rtol=0.2)  # first order in the power
    assert ScalableEP().fit(*PRIOR, SIGNS, Probit()).log_evidence > svgp.log_evidence + 1


def test_with_all_rows_as_inducing_inputs_it_is_power_ep():
    K = KERNEL(X) + 0.1 * np.eye(30)
    dense = EP(power=0.4).fit(K, SIGNS, Probit())
    fit = ScalableEP(power=0.4, jitter=1e-12, tol=1e-9).fit(K, K, np.diagonal(K), SIGNS, Probit())
    assert_allclose(fit.log_evidence, dense.log_evidence, atol=1e-5)
    assert_allclose(fit.loo(), dense.loo(), atol=1e-4)  # the whole site of a row is left out


def test_derivatives_of_pairwise_factors():
    labels, likelihood = np.digitize(Y, [-0.4, 0.4]), MultinomialProbit(3)
    engine, h = ScalableEP(power=0.5, tol=1e-10), 1e-3
    fit = engine.fit(*PRIOR, labels, likelihood)

    def evidence(t):
        return engine.fit(*(np.exp(t) * part for part in PRIOR), labels, likelihood, start=fit).log_evidence

    slope = (8 * (evidence(h) - evidence(-h)) - (evidence(2 * h) - evidence(-2 * h))) / (12 * h)
    G = fit.evidence_gradient()
    along = sum(np.sum(g * part) for g, part in zip((G.uu, G.fu, G.diag), PRIOR, strict=True))
    assert_allclose(along, slope, rtol=1e-4)


@pytest.mark.parametrize("search", ["settled", "minibatches"])
def test_a_classifier_learns_with_it(search, tmp_path):
    engine = ScalableEP(power=0.5, n_inducing=8, search=search, epochs=60, batch_size=15)
    clf = GPClassifier(inference=engine, random_state=0).fit(X, SIGNS)
    assert clf.score(X, SIGNS) > 0.85
    save(clf, tmp_path / "model.gpclass")
    assert_allclose(load(tmp_path / "model.gpclass").predict_proba(X), clf.predict_proba(X), atol=1e-9)


def test_powers_out_of_range_are_named():
    with pytest.raises(ValueError, match=r"power must be in \(0, 1\]"):
        ScalableEP(power=2.0)
