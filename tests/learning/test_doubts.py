"""Warnings about parameters at a bound and about evidence below guessing."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from gpclass import GPClassifier, GPRegressor
from gpclass.inference import EP, NestedEP
from gpclass.kernels import RBF, Standardized, White
from gpclass.learning import Objective
from gpclass.learning.doubts import at_bounds, guessing_evidence
from gpclass.likelihoods import Gaussian, MultinomialProbit, Probit
from gpclass.sparse import SVGP

SVGP_OF_RBF = {"kernel": "rbf", "inference": SVGP(n_inducing=10, epochs=50)}


def line(n=100, D=2):
    """Labels that depend on the first column, with some noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, D))
    return X, (X[:, 0] + 0.3 * rng.normal(size=n) > 0).astype(int)


def quiet(kernel=None, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return GPClassifier(kernel, random_state=0, **settings).fit(*line())


def test_the_evidence_of_guessing():
    y = np.array([0, 0, 0, 1, 1, 2])
    objective = Objective(np.zeros((6, 1)), y, RBF(), MultinomialProbit(3), NestedEP(), [])
    assert guessing_evidence(objective) == pytest.approx(3 * np.log(3 / 6) + 2 * np.log(2 / 6) + np.log(1 / 6))
    assert guessing_evidence(Objective(np.zeros((6, 1)), 1.0 * y, RBF(), Gaussian(), EP(), [])) == -np.inf


def test_a_first_part_with_labels_of_one_class_does_not_warn():
    X, y = line()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GPClassifier("rbf", inference="scalable-ep", optimizer=None).partial_fit(X[y == 0], y[y == 0], classes=[0, 1])


@pytest.mark.parametrize("settings", [{}, {"optimizer": None}, {"inference": "laplace"}, SVGP_OF_RBF])
def test_labels_that_are_noise_warn(settings):
    rng = np.random.default_rng(0)
    with pytest.warns(ConvergenceWarning, match="guessing by class frequencies"):
        GPClassifier(random_state=0, **settings).fit(rng.normal(size=(80, 2)), np.arange(80) % 2)


@pytest.mark.parametrize(("kernel", "scales"), [(None, False), ("rbf", False), (RBF(), True)])
def test_columns_need_no_scale_if_the_kernel_has_units_of_its_own(kernel, scales):
    rng = np.random.default_rng(0)
    with pytest.warns(ConvergenceWarning, match="guessing by class frequencies") as caught:
        GPClassifier(kernel, optimizer=None).fit(rng.normal(size=(80, 2)), np.arange(80) % 2)
    assert ("Scale the columns" in str(caught[0].message)) == scales


def test_an_ordinary_fit_does_not_warn():
    quiet()
    quiet(optimizer=None)


@pytest.mark.parametrize("inference", ["auto", "ivm", "scalable-ep"])
@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ({"lengthscale": (0.5, 1.5)}, "lengthscale ended at its upper bound 1.5"),
        ({"variance": (0.5, 1.5)}, "variance ended at its upper bound 1.5"),
        ({"lengthscale": (9.0, 20.0), "variance": (0.1, 5.0)}, "lengthscale ended at its lower bound 9"),
    ],
)
def test_a_bound_that_holds_a_parameter_back_warns(inference, bounds, text):
    kernel = RBF(np.exp(np.mean(np.log(bounds.get("lengthscale", (1.0, 1.0))))), 1.0, bounds=bounds)
    with pytest.warns(ConvergenceWarning, match=text):
        GPClassifier(kernel, inference=inference, random_state=0).fit(*line())


def test_harmless_bounds_do_not_warn():
    model = quiet(RBF([1.0, 1.0], 1.0, bounds={"lengthscale": (1e-3, 1e3)}), priors=None)
    assert model.kernel_.lengthscale[1] > 100  # irrelevant: it may be at its bound
    quiet(RBF(2.0, 4.0, bounds={"lengthscale": (2.0, 2.0)}))  # a lengthscale that the user has fixed


def test_a_term_that_is_switched_off_is_no_doubt():
    X, y = line()
    kernel = RBF(2.0, 4.0, bounds={"variance": (0.1, 4.0)}) + White(bounds={"variance": (1e-6, 10.0)})
    objective = Objective(X, 2.0 * y - 1, kernel, Probit(), EP(), [])
    theta = kernel.theta
    theta[-1] = np.log(1e-6)
    (text,) = at_bounds(objective, theta, objective.evaluate(theta).gradient)
    assert "rbf.variance ended at its upper bound 4" in text


@pytest.mark.parametrize("own", [False, True])
def test_a_bound_in_units_of_the_columns_is_not_moved_by_their_scale(own):
    X, y = line()
    kernel = RBF(2.0, 4.0, bounds={"variance": (0.1, 4.0)})
    kernel = Standardized(kernel, X.mean(axis=0), X.std(axis=0)) if own else kernel
    objective = Objective(X, 2.0 * y - 1, kernel, Probit(), EP(), [])
    (text,) = at_bounds(objective, kernel.theta, objective.evaluate(kernel.theta).gradient)
    assert ("scale the inputs" in text) != own


def test_a_regressor_warns_of_bounds():
    X = np.linspace(0, 1, 40)[:, None]
    kernel = RBF(0.1, 1.0, bounds={"lengthscale": (0.01, 0.15)})
    with pytest.warns(ConvergenceWarning, match="upper bound 0.15"):
        GPRegressor(kernel, random_state=0).fit(X, np.sin(5 * X[:, 0]))
