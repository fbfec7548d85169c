"""Real data on the whole grid of [NR] section 11: every engine converges in few sweeps."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from gpclass.inference import EP, KL, VB, Laplace
from gpclass.kernels import RBF, Linear, Matern52, NeuralNetwork
from gpclass.likelihoods import Logit, Probit

from .truth import frozen

FULL = [(a, b) for a in range(-1, 6) for b in range(-1, 6)]  # (ln ℓ, ln σ_f)
FEW = [(-1, -1), (-1, 5), (5, -1), (5, 5), (2, 2)]
KERNELS = [RBF, Matern52, Linear, NeuralNetwork]

# most sweeps anywhere on the grid, by measurement: EP 14, Laplace 43 (linear kernel, one long Newton valley), KL 95
SWEEPS = {EP: 25, Laplace: 60, KL: 150, VB: 60}


@pytest.fixture(scope="module")
def cancer():
    X, label = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(0)) / X.std(0)
    return frozen(X[:200].copy(), 2.0 * label[:200] - 1)


def check_grid(engine, kernel, likelihood, points, X, y):
    for ln_l, ln_s in points:
        K = kernel(lengthscale=np.exp(ln_l), variance=np.exp(2 * ln_s))(X)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fit = engine.fit(K, y, likelihood)
        where = f"ln ℓ = {ln_l}, ln σ_f = {ln_s}: {fit.status}"
        assert fit.converged, where
        assert not fit.status.message, where  # no fallback
        assert fit.n_iter <= SWEEPS[type(engine)], where
        assert fit.status.change < engine.tol, where
        assert np.isfinite(fit.log_evidence), where
        assert np.all(fit.var > 0), where
        assert np.all(fit.var <= np.diagonal(K) * (1 + 1e-9)), where  # log-concave: data never increase variances


ENGINES = pytest.mark.parametrize("engine", [EP(), Laplace(), KL(), VB()], ids=lambda engine: type(engine).__name__)
LIKELIHOODS = pytest.mark.parametrize("likelihood", [Probit(), Logit()], ids=["probit", "logit"])


@LIKELIHOODS
@pytest.mark.parametrize("kernel", KERNELS)
@ENGINES
def test_corners_and_centre(engine, kernel, likelihood, cancer):
    check_grid(engine, kernel, likelihood, FEW, *cancer)


@pytest.mark.parametrize("engine", [EP(), Laplace()], ids=["EP", "Laplace"])
def test_one_full_grid(engine, cancer):
    check_grid(engine, RBF, Logit(), FULL, *cancer)


@pytest.mark.slow
@LIKELIHOODS
@pytest.mark.parametrize("kernel", KERNELS)
@ENGINES
def test_full_grid(engine, kernel, likelihood, cancer):
    check_grid(engine, kernel, likelihood, FULL, *cancer)


@LIKELIHOODS
def test_warm_starts_along_the_grid(likelihood, cancer):
    """Starting from the neighbour's result gives the same fit with fewer sweeps in total."""
    X, y = cancer
    cold = warm = 0
    last = None
    for ln_s in np.arange(0.0, 2.01, 0.25):
        K = RBF(lengthscale=np.exp(2.0), variance=np.exp(2 * ln_s))(X)
        fit, last = EP().fit(K, y, likelihood), EP().fit(K, y, likelihood, start=last)
        cold, warm = cold + fit.n_iter, warm + last.n_iter
        assert abs(fit.log_evidence - last.log_evidence) < 1e-7
    assert warm < cold
