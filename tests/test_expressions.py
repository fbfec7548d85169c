"""Kernels written as text: sums and products, every name, errors."""

import numpy as np
import pytest

from gpclass.expressions import KERNELS, kernel_names, parse_kernel, rounded, written
from gpclass.kernels import RBF, Constant, Linear


def test_kernels_from_text():
    kernel = parse_kernel("rbf-ard + linear * (rbf + constant)", n_columns=3, distance=2.0)
    inside = RBF(2.0, 4.0) + Constant(1.0)
    by_hand = RBF([2.0, 2.0, 2.0], 4.0) + Linear(1.0, 4.0 / 3) * inside
    X = np.random.default_rng(0).normal(size=(5, 3))
    assert kernel.names == by_hand.names
    assert np.array_equal(kernel(X), by_hand(X))


@pytest.mark.parametrize("name", [name for name in kernel_names() if name != "precomputed"])
def test_every_name_is_a_kernel_for_these_columns(name):
    X = np.random.default_rng(0).normal(size=(6, 4))
    kernel = parse_kernel(name.upper(), n_columns=4)
    assert type(kernel) is KERNELS[name.removesuffix("-ard")]
    assert np.all(np.linalg.eigvalsh(kernel(X)) > -1e-9)  # rounding of a 6 × 6 matrix of numbers near ten
    assert np.all(kernel.diag(X) < 40)
    if name.endswith("-ard"):
        assert len(kernel.lengthscale) == 4


def test_a_product_has_one_free_variance():
    assert [name for name in parse_kernel("rbf * matern32 * linear", 2).names if "variance" in name] == ["rbf.variance"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "ends where a kernel is expected"),
        ("rbf +", "ends where a kernel is expected"),
        ("rbf + * linear", r"has '\*' where a kernel is expected"),
        ("rbf linear", "should end before 'linear'"),
        ("(rbf", "is not closed"),
        ("rbf)", r"should end before '\)'"),
        ("rfb", "did you mean 'rbf'"),
        ("constant-ard", "no kernel 'constant-ard'"),
        ("2 * rbf", "is none of these"),
        ("rbf_ard", "Did you mean 'rbf-ard'"),
        ("__import__('os').system('true')", "is none of these"),
        ("(" * 40 + "rbf" + ")" * 40, "30 nested parentheses"),
        ("rbf+" * 6000, "20000 characters"),
        ("rbf(lengthscale=-1)", "'lengthscale=-1' is none of these"),
        ("rbf(lengthscale=x)", "is none of these"),
        ("rbf(lengthscale=1, lengthscale=2)", "'lengthscale' twice"),
        ("rbf(lengthscale=0)", "lengthscale must be a positive finite number"),
        ("rbf(length=1)", "no setting 'length'"),
        ("rbf(lengthscale=1", "is none of these"),
        ("rbf(ard=1)", "is written rbf-ard"),
        ("rbf(__class__=1)", "is none of these"),
    ],
)
def test_bad_expressions_are_refused(text, told):
    with pytest.raises(ValueError, match=told):
        parse_kernel(text, 3)


def test_settings_replace_starting_values():
    kernel = parse_kernel("RBF-ARD(lengthscale=[1, 2.5], variance=3e0) + linear * (rbf(lengthscale=5e-2,) + constant)", 2)
    by_hand = RBF([1.0, 2.5], 3.0) + Linear(1.0, 2.0) * (RBF(0.05, 4.0) + Constant(1.0))
    X = np.random.default_rng(0).normal(size=(5, 2))
    assert np.array_equal(kernel(X), by_hand(X))
    assert parse_kernel("polynomial(degree=3)", 2).degree == 3


@pytest.mark.parametrize(
    "text",
    ["rbf", "rbf-ard + linear", "rbf * (linear-ard + constant)", "polynomial", "rational-quadratic * rbf(variance=2)"],
)
def test_a_kernel_is_written_as_the_expression_that_makes_it(text):
    rng = np.random.default_rng(1)
    kernel = parse_kernel(text, 3)
    kernel = kernel.with_theta(kernel.theta + rng.normal(size=len(kernel.theta)))
    again = parse_kernel(written(text, kernel), 3)
    X = rng.normal(size=(5, 3))
    assert np.array_equal(again(X), rounded(kernel)(X))
    assert np.allclose(again(X), kernel(X), rtol=1e-4)  # six digits of each value
