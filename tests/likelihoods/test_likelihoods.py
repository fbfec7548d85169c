"""Every public likelihood passes the public checks, and the checks find one error in each of some faulty likelihoods."""

import inspect
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose

import gpclass.likelihoods as likelihoods
from gpclass.likelihoods import (
    Gaussian,
    Heaviside,
    LaplaceNoise,
    Likelihood,
    Logit,
    Multiclass,
    NullCategory,
    Ordinal,
    Poisson,
    Probit,
)
from gpclass.testing.integrals import expectation, tilted_truth
from gpclass.testing.likelihoods import check_likelihood

TARGETS = np.random.default_rng(0).normal(scale=2.0, size=15)
BINARY = [
    *(kind(*args) for kind in (Logit, Probit) for args in ((), (0.7,), (-1.3, True), (0.0, True))),
    *(Probit(epsilon=epsilon) for epsilon in (1e-8, 0.05, 0.6, 0.9)),
    Probit(-1.3, True, 0.2),
    Probit(epsilon=0.2, learn_epsilon=False),
    Heaviside(),
    Heaviside(0.0),
    Heaviside(0.2),
    *(NullCategory(width=width) for width in (0.0, 1.0, 6.0)),
    NullCategory(0.4, learn_bias=True, width=2.0),
]
REAL = [Gaussian(), Gaussian(0.3), LaplaceNoise(), LaplaceNoise(0.3)]
COUNTS = [
    *(Ordinal(cuts) for cuts in ((0.3,), (-1.0, 0.5, 2.0), (-2.0, -1.99, 3.0))),
    Poisson(),
    Poisson(0.4, learn_bias=True),
]


@pytest.mark.parametrize("likelihood", BINARY, ids=repr)
def test_kit(likelihood):
    check_likelihood(likelihood)


@pytest.mark.parametrize("width", [0.0, 0.5, 3.0, 6.0])
def test_kit_with_rows_without_a_label(width):
    check_likelihood(NullCategory(-0.3, True, width), np.tile([0.0, 1.0, 0.0, -1.0], 5))


@pytest.mark.parametrize("likelihood", REAL, ids=repr)
def test_kit_with_real_targets(likelihood):
    check_likelihood(likelihood, TARGETS)


@pytest.mark.parametrize("likelihood", COUNTS, ids=repr)
def test_kit_with_counts(likelihood):
    highest = getattr(likelihood, "n_categories", 9)
    check_likelihood(likelihood, np.arange(30) % highest)


def test_every_public_likelihood_of_one_latent_value_is_covered():
    members = {
        c for c in vars(likelihoods).values()
        if inspect.isclass(c) and issubclass(c, Likelihood) and not inspect.isabstract(c) and not issubclass(c, Multiclass)
    }  # fmt: skip
    assert {type(l) for l in [*BINARY, *REAL, *COUNTS]} == members
    assert {c.__name__ for c in members} <= set(likelihoods.__all__)


def test_kits_quadrature_knows_closed_forms():
    mean, var = np.array([0.3, -2.0, 5.0]), np.array([0.01, 9.0, 1.0])
    assert_allclose(expectation(lambda f: f**4, mean, var), mean**4 + 6 * mean**2 * var + 3 * var**2, rtol=1e-13)
    # Gaussian times exp(f) is the same Gaussian, moved by var
    mass, first, second = tilted_truth(lambda f: f, mean, var)
    assert_allclose(mass, mean + var / 2, rtol=1e-13)
    assert_allclose(first, mean + var, rtol=1e-13)
    assert_allclose(second, var, rtol=1e-12)


def test_bad_parameters():
    for kind in (Logit, Probit):
        for bias in (np.nan, np.inf):
            with pytest.raises(ValueError, match="bias must be a finite number"):
                kind(bias)
    for epsilon in (-0.1, 0.5, np.nan):
        with pytest.raises(ValueError, match=r"epsilon must be in \[0, 0.5\)"):
            Heaviside(epsilon)
    for variance in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="variance must be a positive number"):
            Gaussian(variance)


def test_bad_labels_are_named():
    with pytest.raises(ValueError, match=r"labels must be -1 or \+1, but y contains \[0, 1\].*GPClassifier"):
        Probit().check_targets([0, 1])
    with pytest.raises(ValueError, match=r"one-dimensional, but has shape \(2, 1\)"):
        Logit().check_targets([[1], [-1]])


# wrong on purpose: one slip each --------------------------------------------------------------------------------


@dataclass(frozen=True)
class WrongCurvature(Logit):
    def log_prob(self, y, f):
        value, slope, curvature = super().log_prob(y, f)
        return value, slope, 1.001 * curvature


@dataclass(frozen=True)
class WrongMass(Probit):
    def tilted_moments(self, y, mean, var):  # consistent in itself, but not with log_prob
        return super().tilted_moments(y, mean, 1.001 * var)


@dataclass(frozen=True)
class WrongSlopes(Probit):
    def tilted_slopes(self, y, mean, var):
        return super().tilted_slopes(y, mean, 1.001 * var)

    def tilted_moments(self, y, mean, var):
        return super().tilted_moments(y, mean, var)[0], *super().tilted_slopes(y, mean, var)


@dataclass(frozen=True)
class WrongExpectation(Probit):
    def expected_log_prob(self, y, mean, var):
        return super().expected_log_prob(y, mean, 1.001 * var)


@dataclass(frozen=True)
class WrongSign(Logit):
    def predictive(self, mean, var):
        return 1 - super().predictive(mean, var)


@dataclass(frozen=True)
class LooseBound(Logit):
    def bound(self, y, touch):
        constant, nu, tau = super().bound(y, touch)
        return constant - 1e-3, nu, tau


@dataclass(frozen=True)
class NoBound(Logit):
    def bound(self, y, touch):
        constant, nu, tau = super().bound(y, touch)
        return constant, nu, 0.9 * tau


@dataclass(frozen=True)
class PoorPoint(Logit):
    def bound_point(self, y, mean, var):
        return np.abs(mean + self.bias)


@dataclass(frozen=True)
class FixedTouch(Logit):
    def bound_curvature(self, y, mean, var):  # as if the best point of contact did not move with the mean
        return -self.bound(y, self.bound_point(y, mean, var))[2]


@dataclass(frozen=True)
class WrongTheta(Probit):
    def tilted_theta(self, y, mean, var):
        return -super().tilted_theta(y, mean, var)


@dataclass(frozen=True)
class TakesAnyLabel(Heaviside):
    def check_targets(self, y):
        y = np.asarray(y, float)
        if y.ndim != 1 or not np.all(np.isfinite(y)) or np.any(np.abs(y) == 0.5):
            raise ValueError
        return y


SLIPS = {
    WrongCurvature(): "log_prob's curvature against central differences",
    WrongMass(): "tilted_moments' log mass against quadrature",
    WrongSlopes(): "tilted_slopes against tilted_moments",
    WrongExpectation(): "half expected_log_prob's curvature|expected_log_prob against quadrature",
    WrongSign(): "predictive against quadrature",
    LooseBound(): "is nowhere tight",
    NoBound(): "exceeds log_prob by",
    PoorPoint(): "beats bound_point",
    FixedTouch(): "bound_curvature against central differences",
    WrongTheta(0.0, True): r"tilted_theta \(bias\) against central differences",
    TakesAnyLabel(): r"check_targets\(\[0, 1\]\) should raise ValueError",
}


@pytest.mark.parametrize("likelihood", SLIPS, ids=lambda l: type(l).__name__)
def test_kit_notices(likelihood):
    with pytest.raises(AssertionError, match=SLIPS[likelihood]):
        check_likelihood(likelihood)
