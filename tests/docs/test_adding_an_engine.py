"""The code of docs/adding_an_engine.md, run as printed, and its engines against other results."""

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from scipy.stats import multivariate_normal

import gpclass
from gpclass import GPClassifier
from gpclass.engines.inducing.step import State, take_step
from gpclass.gaussian import LowRankMatrices, LowRankPosterior
from gpclass.kernels import RBF
from gpclass.likelihoods import Gaussian, Logit, Softmax
from gpclass.registry import _classes

TEXT = (Path(__file__).parents[2] / "docs" / "adding_an_engine.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page():
    """The names that the page's code defines. Its classes are registered while the tests of this file run."""
    cells = re.findall(r"```\{code-cell\} python\n(.*?)```", TEXT, re.S)
    assert len(cells) == TEXT.count("```{code-cell}")
    before = {kind: dict(table) for kind, table in _classes.items()}
    module = types.ModuleType("adding_an_engine")
    sys.modules["adding_an_engine"] = module  # where dataclasses look for their names
    for number, cell in enumerate(cells):
        exec(compile(cell, f"adding_an_engine.md, cell {number}", "exec"), module.__dict__)
    yield module
    del sys.modules["adding_an_engine"]
    for kind, table in before.items():
        _classes[kind].clear()
        _classes[kind].update(table)


def test_predictions_of_the_page(page):
    """Errors are similar to other engines: on wine those stated on the page, otherwise 4 to 6 %, as with SVGP."""
    ours, *others = page.wine_scores.values()
    assert ours["error_rate"] < 0.07
    assert ours["nlpd"] < 0.05 + min(other["nlpd"] for other in others)
    assert all(found["error_rate"] < 0.08 and found["nlpd"] < 0.2 for found in page.large_scores.values())


@pytest.mark.parametrize("var", [1e-8, 1.0, 40.0, 1e4])
def test_tilts_are_a_fixed_point(page, var):
    rng = np.random.default_rng(0)
    mean, var = 3 * rng.normal(size=(50, 4)), var * rng.uniform(0.5, 2.0, size=(50, 4))
    a = page.tilts(mean, var)
    assert_allclose(a, softmax(mean + (0.5 - a) * var, axis=1), atol=1e-10)  # rounding of mean + var/2 is 2e-12


def test_tilted_bound_of_one_datum(page):
    """The bound in m, v and a, maximised by a general optimiser."""
    prior, y = 4.0, 1

    def negative(x):
        m, v, a = x[:3], np.exp(x[3:6]), x[6:]
        value = m[y] - 0.5 * a**2 @ v - logsumexp(m + (0.5 - a) * v)
        return 0.5 * np.sum(v / prior + m**2 / prior - 1 - np.log(v / prior)) - value

    best = minimize(negative, np.zeros(9), options={"gtol": 1e-9})
    fit = page.Tilted().fit([[prior]], [y], Softmax(3))
    assert_allclose(fit.log_evidence, -best.fun, atol=1e-8)  # stationary: errors are squared
    assert_allclose(fit.mean[0], best.x[:3], atol=1e-4)  # differences of the optimiser: 1e-8 / gradient's rounding
    assert_allclose(fit.var[0], np.exp(best.x[3:6]), rtol=1e-4)


def test_sparse_bounds_of_regression(page):
    """With Gaussian noise the bound is that of Titsias (2009): log N(y | 0, Q + σ²I) - tr(K - Q)/(2σ²)."""
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(30, 2)), 0.3
    K, y = RBF(1.0, 2.0)(X), rng.normal(size=30)
    Q = K[:, :6] @ np.linalg.solve(K[:6, :6], K[:6])
    truth = multivariate_normal.logpdf(y, cov=Q + noise * np.eye(30)) - np.trace(K - Q) / (2 * noise)
    fit = page.SparseBounds(jitter=1e-11).fit(K[:6, :6], K[:, :6], np.diagonal(K), y, Gaussian(noise))
    assert_allclose(fit.log_evidence, truth, atol=1e-7)  # jitter × 30 data × conditions below 1e3
    # Titsias' (6), the posterior at all rows: u has its posterior given Q, and f given u is as in the prior
    total = np.linalg.inv(Q + noise * np.eye(30))
    assert_allclose(fit.mean, Q @ total @ y, atol=1e-7)
    assert_allclose(fit.var, np.diagonal(K - Q @ total @ Q), atol=1e-7)


def test_steps_from_nothing_end_where_sweeps_do(page):
    """With minibatches of all rows there is no sampling noise, and `absorb` alone converges to the result."""
    X, y = page.tables["moons"]
    X, y, at = X[:300], 2.0 * y[:300] - 1, slice(0, 10)
    kernel, engine, likelihood = RBF(0.7, 4.0), page.SparseBounds(rate=0.5, tol=1e-9), Logit()
    K = LowRankMatrices(kernel(X[at]), kernel(X, X[at]), kernel.diag(X))
    settled = engine.fit(K.K_uu, K.K_fu, K.k_diag, y, likelihood)
    state = State.empty(1, 10)
    for _ in range(300):  # the error falls by at least a tenth in each step
        step, _ = take_step(engine, state, K, y, {}, len(y), likelihood)
        state = step.state
    assert_allclose(step.log_evidence, settled.log_evidence, atol=1e-7)
    prior = settled.posterior.prior
    trained = LowRankPosterior(prior, *prior.whitened(state.P, state.h)).marginals(settled.rows)
    wanted = settled.posterior.marginals(settled.rows)
    assert np.max(np.abs(trained.mean - wanted.mean) / np.sqrt(wanted.var)) < 1e-6  # tol × condition of K_uu
    assert_allclose(trained.var, wanted.var, rtol=1e-6)


@pytest.mark.parametrize("name", ["tilted", "sparse-bounds"])
def test_models_are_saved(page, name, tmp_path):
    rng = np.random.default_rng(0)
    X, n_classes = rng.normal(size=(60, 2)), 3 if name == "tilted" else 2
    y = (X[:, 0] > 0).astype(int) + (n_classes > 2) * (X[:, 1] > 0.5)
    model = GPClassifier(RBF(1.0, 2.0), inference=name, optimizer=None, random_state=0).fit(X, y)
    gpclass.save(model, tmp_path / "model.gpclass")
    loaded = gpclass.load(tmp_path / "model.gpclass")
    assert type(loaded.inference_) is type(model.inference_)
    assert_allclose(loaded.predict_proba(X), model.predict_proba(X), atol=1e-10)
