"""Few sweeps from a cold start with strongly correlated rows, and the same fixed point as plain sweeps."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.inference import EP, IndependentEP, NestedEP
from gpclass.kernels import Matern32
from gpclass.likelihoods import Logit, MultinomialProbit, Probit

# A random walk: inputs of neighbouring rows nearly agree, as pixels of an image do, and one label holds for a long stretch.
# Plain mixed sweeps need these numbers (seed, then EP, NestedEP, IndependentEP): 0: 13, 15, 11; 1: 15, 19, 14.
PLAIN = {0: (13, 15, 11), 1: (15, 19, 14)}
VARIANCE = {0: 1e3, 1: 1e4}


@pytest.fixture(autouse=True)
def even_with_few_rows(monkeypatch):
    """Look ahead also with few rows, where it would not save time: these tests count sweeps with a small n."""
    monkeypatch.setattr("gpclass.engines.iterate.MIN_SITES", 0)


def walk(seed, n=150):
    X = np.cumsum(0.05 * np.random.default_rng(seed).normal(size=(n, 3)), axis=0)
    return Matern32(lengthscale=3.0, variance=VARIANCE[seed])(X), np.arange(n) * 3 // n


def binary(y):
    return np.where(y == 0, 1.0, -1.0)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("likelihood", [Probit(), Logit()], ids=["probit", "logit"])
def test_ep_needs_at_most_two_thirds_of_the_plain_sweeps(likelihood, seed):
    K, y = walk(seed)
    fit = EP().fit(K, binary(y), likelihood)
    assert fit.converged
    assert fit.n_iter <= 2 / 3 * PLAIN[seed][0]


@pytest.mark.parametrize("seed", [0, 1])
def test_several_classes_need_fewer_sweeps(seed):
    K, y = walk(seed)
    nested, independent = (engine.fit(K, y, MultinomialProbit(3)) for engine in (NestedEP(), IndependentEP()))
    assert nested.converged
    assert independent.converged
    assert nested.n_iter <= 3 / 4 * PLAIN[seed][1]
    assert independent.n_iter < PLAIN[seed][2]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("engine", [EP, NestedEP, IndependentEP])
def test_the_fixed_point_is_that_of_plain_sweeps(engine, seed):
    """Damping below one turns predictions off. Moves below 1e-10 leave errors of a few times 1e-10."""
    K, y = walk(seed)
    y, likelihood = (binary(y), Probit()) if engine is EP else (y, MultinomialProbit(3))
    fast, plain = (engine(tol=1e-10, damping=damping).fit(K, y, likelihood) for damping in (1.0, 0.9))
    assert fast.n_iter < plain.n_iter
    assert_allclose(fast.log_evidence, plain.log_evidence, atol=1e-7)
    assert_allclose(fast.mean, plain.mean, atol=1e-7 * np.sqrt(VARIANCE[seed]))


def test_the_last_sweeps_converge_quadratically():
    """From sites with an error of 1e-4 one sweep and the check of the next one suffice; plain sweeps need four or more."""
    K, y = walk(0)
    exact = EP(tol=1e-11).fit(K, binary(y), Probit())
    noise = np.exp(1e-4 * np.random.default_rng(5).normal(size=len(y)))
    sites = exact.posterior.sites
    start = type(sites)(noise * sites.tau, noise * sites.nu)
    assert EP().fit(K, binary(y), Probit(), start=start).n_iter <= 3
    assert EP(damping=0.999).fit(K, binary(y), Probit(), start=start).n_iter >= 4
