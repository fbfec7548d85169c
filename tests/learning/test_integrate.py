"""Integrated hyperparameters: the design, against normal densities and a fine grid; files."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from gpclass import GPClassifier, load, save
from gpclass.inference import EP
from gpclass.kernels import RBF
from gpclass.learning import Learned, Member, Normal, Objective
from gpclass.learning.integrate import _stretches, central_composite, curvature, integrated
from gpclass.learning.members import Mixture
from gpclass.likelihoods import Probit
from tests.problems import three_bands, two_classes


def test_leave_one_out_weights_of_integrated_members():
    """Without row i, the posterior probability of θ is that given the other rows: Bayes' rule with n - 1 labels."""
    X, y = two_classes(25, noise=0.4)
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

    def fit(self, theta, start=None, tol=None):
        value = multivariate_normal.logpdf(theta, self.mean, self.cov)
        gradient = np.linalg.solve(self.cov, self.mean - theta)
        return SimpleNamespace(theta=np.array(theta), value=value, gradient=gradient, fit=None, kernel=np.array(theta))

    evaluate = fit


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


def test_the_design_is_stretched_to_the_width_of_each_side():
    """A density of two different normal halves: each side of an axis gets its own standard deviation."""
    below, above = np.array([0.6, 1.0]), np.array([1.3, 0.8])

    def fit(theta, start=None, tol=None):
        value = -0.5 * np.sum((theta / np.where(theta < 0, below, above)) ** 2)
        return SimpleNamespace(theta=theta, value=value, fit=None)

    objective = SimpleNamespace(fit=fit, bounds=np.tile([-50.0, 50.0], (2, 1)))
    assert_allclose(_stretches(objective, fit(np.zeros(2)), np.eye(2)), [below, above], rtol=1e-12)


def test_integrated_predictions_are_near_a_fine_grid():
    """Probabilities averaged over a grid of (log lengthscale, log variance) that covers the posterior."""
    X, y = two_classes(30, seed=4, noise=0.4)
    new = np.array([[0.0, 0.0], [1.0, -1.0], [2.5, 2.5], [-1.0, 0.3]])
    prior = {"lengthscale": Normal(0.0, 0.6), "variance": Normal(1.0, 1.0)}
    clf = GPClassifier(RBF(1.0, 3.0), priors=prior, hyper="integrate", calibrate=None, random_state=0).fit(X, y)
    objective = Objective(X, y, RBF(1.0, 3.0), Probit(), EP(), [Normal(0.0, 0.6), Normal(1.0, 1.0)])
    mode = clf.members_[0].kernel.theta if len(clf.members_) == 1 else clf.kernel_.theta
    values, ps = [], []
    for a in np.linspace(-1.6, 1.6, 15):
        for b in np.linspace(-3.2, 3.2, 15):
            found = objective.fit(mode + np.array([a, b]), tol=1e-6)
            values.append(found.value)
            ps.append(np.exp(found.fit.log_class_probabilities(found.kernel(X, new), found.kernel.diag(new))))
    weights = np.exp(np.array(values) - max(values))
    truth = np.tensordot(weights / weights.sum(), ps, 1)
    at_mode = GPClassifier(RBF(1.0, 3.0), priors=prior, calibrate=None, random_state=0).fit(X, y).predict_proba(new)
    error = np.abs(clf.predict_proba(new) - truth).max()
    assert error < 0.01
    assert error < np.abs(at_mode - truth).max()


def test_integration_is_saved_and_calibrated(tmp_path):
    X, y = three_bands(45)
    clf = GPClassifier(hyper="integrate", random_state=0).fit(X, y)
    assert len(clf.members_) > 4
    assert clf.calibration_.n_rows == 45
    save(clf, tmp_path / "m")
    assert_allclose(load(tmp_path / "m").predict_proba(X), clf.predict_proba(X), rtol=1e-9, atol=1e-12)
