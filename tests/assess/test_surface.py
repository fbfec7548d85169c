"""Surfaces against single fits with cold starts, known limits, and engines that fail on purpose."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtr
from sklearn.exceptions import ConvergenceWarning

from gpclass.assess.metrics import information_score
from gpclass.assess.surface import Surface, _probabilities, evidence_surface
from gpclass.inference import EP, FV, KL, TAP, VB, LabelRegression, Laplace, TAPNaive
from gpclass.kernels import RBF, Linear, Polynomial, RationalQuadratic
from gpclass.likelihoods import Gaussian, Heaviside, Logit, Probit
from tests.problems import two_classes

ENGINES = [Laplace(), EP(), TAP(), TAPNaive(), KL(), VB(), FV(), LabelRegression()]
GRID = {"log_lengthscales": [-0.5, 0.5, 1.5], "log_scales": [-1.0, 1.0, 2.5, 4.0]}


def data(n=24, m=15, seed=0):
    X, y = two_classes(n + m, seed, labels=(-1, 1))
    return X[:n], y[:n], X[n:], y[n:]


X, Y, X_TEST, Y_TEST = data()


@pytest.mark.parametrize("likelihood", [Logit(), Probit()], ids=["logit", "probit"])
@pytest.mark.parametrize("engine", ENGINES, ids=lambda e: type(e).__name__)
def test_every_point_is_what_a_cold_fit_gives(engine, likelihood):
    surface = evidence_surface(X, Y, RBF, likelihood, engine, **GRID, X_test=X_TEST, y_test=Y_TEST)
    baseline = -np.mean(np.log([np.mean(label == Y) for label in Y_TEST]))
    for i, log_scale in enumerate(GRID["log_scales"]):
        for j, log_lengthscale in enumerate(GRID["log_lengthscales"]):
            k = RBF(np.exp(log_lengthscale), np.exp(2 * log_scale))
            fit = engine.fit(k(X), Y, likelihood)
            latent = fit.predict(k(X, X_TEST), k.diag(X_TEST))
            p = likelihood.predictive(*latent)
            bits = (np.mean(likelihood.log_predictive(Y_TEST, *latent)) + baseline) / np.log(2)  # in logs: p may be 1
            # engines stop at moves of 1e-8 or 1e-7 posterior standard deviations; these are sums over 24 points
            assert_allclose(surface.log_evidence[i, j], fit.log_evidence, atol=1e-6)
            assert_allclose(surface.jensen_bound[i, j], fit.jensen_bound(), atol=2e-5)  # steep where it is not maximised
            assert_allclose(surface.information[i, j], bits, atol=1e-6)
            assert surface.errors[i, j] == np.sum(np.where(p > 0.5, 1, -1) != Y_TEST)
    assert surface.converged.all()


def test_no_latent_scale_means_coin_flips():
    surface = evidence_surface(X, Y, log_lengthscales=[0.0, 2.0], log_scales=[-14.0], X_test=X_TEST, y_test=Y_TEST)
    assert_allclose(surface.log_evidence, -len(Y) * np.log(2), atol=1e-5)  # first order in σ_f = 8e-7
    assert_allclose(surface.information, information_score(Y_TEST, np.full(len(Y_TEST), 0.5), Y), atol=1e-5)


def test_labels_of_any_kind():
    names = np.where(Y > 0, "spam", "ham")
    wanted = evidence_surface(X, Y, **GRID, X_test=X_TEST, y_test=Y_TEST)
    found = evidence_surface(X, names, **GRID, X_test=X_TEST, y_test=np.where(Y_TEST > 0, "spam", "ham"))
    for quantity in ("log_evidence", "jensen_bound", "information", "errors"):
        assert_array_equal(found.get(quantity), wanted.get(quantity))


def test_kernels_as_class_function_or_object():
    by_class = evidence_surface(X, Y, RBF, **GRID).log_evidence
    assert_allclose(evidence_surface(X, Y, RBF(9.0, 9.0).fix("variance"), **GRID).log_evidence, by_class, atol=1e-9)
    quadratic = evidence_surface(X, Y, RationalQuadratic(alpha=1e7), **GRID).log_evidence  # nearly RBF: alpha is kept
    assert_allclose(quadratic, by_class, atol=1e-4)
    cubic = evidence_surface(X, Y, partial(Polynomial, 3), **GRID).log_evidence
    assert_allclose(evidence_surface(X, Y, Polynomial(3), **GRID).log_evidence, cubic, atol=1e-9)
    # ln ℓ and -ln σ_f are the same for a linear kernel
    linear = evidence_surface(X, Y, Linear, log_lengthscales=[-0.5, 0.5], log_scales=[0.0, 1.0]).log_evidence
    assert_allclose(linear[0, 0], linear[1, 1], atol=1e-8)


@pytest.mark.parametrize("likelihood", [Heaviside(), Gaussian(0.5)], ids=lambda lik: type(lik).__name__)
def test_other_likelihoods(likelihood):
    surface = evidence_surface(X, Y, RBF, likelihood, EP(), [0.0, 1.0], [0.0, 1.0], X_TEST, Y_TEST)
    assert np.isnan(surface.jensen_bound).all() == isinstance(likelihood, Heaviside)
    assert np.isfinite(surface.information).all()


def test_improbable_classes_keep_their_digits():
    P = _probabilities(Probit(), np.array([40.0, -40.0]), np.array([15.0, 15.0]))
    assert_allclose(P, [[ndtr(-10), 1], [1, ndtr(-10)]], rtol=1e-10)


def test_best():
    surface = evidence_surface(X, Y, **GRID, X_test=X_TEST, y_test=Y_TEST)
    row, column = np.argwhere(surface.log_evidence == surface.log_evidence.max())[0]
    assert_allclose(surface.best(), np.exp([surface.log_lengthscale[column], surface.log_scale[row]]))
    row, column = np.argwhere(surface.errors == surface.errors.min())[0]
    assert_allclose(surface.best("errors"), np.exp([surface.log_lengthscale[column], surface.log_scale[row]]))


class Moody:
    """EP that fails at given hyperparameters, with warm or cold starts."""

    def __init__(self, breaks, how="raise"):
        self.breaks, self.how, self.warm_starts = breaks, how, 0

    def fit(self, K, y, likelihood, start=None):
        self.warm_starts += start is not None
        if self.breaks(K, start):
            if self.how == "raise":
                raise np.linalg.LinAlgError("K is moody")
            return EP(max_iter=1).fit(K, y, likelihood)
        return EP().fit(K, y, likelihood, start)


@pytest.mark.parametrize("how", ["raise", "stop early"])
def test_a_bad_warm_start_gives_way_to_a_cold_one(how):
    engine = Moody(lambda K, start: start is not None, how)
    found = evidence_surface(X, Y, engine=engine, **GRID)
    assert engine.warm_starts == found.log_evidence.size - 1
    assert found.converged.all()
    assert_allclose(found.log_evidence, evidence_surface(X, Y, **GRID).log_evidence, atol=1e-6)


def test_failures_are_marked_and_reported_once():
    wanted = evidence_surface(X, Y, **GRID, X_test=X_TEST, y_test=Y_TEST)
    engine = Moody(lambda K, start: np.isclose(K[0, 0], np.exp(2.0)))  # the second row
    complaint = "Moody failed .* at 3 of 12 .*ln ℓ = -0.5, ln σ_f = 1: .*K is moody"
    with pytest.warns(ConvergenceWarning, match=complaint) as told:
        found = evidence_surface(X, Y, engine=engine, **GRID, X_test=X_TEST, y_test=Y_TEST)
    assert len(told) == 1
    bad = np.zeros((4, 3), dtype=bool)
    bad[1] = True
    assert_array_equal(found.converged, ~bad)
    for quantity in ("log_evidence", "jensen_bound", "information", "errors"):
        assert_array_equal(np.isnan(found.get(quantity)), bad)
        assert_allclose(found.get(quantity)[~bad], wanted.get(quantity)[~bad], atol=1e-5)


def test_unfinished_fits_are_kept_and_marked():
    with pytest.warns(ConvergenceWarning, match="stopped early after 1 sweeps"):
        surface = evidence_surface(X, Y, engine=Laplace(max_iter=1), **GRID)
    assert not surface.converged.all()
    assert np.isfinite(surface.log_evidence).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.arange(24) % 3, "likelihood": Probit()}, r"two classes; it has 3: \[0, 1, 2\]"),
        ({"y": np.ones(24)}, "two classes; it has 1"),
        ({"y": Y[:, None]}, "must be a vector of labels"),
        ({"X_test": X_TEST}, "both X_test and y_test"),
        ({"X_test": X_TEST, "y_test": np.zeros(15)}, r"y_test has labels that are not among the classes \[.*\]: 0.0"),
        ({"X_test": X_TEST, "y_test": Y_TEST[:3]}, "X_test has 15 rows but y_test has 3"),
        ({"log_scales": [1.0, 0.0]}, "log_scales must be .* increasing"),
        ({"log_lengthscales": 1.0}, "log_lengthscales must be a vector"),
        ({"kernel": RBF([1.0, 2.0])}, "one lengthscale and one variance"),
        ({"kernel": RBF() + RBF()}, "function of lengthscale= and variance="),
    ],
)
def test_errors_say_what_is_wrong(change, message):
    with pytest.raises(ValueError, match=message):
        evidence_surface(**({"X": X, "y": Y} | GRID | change))


def test_more_errors():
    with pytest.raises(TypeError, match="kernel must be a kernel class, a kernel or text"):
        evidence_surface(X, Y, 3)
    with pytest.raises(ValueError, match="did you mean 'rbf'"):
        evidence_surface(X, Y, "rbff")
    surface = evidence_surface(X, Y, log_lengthscales=[0.0], log_scales=[0.0])
    with pytest.raises(ValueError, match="quantity must be one of log_evidence"):
        surface.best("evidence")
    with pytest.raises(ValueError, match="give evidence_surface X_test and y_test"):
        surface.best("information")
    nothing = Surface(np.zeros(1), np.zeros(1), *np.full((2, 1, 1), np.nan), np.zeros((1, 1), dtype=bool))
    with pytest.raises(ValueError, match="NaN everywhere"):
        nothing.best()
