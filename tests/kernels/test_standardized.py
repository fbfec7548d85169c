"""Kernels in units of the columns' spreads, settings by name, and lengthscales before the number of columns is known."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gpclass.kernels import (
    RBF,
    ClassCovariance,
    Correlated,
    Linear,
    Matern32,
    Matern52,
    PerClass,
    Periodic,
    Polynomial,
    RationalQuadratic,
    Standardized,
    White,
)
from gpclass.kernels.columns import KernelColumns
from gpclass.testing import check_kernel

rng = np.random.default_rng(2)
X, Z = 10 + 3 * rng.normal(size=(9, 2)), 10 + 3 * rng.normal(size=(4, 2))
CENTRE, SPREAD = np.array([10.0, 9.0]), np.array([3.0, 0.5])
INNER = RBF([1.5, 0.7], 2.0) + Linear() * White(0.3)
KERNEL = Standardized(INNER, CENTRE, SPREAD)


def scaled(A):
    return (A - CENTRE) / SPREAD


def test_values_are_those_at_standardised_inputs():
    assert_array_equal(KERNEL(X), INNER(scaled(X)))
    assert_array_equal(KERNEL(X, Z), INNER(scaled(X), scaled(Z)))
    assert_array_equal(KERNEL.diag(X), INNER.diag(scaled(X)))
    assert_array_equal(KERNEL.seen(X), scaled(X))
    columns = KernelColumns(KERNEL, X).columns(np.array([2, 5]))
    assert_allclose(columns, KERNEL(X)[:, [2, 5]], rtol=1e-13)


@pytest.mark.parametrize("kernel", [INNER, Periodic(1.2, 2.5), Polynomial(2), Linear([1.0, 2.0]), RBF().fix("variance")])
def test_kit(kernel):
    check_kernel(Standardized(kernel, CENTRE, SPREAD), X, Z)


@pytest.mark.parametrize("kernel", [INNER, Linear([1.0, 2.0]), Matern32([1.0, 2.0])])
def test_kit_with_compressed_tails(kernel):
    far = np.abs(scaled(X)) > 0.8
    assert 4 < far.sum() < far.size - 4  # the derivatives are tested inside and outside
    check_kernel(Standardized(kernel, CENTRE, SPREAD, tail=0.8), X, Z)


def test_tails_are_logarithms():
    u = np.array([[0.0, 2.9], [3.0, -3.0], [-3.0 * np.e, 3.0 * np.e**2]])
    seen = Standardized(RBF(), CENTRE, SPREAD, tail=3.0).seen(CENTRE + SPREAD * u)
    assert_allclose(seen, [[0.0, 2.9], [3.0, -3.0], [-6.0, 9.0]], rtol=1e-13)
    rows = CENTRE + SPREAD * np.linspace(2.9, 3.1, 5)[:, None]  # continuous and differentiable
    assert_allclose(np.diff(Standardized(RBF(), CENTRE, SPREAD, tail=3.0).seen(rows), axis=0), 0.05, rtol=0.03)


def test_terms_of_a_sum_stay_visible():
    whole = KERNEL.parts()
    assert [part.kernel for part in whole] == [Standardized(part.kernel, CENTRE, SPREAD) for part in INNER.parts()]
    for mine, plain in zip(whole, INNER.parts(), strict=True):
        assert_array_equal(mine.own, plain.own)
        assert_array_equal(mine.theta, plain.theta)
    assert_array_equal(KERNEL.off(), INNER.off())
    assert KERNEL.names == INNER.names
    assert KERNEL.leaves == INNER.leaves
    assert KERNEL._with_leaves(iter(INNER.leaves)) == KERNEL
    assert Standardized(RBF(2.0), CENTRE, SPREAD).lengthscale == 2.0
    assert KERNEL.class_kernels == (KERNEL,)
    assert KERNEL.separated == (KERNEL, None)


def test_it_combines_with_other_kernels():
    assert_allclose((KERNEL + RBF())(X), KERNEL(X) + RBF()(X), rtol=1e-14)
    check_kernel(KERNEL * RBF(4.0), X, Z)
    assert_array_equal((KERNEL + RBF()).seen(X), scaled(X))
    assert PerClass(KERNEL, KERNEL)(X).shape == (2, 9, 9)
    assert_array_equal(Correlated(KERNEL, ClassCovariance(2)).separated[0](X), KERNEL(X))
    assert (KERNEL * KERNEL).own_units
    assert PerClass(KERNEL, KERNEL).own_units
    assert Correlated(KERNEL, ClassCovariance(2)).own_units
    assert not (KERNEL + RBF()).own_units
    assert not INNER.own_units


def test_identity():
    assert copy.deepcopy(KERNEL) == KERNEL
    assert hash(copy.deepcopy(KERNEL)) == hash(KERNEL)
    assert Standardized(INNER, CENTRE, 2 * SPREAD) != KERNEL
    assert Standardized(INNER, CENTRE, SPREAD, tail=3.0) != KERNEL
    assert Standardized(INNER, -0.0 * CENTRE, SPREAD) == Standardized(INNER, 0.0 * CENTRE, SPREAD)
    assert repr(Standardized(RBF(2.0), CENTRE, SPREAD)) == "Standardized(RBF(lengthscale=2, variance=1))"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((PerClass(RBF(), RBF()), CENTRE, SPREAD), TypeError, "inside PerClass"),
        ((RBF(), CENTRE, [1.0, 0.0]), ValueError, "positive"),
        ((RBF(), CENTRE, [1.0]), ValueError, "one per column"),
        ((RBF(), [np.nan, 0.0], SPREAD), ValueError, "finite"),
        ((RBF(), 1.0, SPREAD), ValueError, "vector"),
        ((RBF(), CENTRE, SPREAD, 0.0), ValueError, "tail must be positive"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        Standardized(*arguments)


def test_inputs_that_do_not_fit():
    with pytest.raises(ValueError, match="2 columns; got 3"):
        KERNEL(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="overflow"):
        Standardized(RBF(), [0.0], [1e-10])([[1e300]])


# -- settings --------------------------------------------------------------------------------------------------------------


def test_settings_of_a_leaf():
    kernel = RBF([1.0, 2.0], 3.0, bounds={"variance": (0.1, 10.0)}).fix("lengthscale[1]")
    assert list(kernel.settings()) == ["lengthscale", "variance", "ard"]
    changed = kernel.with_settings(lengthscale=[5.0, 6.0], variance=4.0)
    assert_array_equal(changed.lengthscale, [5.0, 6.0])
    assert changed.variance == 4.0
    assert changed.names == kernel.names
    assert_array_equal(changed.bounds, kernel.bounds)
    one = kernel.with_settings(lengthscale=2.0)
    assert one.names == ["lengthscale", "variance"]
    assert Polynomial(2).with_settings(degree=3).degree == 3
    for settings, message in (
        ({"variance": 11.0}, "outside its bounds, 0.1 to 10"),
        ({"period": 1.0}, "no setting 'period'; it has lengthscale, variance, ard"),
        ({"variance": -1.0}, "positive"),
    ):
        with pytest.raises(ValueError, match=message):
            kernel.with_settings(**settings)


def test_settings_of_combinations():
    kernel = Standardized(RBF(1.0) + RBF(2.0) * Linear(), CENTRE, SPREAD)
    assert kernel.settings()["rbf2__lengthscale"] == 2.0
    changed = kernel.with_settings(rbf2__lengthscale=5.0, linear__variance=7.0)
    assert changed == Standardized(RBF(1.0) + RBF(2.0).with_settings(lengthscale=5.0) * Linear().with_settings(variance=7.0),
                                   CENTRE, SPREAD)  # fmt: skip
    each = PerClass(RBF(1.0), RBF(2.0) + White())
    assert each.with_settings(class1__rbf__lengthscale=3.0).settings()["class1__rbf__lengthscale"] == 3.0
    together = Correlated(RBF(1.0), ClassCovariance(3))
    assert together.with_settings(lengthscale=3.0).kernel.lengthscale == 3.0
    for one, name in ((kernel, "rbf__lengthscale"), (each, "lengthscale"), (together, "rbf__lengthscale")):
        with pytest.raises(ValueError, match="no setting"):
            one.with_settings(**{name: 1.0})


# -- one lengthscale per column --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [RBF, Matern32, Matern52, RationalQuadratic, Periodic, Linear, Polynomial])
def test_ard_is_a_vector_as_soon_as_the_columns_are_known(cls):
    wanted = cls(lengthscale=[2.0, 2.0, 2.0])
    kernel = cls(lengthscale=2.0, ard=True)
    assert kernel.for_columns(3) == wanted
    assert wanted.for_columns(3) is wanted
    assert cls(lengthscale=[2.0, 2.0, 2.0], ard=True) == wanted
    assert cls(lengthscale=2.0).for_columns(3) == cls(lengthscale=2.0)
    assert copy.deepcopy(kernel) == kernel != cls(lengthscale=2.0)
    assert "2 per column" in repr(kernel)
    with pytest.raises(ValueError, match=r"for_columns\(3\)"):
        kernel(np.zeros((2, 3)))


def test_ard_within_other_kernels():
    kernel, wanted = RBF(ard=True), RBF([1.0, 1.0])
    assert (kernel * Linear() + White()).for_columns(2) == wanted * Linear() + White()
    assert Standardized(kernel, CENTRE, SPREAD).for_columns(2) == Standardized(wanted, CENTRE, SPREAD)
    assert PerClass(kernel, RBF()).for_columns(2) == PerClass(wanted, RBF())
    between = ClassCovariance(2)
    assert Correlated(kernel, between).for_columns(2) == Correlated(wanted, between)
    fixed = RBF(2.0, ard=True, bounds={"lengthscale": (1.0, 4.0)}).fix("lengthscale")
    assert fixed.for_columns(2) == RBF([2.0, 2.0], bounds={"lengthscale": (1.0, 4.0)}).fix("lengthscale")
    assert kernel.with_settings(ard=False) == RBF()
    assert RBF().with_settings(ard=True) == kernel
