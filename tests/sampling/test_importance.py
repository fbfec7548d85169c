"""log Z and predictions by importance sampling, against the grid."""

import numpy as np
import pytest
from scipy.stats import multivariate_t

from gpclass.inference import EP, KL
from gpclass.likelihoods import Logit, Probit
from gpclass.sampling import importance_sampling
from gpclass.sampling.importance import _log_t
from gpclass.testing.problems import grid_truth

from .problems import SEVERAL, TWO_POINTS, quadrature_truth, two_class_problem

BINARY = [Probit(), Probit(bias=0.5), Logit()]


def agree(estimate, truth, error=0.0, factor=4.0):
    return abs(estimate.log_evidence - truth) < factor * np.hypot(estimate.standard_error, error) + 1e-6


# importance -----------------------------------------------------------------------------------------------------------


def test_student_density():
    x = np.random.default_rng(0).normal(size=(5, 7))
    assert _log_t(x, 4.0) == pytest.approx(multivariate_t(np.zeros(5), np.eye(5), df=4).logpdf(x.T), abs=1e-12)


@pytest.mark.parametrize("likelihood", BINARY, ids=repr)
@pytest.mark.parametrize("covariance", ["posterior", "prior"])
@pytest.mark.parametrize("engine", [None, KL()], ids=repr)
def test_importance_two_points(likelihood, covariance, engine):
    K, y = TWO_POINTS
    log_z, mean, cov = grid_truth(K, y, likelihood)
    start = None if engine is None else engine.fit(K, y, likelihood)
    result = importance_sampling(K, y, likelihood, start, covariance=covariance, random_state=0)
    assert agree(result, log_z)
    assert result.log_evidence < result.upper_bound < result.log_evidence + 5 * result.standard_error
    error = np.sqrt(np.diagonal(cov) / result.effective_samples)
    assert np.abs((result.mean - mean) / error).max() < 4
    assert result.var == pytest.approx(np.diagonal(cov), rel=0.1)
    assert result.pareto_k < 0.7


@pytest.mark.parametrize("case", SEVERAL)
@pytest.mark.parametrize("covariance", ["posterior", "prior"])
def test_importance_several_classes(case, covariance):
    likelihood, K, y = SEVERAL[case]
    log_z, mean, _ = quadrature_truth(K, y, likelihood)
    result = importance_sampling(K, y, likelihood, covariance=covariance, n_samples=8000, random_state=0)
    assert agree(result, log_z)
    assert result.mean == pytest.approx(mean, abs=0.1)  # 8000 samples of variance 2


def test_importance_from_any_centre():
    likelihood, K, y = SEVERAL["softmax, two points"]
    truth = quadrature_truth(K, y, likelihood)[0]
    assert agree(importance_sampling(K, y, likelihood, np.full((2, 2), 0.3), random_state=0), truth)
    with pytest.raises(TypeError, match="array of means"):
        importance_sampling(K, y, likelihood, "ep")


def test_importance_predicts():
    K, y = two_class_problem(n=8)
    result = importance_sampling(K, y, Probit(), random_state=0)
    ep = EP().fit(K, y, Probit())
    Ks, kd = K[:, :4] * 0.7, np.diagonal(K)[:4]
    p, q = (np.exp(r.log_class_probabilities(Ks, kd)) for r in (result, ep))
    assert p == pytest.approx(q, abs=0.02)
    assert p.sum(1) == pytest.approx(np.ones(4), abs=1e-9)


def test_importance_warns_of_heavy_tails():
    K, y = two_class_problem(n=60, variance=100.0)
    with pytest.warns(UserWarning, match="Pareto"):
        result = importance_sampling(K, y, Probit(), covariance="prior", n_samples=3000, random_state=0)
    assert result.pareto_k > 0.7


def test_importance_errors():
    K, y = two_class_problem()
    for bad in ({"covariance": "both"}, {"df": 0}, {"n_samples": 1}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            importance_sampling(K, y, Probit(), **bad)
