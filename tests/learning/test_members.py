"""Averages over members: stacked kernels, integrated hyperparameters; their files and their settings."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import log_softmax
from scipy.stats import multivariate_normal

from gpclass import GPClassifier, load, save
from gpclass.inference import EP
from gpclass.kernels import RBF
from gpclass.learning import Learned, Member, Normal, Objective
from gpclass.learning.calibration import Calibration
from gpclass.learning.integrate import central_composite, curvature, integrated
from gpclass.learning.members import Mixture, class_probability_std, latent, log_class_probabilities
from gpclass.learning.stack import COUNT, stacking_weights
from gpclass.likelihoods import Probit


def two_classes(n=50, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.4 * rng.standard_normal(n) > 0, 1.0, -1.0)


def three_classes(n=60, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, np.digitize(X[:, 0] + 0.3 * rng.standard_normal(n), [-0.5, 0.5])


# averages ---------------------------------------------------------------------------------------------------------------


def test_averages_follow_their_definitions():
    X, y = two_classes()
    new = np.linspace(-2, 2, 8).reshape(4, 2)
    calibration = Calibration(0.5, 0.1)
    parts = [
        (0.7, RBF(0.5, 2.0), Calibration()),
        (0.3, RBF(2.0, 5.0), calibration),
    ]
    fits = [EP().fit(kernel(X), y, Probit()) for _, kernel, _ in parts]
    members = [Member(w, k, fit, X, c) for (w, k, c), fit in zip(parts, fits, strict=True)]
    moments = [fit.predict(k(X, new), k.diag(new)) for (_, k, _), fit in zip(parts, fits, strict=True)]
    logs = [fit.log_class_probabilities(k(X, new), k.diag(new)) for (_, k, _), fit in zip(parts, fits, strict=True)]
    p = [np.exp(logs[0]), np.exp(calibration.log_probabilities(logs[1]))]
    assert_allclose(np.exp(log_class_probabilities(members, new)), 0.7 * p[0] + 0.3 * p[1], rtol=1e-12)
    mean = 0.7 * moments[0][0] + 0.3 * moments[1][0]
    second = 0.7 * (moments[0][1] + moments[0][0] ** 2) + 0.3 * (moments[1][1] + moments[1][0] ** 2)
    assert_allclose(latent(members, new), (mean, second - mean**2), rtol=1e-9)
    spread = [fit.class_probability_std(k(X, new), k.diag(new)) for (_, k, _), fit in zip(parts, fits, strict=True)]
    spread[1] = calibration.std(spread[1], logs[1])
    whole = 0.7 * (spread[0] ** 2 + p[0] ** 2) + 0.3 * (spread[1] ** 2 + p[1] ** 2) - (0.7 * p[0] + 0.3 * p[1]) ** 2
    assert_allclose(class_probability_std(members, new, Calibration()), np.sqrt(whole), rtol=1e-6)


def test_leave_one_out_weights_of_integrated_members():
    """Without row i, the posterior probability of θ is that given the other rows: Bayes' rule with n - 1 labels."""
    X, y = two_classes(25)
    kernels = [RBF(0.5, 2.0), RBF(2.0, 5.0)]
    tight = EP(tol=1e-10)
    fits = [tight.fit(k(X), y, Probit()) for k in kernels]
    weights = np.exp([fit.log_evidence for fit in fits])
    weights /= weights.sum()
    members = [Member(w, k, fit, X) for w, k, fit in zip(weights, kernels, fits, strict=True)]
    found = np.exp(Mixture.of(members, integrated=True).loo_log_class_probabilities())
    for i in range(5):
        rest = np.arange(25) != i
        refits = [tight.fit(k(X[rest]), y[rest], Probit()) for k in kernels]
        own = np.exp([fit.log_evidence for fit in refits])
        at = [
            np.exp(fit.log_class_probabilities(k(X[rest], X[i : i + 1]), k.diag(X[i : i + 1])))[0]
            for k, fit in zip(kernels, refits, strict=True)
        ]
        # EP's cavities are not exactly its posteriors without the row: an error of some thousandths
        assert_allclose(found[i], (own / own.sum()) @ at, atol=0.01)


# stacking ---------------------------------------------------------------------------------------------------------------


def test_stacking_weights_maximise_their_objective():
    rng = np.random.default_rng(0)
    log_true = np.log(rng.beta([[2.0], [1.0], [3.0]], 1.0, size=(3, 40)))

    def loss(z):
        log_w = log_softmax(z)
        return -np.sum(np.logaddexp.reduce(log_w[:, None] + log_true, axis=0)) - COUNT * np.sum(log_w)

    best = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-10})
    assert_allclose(stacking_weights(log_true), np.exp(log_softmax(best.x)), atol=1e-6)


def test_a_model_that_is_always_better_gets_nearly_all_weight():
    log_true = np.log(np.stack([np.full(200, 0.9), np.full(200, 0.5)]))
    weights = stacking_weights(log_true)
    assert weights[0] > 0.99
    assert_allclose(weights.sum(), 1.0, rtol=1e-12)


@pytest.mark.parametrize("make", [two_classes, three_classes])
def test_kernel_auto(make, tmp_path):
    X, y = make()
    clf = GPClassifier("auto", random_state=0).fit(X, y)
    weights = np.array([member.weight for member in clf.members_])
    assert_allclose(weights.sum(), 1.0, rtol=1e-12)
    assert np.all(np.diff(weights) <= 0)
    assert clf.kernel_ is clf.members_[0].kernel
    new = X[:7] + 0.1
    own = [m.calibration.log_probabilities(m.ask("log_class_probabilities", new)) for m in clf.members_]
    assert_allclose(clf.predict_proba(new), np.tensordot(weights, np.exp(own), 1), rtol=1e-12)
    loo = [np.exp(m.calibration.log_probabilities(m.posterior.loo_log_class_probabilities())) for m in clf.members_]
    assert_allclose(clf.loo(), np.tensordot(weights, loo, 1), rtol=1e-12)
    codes = np.searchsorted(clf.classes_, y)
    assert_allclose(clf.calibration_.nlpd_after, -np.mean(np.log(clf.loo()[np.arange(len(y)), codes])), rtol=1e-9)
    save(clf, tmp_path / "m")
    again = load(tmp_path / "m")
    assert_allclose(again.predict_log_proba(new), clf.predict_log_proba(new), rtol=1e-9, atol=1e-12)
    assert_allclose(again.loo(), clf.loo(), rtol=1e-9, atol=1e-12)
    assert [str(m.kernel) for m in again.members_] == [str(m.kernel) for m in clf.members_]


def test_kernel_auto_without_calibration_and_with_inducing_points():
    X, y = two_classes(90)
    plain = GPClassifier("auto", calibrate=None, random_state=0).fit(X, y)
    assert all(member.calibration.is_identity for member in plain.members_)
    sparse = GPClassifier("auto", inference="scalable-ep", random_state=0).fit(X, y)
    assert len(sparse.members_) >= 1
    assert_allclose(sparse.predict_proba(X).sum(1), 1.0, rtol=1e-9)


# integration ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 2, 3, 4, 7])
def test_design_is_exact_for_mass_and_variance_of_a_normal_density(p):
    z = central_composite(p)
    f2 = 1.1**2
    weights = np.append(1 - 1 / f2, np.full(len(z) - 1, 1 / (f2 * (len(z) - 1))))
    assert_allclose(weights.sum(), 1.0)
    assert_allclose(weights @ z, 0.0, atol=1e-12)
    assert_allclose((weights[:, None] * z).T @ z, np.eye(p), atol=1e-12)


class Quadratic:
    """An objective that is a normal log density of θ, so that the integral is known."""

    def __init__(self, mean, cov):
        self.mean, self.cov, self.X = np.asarray(mean), np.asarray(cov), np.zeros((1, 1))
        self.bounds = np.tile([-50.0, 50.0], (len(mean), 1))
        self.fitted = []

    def fit(self, theta, start=None, tol=0.0):
        return self.loose_fit(theta)

    def loose_fit(self, theta, start=None, tol=0.0):
        from types import SimpleNamespace

        value = multivariate_normal.logpdf(theta, self.mean, self.cov)
        gradient = np.linalg.solve(self.cov, self.mean - theta)
        return SimpleNamespace(theta=np.array(theta), value=value, gradient=gradient, fit=None, kernel=np.array(theta))

    evaluate = loose_fit


def test_a_normal_posterior_of_hyperparameters_keeps_its_moments():
    cov = np.array([[0.09, 0.03], [0.03, 0.25]])
    objective = Quadratic([0.3, -1.0], cov)
    assert_allclose(curvature(objective, objective.fit(objective.mean)), np.linalg.inv(cov), rtol=1e-9)
    learned = Learned(None, None, None, None, [], 1)
    object.__setattr__(learned, "kernel", type("K", (), {"theta": objective.mean}))
    object.__setattr__(learned, "likelihood", type("L", (), {"theta": np.zeros(0)}))
    mixture = integrated(objective, learned)
    weights = np.array([member.weight for member in mixture.members])
    thetas = np.array([member.kernel for member in mixture.members])
    mean = weights @ thetas
    assert_allclose(mean, objective.mean, atol=1e-6)
    assert_allclose((weights[:, None] * (thetas - mean)).T @ (thetas - mean), cov, rtol=1e-4, atol=1e-6)


def test_integrated_predictions_are_near_a_fine_grid():
    """Probabilities averaged over a grid of (log lengthscale, log variance) that covers the posterior."""
    X, y = two_classes(30, seed=4)
    new = np.array([[0.0, 0.0], [1.0, -1.0], [2.5, 2.5], [-1.0, 0.3]])
    prior = {"lengthscale": Normal(0.0, 0.6), "variance": Normal(1.0, 1.0)}
    clf = GPClassifier(RBF(1.0, 3.0), priors=prior, hyper="integrate", calibrate=None, random_state=0).fit(X, y)
    objective = Objective(X, y, RBF(1.0, 3.0), Probit(), EP(), [Normal(0.0, 0.6), Normal(1.0, 1.0)])
    mode = clf.members_[0].kernel.theta if len(clf.members_) == 1 else clf.kernel_.theta
    values, ps = [], []
    for a in np.linspace(-1.6, 1.6, 15):
        for b in np.linspace(-3.2, 3.2, 15):
            found = objective.loose_fit(mode + np.array([a, b]))
            values.append(found.value)
            ps.append(np.exp(found.fit.log_class_probabilities(found.kernel(X, new), found.kernel.diag(new))))
    weights = np.exp(np.array(values) - max(values))
    truth = np.tensordot(weights / weights.sum(), ps, 1)
    at_mode = GPClassifier(RBF(1.0, 3.0), priors=prior, calibrate=None, random_state=0).fit(X, y).predict_proba(new)
    error = np.abs(clf.predict_proba(new) - truth).max()
    assert error < 0.01
    assert error < np.abs(at_mode - truth).max()


def test_integration_is_saved_and_calibrated(tmp_path):
    X, y = three_classes(45)
    clf = GPClassifier(hyper="integrate", random_state=0).fit(X, y)
    assert len(clf.members_) > 4
    assert clf.calibration_.n_rows == 45
    save(clf, tmp_path / "m")
    assert_allclose(load(tmp_path / "m").predict_proba(X), clf.predict_proba(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hyper": "integrate", "inference": "mcmc"}, "is a sampler"),
        ({"hyper": "integrate", "inference": "scalable-ep"}, "uses all rows"),
        ({"hyper": "integrate", "kernel": "auto"}, "choose one"),
        ({"hyper": "average"}, "hyper must be 'mode' or 'integrate'"),
    ],
)
def test_settings_that_do_not_go_together(settings, message):
    X, y = two_classes(20)
    with pytest.raises(ValueError, match=message):
        GPClassifier(**settings).fit(X, y)


@pytest.mark.parametrize(
    ("settings", "message"), [({"kernel": "auto"}, "needs arrays"), ({"hyper": "integrate"}, "uses all rows")]
)
def test_streams_have_one_member(settings, message):
    X, y = two_classes(40)
    with pytest.raises(ValueError, match=message):
        GPClassifier(inference="svgp", **settings).fit([(X[:20], y[:20]), (X[20:], y[20:])])


def test_a_stack_is_not_updated():
    X, y = two_classes(40)
    clf = GPClassifier("auto", inference="ivm", random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="cannot continue"):
        clf.partial_fit(X[:3], y[:3])
