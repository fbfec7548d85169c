"""K that is too large for its rank: every error or warning states the scale, a safe scale and a remedy."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_wine

from gpclass import GPClassifier
from gpclass.gaussian.rounding import SMALLER, factor_of_B
from gpclass.kernels import Polynomial
from gpclass.numerics import NotPositiveDefinite, scaled_plus_identity
from gpclass.sparse import SVGP

RNG = np.random.default_rng(0)
UNITS = np.array([1.0, 10.0, 100.0, 1000.0])  # columns in raw units
X = RNG.normal(size=(60, 4)) * UNITS
TWO = (X[:, 0] + (X[:, 1] / 10) ** 2 > 0.5).astype(int)
THREE = TWO + (X[:, 2] > 0)
DENSE = ["laplace", "tap", "kl", "vb", "lr"]
COUPLED = ["laplace", "nested-ep", "independent-ep", "quadrature-ep", "mean-field-probit", "variational-mnl", "sparse-mnl"]


@pytest.mark.parametrize(("name", "y"), [*((name, TWO) for name in DENSE), *((name, THREE) for name in COUPLED)])
def test_the_error_names_the_scale_of_K_and_the_remedy(name, y):
    """Polynomial(3) of these inputs: K of 1e21 and rank 35, whose rounding of 1e5 outweighs the identity in B."""
    kernel = Polynomial(3)
    largest = np.max(kernel.diag(X))
    with pytest.raises(NotPositiveDefinite) as raised:
        GPClassifier(kernel, inference=name, optimizer=None).fit(X, y)
    said = str(raised.value)
    assert f"entries of {largest:.0e}" in said
    assert "entries up to 1e+08 are safe" in said
    assert SMALLER in said


# from the centres of clusters of two classes SVGP settles
@pytest.mark.parametrize(("name", "y"), [("ep", TWO), (SVGP(inputs="k-means++"), TWO), ("svgp", THREE)], ids=str)
def test_so_does_the_warning_of_a_run_that_does_not_settle(name, y):
    with pytest.warns(match=SMALLER):
        GPClassifier(Polynomial(3), inference=name, optimizer=None).fit(X, y)


@pytest.mark.parametrize("name", ["laplace", "variational-mnl", "sparse-mnl"])
def test_the_remedy_helps(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        GPClassifier(Polynomial(3), inference=name, optimizer=None).fit(X / UNITS, THREE)


def test_raw_wine():
    with pytest.raises(NotPositiveDefinite, match=SMALLER):
        GPClassifier(Polynomial(3), inference="laplace", optimizer=None).fit(*load_wine(return_X_y=True))


def test_a_matrix_that_is_no_covariance_is_not_blamed_on_its_scale():
    K = np.array([[1.0, 3.0], [3.0, 1.0]])
    with pytest.raises(NotPositiveDefinite, match="Is the kernel valid for these inputs"):
        factor_of_B(scaled_plus_identity(K, np.ones(2)), "B", K)
