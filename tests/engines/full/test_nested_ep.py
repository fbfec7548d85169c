"""NestedEP: near the exact evidence, and the sampler's marginals and predictions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.inference import NestedEP
from gpclass.kernels import RBF
from gpclass.likelihoods import MultinomialProbit
from gpclass.sampling import HMC, orthant_evidence

from .truth import several_classes as problem


@pytest.mark.parametrize("C", [3, 4])
def test_nested_ep_is_close_to_the_exact_evidence(C):
    _, K, y = problem(C=C)
    fit = NestedEP().fit(K, y, MultinomialProbit(C))
    exact = orthant_evidence(K, y, MultinomialProbit(C))
    assert fit.converged
    # inner EP is too low by up to 0.3 % per datum at C = 3, 0.4 % at C = 4, and outer EP by a little more
    assert abs(fit.log_evidence - exact.log_evidence) < 0.02 * len(y)


def test_nested_ep_has_the_sampler_s_marginals_and_predictions():
    X, K, y = problem()
    fit = NestedEP().fit(K, y, MultinomialProbit(3))
    draws = HMC(n_draws=800, n_warmup=300, random_state=0).fit(K, y, MultinomialProbit(3))
    assert np.abs((fit.mean - draws.mean) / np.sqrt(draws.var)).max() < 0.15
    assert_allclose(fit.var, draws.var, rtol=0.25)
    new = np.random.default_rng(1).normal(size=(6, 2))
    k = RBF(1.0, 4.0)
    p, q = (np.exp(a.log_class_probabilities(k(X, new), k.diag(new))) for a in (fit, draws))
    assert_allclose(p, q, atol=0.03)
    spread, want = (a.class_probability_std(k(X, new), k.diag(new)) for a in (fit, draws))
    assert_allclose(spread, want, atol=0.05)
