"""Temperature and noise floor, against a grid and against identities; averages over members, against their definition."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_softmax
from scipy.stats import norm

from gpclass import GPClassifier
from gpclass.assess import expected_calibration_error, nlpd
from gpclass.choose import engine_named
from gpclass.inference import EP
from gpclass.kernels import RBF
from gpclass.learning.calibration import Calibration, LeftOut, _loss
from gpclass.likelihoods import MultinomialProbit, Probit
from gpclass.sparse import GFITC, SVGP, ScalableEP, StochasticEP
from tests.problems import two_classes


def problem(n=60, C=3, seed=0):
    """Underconfident forecasts, and a few random labels."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.standard_normal((n, C))
    truth = np.exp(3 * logits)
    truth /= truth.sum(1, keepdims=True)
    y = np.array([rng.choice(C, p=p) for p in truth])
    y[:2] = rng.integers(0, C, 2)
    log_p = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    return log_p, y


def log_posterior(log_temperature, logit_noise, log_p, y):
    """The definition, written out."""
    p = np.exp(log_p) ** np.exp(-log_temperature)
    p = p / p.sum(1, keepdims=True)
    noise = 1 / (1 + np.exp(-logit_noise))
    own = (1 - noise) * p[np.arange(len(y)), y] + noise / p.shape[1]
    return np.sum(np.log(own)) + norm.logpdf(log_temperature, 0, 0.5) + norm.logpdf(logit_noise, -5, 1.5)


@pytest.mark.parametrize("C", [2, 3, 7])
def test_it_maximises_the_posterior(C):
    log_p, y = problem(C=C, seed=C)
    found = Calibration.fitted(LeftOut(log_p, y))
    at = np.log(found.temperature), np.log(found.noise / (1 - found.noise))
    best = log_posterior(*at, log_p, y)
    grid = [log_posterior(at[0] + a, at[1] + b, log_p, y) for a in np.linspace(-1, 1, 41) for b in np.linspace(-4, 4, 41)]
    assert best >= max(grid)
    assert found.temperature < 0.7  # the forecasts are underconfident by a factor of three
    own = np.arange(len(y)), y
    assert_allclose(found.nlpd_before, -np.mean(log_p[own]), rtol=1e-12)
    assert_allclose(found.nlpd_after, -np.mean(found.log_probabilities(log_p)[own]), rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_is_the_negative_log_posterior_and_has_its_gradient(weighted):
    log_p, y = problem(C=3)
    weight = np.arange(len(y)) % 3.0 if weighted else np.ones(len(y))
    rows = np.repeat(np.arange(len(y)), weight.astype(int))  # whole weights are repeated rows
    value = [_loss(np.array(x), log_p, y, weight)[0] for x in ([0.0, -5.0], [0.4, -3.0])]
    want = [log_posterior(-x[0], x[1], log_p[rows], y[rows]) for x in ([0.0, -5.0], [0.4, -3.0])]
    assert_allclose(value[0] - value[1], want[1] - want[0], rtol=1e-10)  # without constants of the priors
    x, step = np.array([0.4, -3.0]), 1e-5
    moved = [[_loss(x + sign * step * e, log_p, y, weight)[0] for sign in (1, -1)] for e in np.eye(2)]
    assert_allclose(_loss(x, log_p, y, weight)[1], np.diff(moved)[:, 0] / (-2 * step), rtol=1e-7)


def test_calibrated_probabilities_follow_the_definition():
    log_p, _ = problem()
    calibration = Calibration(temperature=0.5, noise=0.03)
    p = np.exp(log_p) ** 2
    want = 0.97 * p / p.sum(1, keepdims=True) + 0.03 / 3
    assert_allclose(np.exp(calibration.log_probabilities(log_p)), want, rtol=1e-12)


def test_rows_without_information_leave_the_prior():
    found = Calibration.fitted(LeftOut(np.full((9, 2), -np.log(2)), np.zeros(9, int)))
    assert_allclose([found.temperature, found.noise], [1.0, 1 / (1 + np.exp(5))], rtol=1e-6)


def test_forecasts_that_are_right_are_hardly_changed():
    rng = np.random.default_rng(1)
    p = rng.dirichlet([1, 1, 1], size=20000)
    y = np.array([rng.choice(3, p=row) for row in p])
    found = Calibration.fitted(LeftOut(np.log(p), y))
    assert_allclose(found.temperature, 1.0, atol=0.03)  # three standard errors
    assert found.noise < 0.01


def test_impossible_labels_need_noise():
    log_p = np.log(np.tile([1 - 1e-12, 1e-12], (50, 1)))
    log_p[0, 1] = -np.inf
    y = np.zeros(50, int)
    y[0] = 1
    found = Calibration.fitted(LeftOut(log_p, y))
    assert found.noise > 0.005
    assert np.isfinite(found.nlpd_after)


def test_standard_deviations_to_first_order():
    """Draws of the probability of two classes, calibrated one by one: the error is of second order in their spread."""
    rng = np.random.default_rng(2)
    calibration, sd = Calibration(temperature=0.6, noise=0.05), 1e-3
    p = np.array([[0.1, 0.9], [0.5, 0.5], [0.97, 0.03]])
    draws = p[:, :1] + sd * rng.standard_normal(4000)
    both = np.stack([draws, 1 - draws], axis=2).reshape(-1, 2)
    spread = np.exp(calibration.log_probabilities(np.log(both))).reshape(3, 4000, 2).std(1)
    assert_allclose(calibration.std(np.full((3, 2), sd), np.log(p)), spread, rtol=0.05)
    extreme = calibration.std(np.array([[0.4, 0.4]]), np.log([[1e-9, 1 - 1e-9]]))
    assert np.all(extreme <= 0.5)


# in a classifier --------------------------------------------------------------------------------------------------------


def test_a_classifier_calibrates_its_leave_one_out_probabilities():
    X, y = two_classes(80, labels=("no", "yes"))
    plain, clf = (GPClassifier(calibrate=how, random_state=0).fit(X, y) for how in (None, "loo"))
    assert plain.calibration_.is_identity
    assert plain.calibration_.n_rows == 0
    want = Calibration.fitted(LeftOut(np.log(plain.loo()), np.searchsorted(clf.classes_, y)))
    assert_allclose([clf.calibration_.temperature, clf.calibration_.noise], [want.temperature, want.noise], rtol=1e-6)
    for calibrated, uncalibrated in ((clf.loo(), plain.loo()), (clf.predict_proba(X), plain.predict_proba(X))):
        want = clf.calibration_.log_probabilities(np.log(uncalibrated))
        assert_allclose(np.log(calibrated), want, rtol=1e-9, atol=1e-12)
    assert_allclose(clf.latent(X), plain.latent(X))
    assert clf.log_evidence_ == plain.log_evidence_
    assert clf.jensen_bound() == plain.jensen_bound()
    std = plain.predict_proba_std(X)
    assert_allclose(clf.predict_proba_std(X), clf.calibration_.std(std, plain.predict_log_proba(X)), rtol=1e-6)
    assert np.array_equal(clf.predict(X), plain.predict(X))


def test_calibrate_is_checked():
    X, y = two_classes(20, labels=("no", "yes"))
    with pytest.raises(ValueError, match="calibrate must be 'loo', 'held-out' or None"):
        GPClassifier(calibrate="isotonic").fit(X, y)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("engine", [ScalableEP(), GFITC(), SVGP(), StochasticEP()])
def test_inducing_points_have_leave_one_out_probabilities(engine, classes):
    """They are near those of a fit without the row, in which the sites of the other rows change too."""
    rng = np.random.default_rng(3)
    X, Z = np.linspace(-3, 3, 24)[:, None], np.linspace(-3, 3, 8)[:, None]
    noisy = np.sin(1.5 * X[:, 0]) + 0.2 * rng.standard_normal(24)
    likelihood = Probit() if classes == 2 else MultinomialProbit(3)
    y = np.where(noisy > 0, 1.0, -1.0) if classes == 2 else np.digitize(noisy, [-0.4, 0.4])
    kernel = RBF(1.0, 3.0)
    fit = engine.fit(kernel(Z), kernel(X, Z), kernel.diag(X), y, likelihood)
    refits = []
    for i in range(24):
        rest = np.arange(24) != i
        without = engine.fit(kernel(Z), kernel(X[rest], Z), kernel.diag(X[rest]), y[rest], likelihood)
        refits.append(without.log_class_probabilities(kernel(Z, X[i : i + 1]), kernel.diag(X[i : i + 1]))[0])
    assert_allclose(fit.loo_class_probabilities(), np.exp(refits), atol=0.1)
    assert_allclose(np.mean(fit.loo_class_probabilities() - np.exp(refits), axis=0), 0, atol=0.02)


def test_minibatch_runs_use_row_sites_or_held_out_rows():
    X, y = two_classes(300, labels=("no", "yes"))
    runs = {"search": "minibatches", "epochs": 30, "n_inducing": 20, "batch_size": 50}
    dense = GPClassifier(inference=EP(), random_state=0).fit(X, y).calibration_
    for engine in (ScalableEP(**runs), SVGP(**runs), StochasticEP(**runs)):
        found = GPClassifier(inference=engine, random_state=0).fit(X, y).calibration_
        assert found.n_rows == 300
        assert_allclose(found.nlpd_before, dense.nlpd_before, atol=0.05)  # other approximations of the same model
    held = GPClassifier(inference=ScalableEP(**runs, validation=0.2), random_state=0).fit(X, y).calibration_
    assert held.n_rows == 60


def test_partial_fit_calibrates_again():
    X, y = two_classes(120, labels=("no", "yes"))
    clf = GPClassifier(inference="ivm", random_state=0).fit(X[:40], y[:40])
    clf.partial_fit(X[40:], y[40:])
    q, found = clf.posterior_, clf.calibration_
    assert found.n_rows == len(q.y)
    want = Calibration.fitted(LeftOut(q.loo_log_class_probabilities(), (q.y > 0).astype(int)))
    assert_allclose([found.temperature, found.noise], [want.temperature, want.noise], rtol=1e-6)


@pytest.mark.parametrize("settings", [{}, {"kernel": "auto"}, {"hyper": "integrate"}], ids=["one kernel", "stack", "design"])
def test_an_uncalibrated_copy_has_the_probabilities_of_the_posterior(settings):
    X, y = two_classes(40, labels=("no", "yes"))
    clf = GPClassifier(**settings).fit(X, y)
    before = clf.predict_proba(X)
    plain = clf.uncalibrated()
    log_p = [member.ask("log_class_probabilities", X) for member in clf.members_]
    average = np.average(np.exp(log_p), axis=0, weights=[member.weight for member in clf.members_])
    assert_allclose(plain.predict_proba(X), average, rtol=1e-12)
    assert np.max(np.abs(plain.predict_proba(X) - before)) > 1e-4
    assert_allclose(clf.predict_proba(X), before, rtol=0)  # the model itself is unchanged
    if "kernel" not in settings:  # a stack without calibration has other weights
        assert_allclose(plain.loo(), GPClassifier(calibrate=None, **settings).fit(X, y).loo(), atol=1e-8)


@pytest.mark.quick_cases("scalable-ep")
@pytest.mark.parametrize("engine", ["scalable-ep", "stochastic-ep", "svgp"])
def test_held_out_rows_are_not_flattered(engine):
    """Labels without any relation to the inputs: only rows that were used to learn inducing inputs look predictable."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 8)), rng.integers(2, size=2000)
    engine = replace(engine_named(engine), search="minibatches", n_inducing=100, epochs=6, learn_inputs=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the log evidence is below guessing, as expected
        clf = GPClassifier(RBF(1.0, 4.0), inference=engine, calibrate="held-out", random_state=0).fit(X, y)
    found = clf.calibration_
    assert found.held_out
    assert found.n_rows == 200
    assert found.nlpd_before > np.log(2) - 0.02
    assert abs(found.error - 0.5) < 3 * 0.5 / np.sqrt(200)


def test_scores_are_those_of_the_held_out_rows():
    X, y = two_classes(2100, labels=("no", "yes"))
    engine = replace(engine_named("svgp"), search="minibatches", n_inducing=15, epochs=3)
    clf = GPClassifier("rbf", inference=engine, calibrate="held-out", random_state=0).fit(X, y)
    Xh, codes = clf._trainer.held
    p, found = clf.predict_proba(Xh), clf.calibration_
    assert len(Xh) == found.n_rows == 210
    assert clf._trainer.n_rows == 1890
    assert found.error == np.mean(p.argmax(1) != codes)
    assert_allclose(found.nlpd_after, nlpd(codes, p, classes=[0, 1]))
    assert_allclose(found.gap_after, expected_calibration_error(codes, p, classes=[0, 1]))
    assert len(clf.history_) == 3  # no early stopping with these rows
    assert np.all(np.isnan([one.validation for one in clf.history_]))
    few = GPClassifier("rbf", inference=engine, calibrate="held-out", random_state=0).fit(X[:1900], y[:1900]).calibration_
    assert (few.held_out, few.n_rows) == (False, 1900)  # a tenth of the rows would be too few for calibration


def test_held_out_is_leave_one_out_without_minibatches():
    X, y = two_classes(60, labels=("no", "yes"))
    a, b = (GPClassifier("rbf", calibrate=how).fit(X, y) for how in ("held-out", "loo"))
    assert a.calibration_ == b.calibration_
    assert not a.calibration_.held_out
    loo = a.loo()
    assert_allclose(a.calibration_.nlpd_after, nlpd(y, loo, classes=a.classes_))
    assert_allclose(a.calibration_.gap_after, expected_calibration_error(y, loo, classes=a.classes_))
    assert_allclose(a.calibration_.error, np.mean(a.classes_[loo.argmax(1)] != y))


def test_held_out_rows_decide_whether_a_calibration_is_used():
    """Rows whose labels were seen look underconfident; the calibration that they ask for is used if it helps others."""
    rng = np.random.default_rng(0)
    log_p = log_softmax(rng.normal(size=(2000, 3)), axis=1)
    drawn = [np.array([rng.choice(3, p=np.exp(log_softmax(power * p))) for p in log_p]) for power in (2.0, 1.0)]
    seen, fair = (LeftOut(log_p, codes) for codes in drawn)
    sharpened = Calibration.fitted(seen)
    assert sharpened.temperature < 0.6
    helped = Calibration.fitted(seen._replace(check=seen._replace(held_out=True)))
    assert (helped.temperature, helped.noise, helped.held_out) == (sharpened.temperature, sharpened.noise, True)
    refused = Calibration.fitted(seen._replace(check=fair._replace(held_out=True)))
    assert refused.is_identity
    assert refused.n_rows == 2000
    assert refused.nlpd_before == refused.nlpd_after == -fair.score


@pytest.mark.parametrize("n", [60, 600])
def test_held_out_rows_calibrate_themselves_if_that_clearly_helps(n):
    """If leave-one-out probabilities ask for more extreme ones, but labels of held-out rows do not depend on the inputs."""
    rng = np.random.default_rng(1)
    log_p = log_softmax(2 * rng.normal(size=(2000, 3)), axis=1)
    seen = LeftOut(log_p, np.array([rng.choice(3, p=np.exp(log_softmax(2 * p))) for p in log_p]))
    new, weight = log_softmax(2 * rng.normal(size=(2 * n, 3)), axis=1), rng.uniform(0.5, 2.0, n)
    noise = LeftOut(new[:n], rng.integers(0, 3, n), weight, held_out=True)
    made = Calibration.fitted(seen._replace(check=noise))
    assert made.held_out
    assert made.n_rows == n
    assert made.temperature > 1.5
    assert made.nlpd_after < made.nlpd_before - 0.5
    later = made.log_probabilities(new[n:])  # each label is as probable as the others
    assert -np.mean(later) < np.log(3) + 0.1
    # scores are those of rows that the calibration has not seen, so they are close to those of other rows
    assert abs(made.nlpd_after + np.mean(later)) < 4 / np.sqrt(n)
    fair = LeftOut(new[:n], np.array([rng.choice(3, p=np.exp(p)) for p in new[:n]]), weight, held_out=True)
    assert Calibration.fitted(seen._replace(check=fair)).is_identity  # noisy, and not needed
