"""Figures of Riihimäki, Jylänki & Vehtari 2013: the script that reproduces them, at a small size."""

import argparse
import importlib.util
import os
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import beta

from gpclass.inference import IndependentEP, Laplace, NestedEP, QuadratureEP
from gpclass.likelihoods import MultinomialProbit, Softmax
from gpclass.sampling import HMC, Gibbs

FILE = Path(__file__).parents[2] / "benchmarks" / "riihimaki.py"


@pytest.fixture(scope="module")
def paper():
    """Import the script as a module that worker processes need not find."""
    spec = importlib.util.spec_from_file_location(FILE.stem, FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    return module


def predictions(paper, engine, X, y, x, likelihood=None):
    new = x[:, None]
    fit = engine.fit(paper.LINE(X), y, likelihood or MultinomialProbit(3))
    return np.exp(fit.log_class_probabilities(paper.LINE(X, new), paper.LINE.diag(new)))


# section 5.2 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 2])
def test_the_exact_posterior_is_more_confident_than_ep_and_ep_than_iep(paper, seed):
    X, y = paper.line_data(seed)
    x = np.array([-1.0, -0.3, 0.7, 2.0, 3.4])  # inside the classes and on their flanks
    exact = np.array([paper.exact_probabilities(X, y, at) for at in x])
    ep, iep, qep, qiep = (
        predictions(paper, engine, X, y, x)
        for engine in (NestedEP(), IndependentEP(), QuadratureEP(), QuadratureEP(coupled=False))
    )
    # standard errors of the exact ones are below 0.005
    assert paper.confidence(exact) > paper.confidence(ep) + 0.005 > paper.confidence(iep) + 0.01
    assert exact[0, 0] > ep[0, 0] + 0.015 > iep[0, 0] + 0.03
    assert_allclose(ep, exact, atol=0.08)
    # how the tilted moments are computed matters less than the form of the approximate posterior
    assert_allclose(qep, ep, atol=2e-3)
    assert_allclose(qiep, iep, atol=2e-3)


def test_where_the_paper_looks_the_probabilities_are_the_paper_s(paper):
    # 0.95 for MCMC, 0.88 for EP, 0.82 for IEP in class 1; 0.47 for all where classes 2 and 3 meet. Our 15 points are others,
    # like the paper's: what is asked for is two thirds of the paper's differences, at a place of the same probability
    X, y = paper.line_data(paper.SHOWN)
    x = np.array([0.7, 2.6])
    ep, iep = (predictions(paper, engine, X, y, x) for engine in (NestedEP(), IndependentEP()))
    exact = np.array([paper.exact_probabilities(X, y, at) for at in x])
    assert abs(exact[0, 0] - 0.95) < 0.01
    assert exact[0, 0] - ep[0, 0] > 2 / 3 * 0.07
    assert ep[0, 0] - iep[0, 0] > 2 / 3 * 0.06
    assert_allclose([ep[1, 1], iep[1, 1]], exact[1, 1], atol=0.02)
    assert abs(exact[1, 1] - 0.47) < 0.02


def test_the_sampler_has_the_exact_probabilities(paper):
    X, y = paper.line_data(paper.SHOWN)
    x = np.array([-1.0, 0.7, 2.6])
    exact = np.array([paper.exact_probabilities(X, y, at) for at in x])
    sampled = predictions(paper, HMC(n_chains=4, n_draws=100, n_warmup=100, random_state=0), X, y, x)
    assert_allclose(sampled, exact, atol=0.03)  # some 300 effective draws of probabilities that vary by 0.3 at most


def test_laplace_is_timid_and_its_correction_is_not(paper):
    X, y = paper.line_data(paper.SHOWN)
    x = paper.GRID[::15]
    plain, corrected = (
        paper.confidence(predictions(paper, Laplace(correction=correction), X, y, x, Softmax(3)))
        for correction in (None, "tierney-kadane")
    )
    exact = paper.confidence(np.array([paper.exact_probabilities(X, y, at) for at in x]))
    assert plain < exact - 0.2
    assert abs(corrected - exact) < 0.02  # of another likelihood, which makes little difference at this variance


@pytest.mark.filterwarnings("ignore:Gibbs")  # the draws of the chains do not matter
def test_draws_at_a_new_point_have_its_moments(paper):
    X, y = paper.line_data(0)
    draws = Gibbs(n_chains=8, n_draws=150, n_warmup=20, random_state=0).fit(paper.FIXED(X), y, MultinomialProbit(3))
    x = np.array([0.4])
    mean, cov = draws.predict(paper.FIXED(X, x[None]), paper.FIXED.diag(x[None]))
    drawn = paper.latent_draws(draws, paper.FIXED, X, x)
    # the draws at the training points are the same: only the noise of the conditional is random, of 1200 draws
    assert_allclose(drawn.mean(0), mean[0], atol=4 * np.sqrt(cov[0].max() / 1200))
    assert_allclose(np.cov(drawn.T), cov[0], atol=6 * cov[0].max() / np.sqrt(1200))


# table 1 -------------------------------------------------------------------------------------------------------------


def test_what_labels_do_not_speak_of_is_put_in_as_known(paper):
    # NestedEP keeps the prior for the mean over classes, so nothing must change; IEP does not
    X, y = paper.line_data(1)
    K, x = paper.FIXED(X), paper.GRID[::9, None]
    Ks, kd = paper.FIXED(X, x), paper.FIXED.diag(x)
    coupled, independent = (engine.fit(K, y, MultinomialProbit(3)) for engine in (NestedEP(), IndependentEP()))
    for got, want in zip(paper.sampled_moments(coupled, Ks, kd), paper.moments(coupled, Ks, kd), strict=True):
        assert_allclose(got, want, atol=1e-9)
    changed = paper.sampled_moments(independent, Ks, kd)[1] - paper.moments(independent, Ks, kd)[1]
    assert np.abs(changed).max() > 0.05


def test_two_runs_are_pooled(paper):
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 50, 4, 3))  # draws of (m, C)
    both = np.concatenate([first, second])
    got = paper.pooled(*((run.mean(0), run.var(0), run.mean(0)) for run in (first, second)))
    assert_allclose(got[0], both.mean(0), atol=1e-14)
    assert_allclose(got[1], both.var(0), atol=1e-14)


def test_claims_on_table_1_hold_for_the_paper_s_own_figures_and_fail_for_others(paper):
    theirs = {
        (part, measure): list(paper.PAPER_TABLE["glass"][part == "test"][k][0])
        for part in ("training", "test")
        for k, measure in enumerate(paper.MEASURES)
    }
    assert all(paper.table_claims("glass", theirs).values())
    theirs["test", "latent variances"] = [0.3, 0.097, 0.314, 0.314]
    assert list(paper.table_claims("glass", theirs).values()) == [False, False, True]


@pytest.mark.slow
def test_table_1_on_glass(paper, capsys):
    folder = os.environ.get("GPCLASS_DATA") or "nowhere"
    if not (Path(folder) / "glass.npz").exists():
        pytest.skip("needs glass.npz in the folder named by GPCLASS_DATA")
    # with a quarter of the draws the noise of sampling alone reaches the paper's figures
    assert paper.run_table("glass", Namespace(seed=0, full=False, jobs=1, gibbs=250))
    assert "training, latent variances, mean" in capsys.readouterr().out


# section 5.5 ---------------------------------------------------------------------------------------------------------


def test_bootstrap_interval_is_that_of_the_mean(paper):
    values = np.random.default_rng(0).exponential(size=400)
    low, high = paper.bayesian_bootstrap(values)
    error = values.std() / np.sqrt(len(values) + 1)  # of a mean with flat Dirichlet weights
    # of 4000 draws a 2.5 % quantile is known to some 0.04 standard deviations
    assert_allclose([low, high], values.mean() + error * np.array([-1.96, 1.96]), atol=0.2 * error)


def test_accuracy_interval_is_that_of_a_dirichlet(paper):
    reference = np.ones(50, bool)
    right = np.r_[np.zeros(10, bool), np.ones(40, bool)]
    low, high = paper.accuracy_interval(right, reference)
    # worse in 10 of 50, better in none: the difference is -x + y with x, y of Dirichlet(11, 41, 1)
    assert low < -0.2 < high
    assert_allclose(low, -beta(11, 42).ppf(0.975), atol=0.02)
    same = paper.accuracy_interval(reference, reference)
    assert same[0] < 0 < same[1]


def test_a_method_above_ep_is_reported(paper, capsys):
    rng = np.random.default_rng(0)
    base, right = rng.normal(-0.5, 0.2, 100), np.ones(100, bool)
    levels = {"EP": 0.0, "IEP": -0.02, "MF": -0.3, "LA": -0.2, "LA-TKP": -0.001}
    outcomes = {m: paper.Outcome(base + level, right, 1.0) for m, level in levels.items()}
    assert paper.report({"wine": outcomes})
    outcomes["LA-TKP"] = paper.Outcome(base + 0.01, right, 1.0, "1 of 10 folds: a warning")
    assert not paper.report({"wine": outcomes})
    printed = capsys.readouterr().out
    assert "LA-TKP   below 0 (0 surely), above 1 (1 surely: Wine)" in printed
    assert "FAILS  LA-TKP is nowhere above EP" in printed
    assert "LA-TKP warned in 1 of 10 folds: a warning" in printed


def test_predictions_on_wine(paper, capsys, tmp_path):
    pytest.importorskip("matplotlib")
    few = ["--sets", "wine", "--folds", "1", "--starts", "1", "--jobs", "1"]
    paper.main(["--parts", "predictive", *few, "--figure", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "Wine                  160 training rows,   18 test rows in 1 fold\n" in printed
    assert "warned" not in printed
    assert "holds  LA-TKP is above LA in all sets but Teaching" in printed
    assert (tmp_path / "riihimaki_predictive.png").stat().st_size > 5_000


def test_the_best_of_several_starts_is_kept(paper):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 1))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    fold = paper.Fold("made", X[:30], y[:30], X[30:], y[30:], 3)
    good, poor = (
        paper.GPClassifier(paper.RBF(lengthscale=length, variance=4.0), "multinomial-probit", "nested-ep", max_iter=steps)
        for length, steps in ((1.0, 100), (1e-3, 1))
    )
    best, outcome = paper.scored([poor, good], fold)
    assert best is good
    assert paper.reached(good) > paper.reached(poor) + 1
    assert outcome.log_p.mean() > np.log(1 / 3)
    assert outcome.message.startswith("The search for hyperparameters reached its limit")


def test_sampled_hyperparameters_predict_as_learned_ones_do(paper):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 1))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    fold = paper.Fold("made", X[:20], y[:20], X[20:], y[20:], 3)
    outcome, r_hat = paper.run_sampler(fold, 15)
    learned = paper.run_method(fold, "EP", argparse.Namespace(starts=1, mcmc=0, seed=0))["EP"]
    assert abs(outcome.log_p.mean() - learned.log_p.mean()) < 0.15  # guessing has a score that is worse by 0.6
    assert r_hat > 1  # the Monte Carlo error of so few draws


def test_sets_that_are_missing_are_named(paper, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("GPCLASS_DATA", "")
    assert paper.main(["--parts", "predictive", "--sets", "new_thyroid", "--data", str(tmp_path)]) == 2
    assert "left out: Data set 'new_thyroid'" in capsys.readouterr().err
