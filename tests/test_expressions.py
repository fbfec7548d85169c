"""Kernels written as text: sums and products, every name, errors."""

import numpy as np
import pytest

from gpclass.expressions import KERNELS, kernel_names, parse_kernel
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
    assert len(kernel.names) >= 1
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
        ("__import__('os').system('true')", "is none of these"),
        ("(" * 40 + "rbf" + ")" * 40, "30 nested parentheses"),
        ("rbf+" * 1000, "2000 characters"),
    ],
)
def test_bad_expressions_are_refused(text, told):
    with pytest.raises(ValueError, match=told):
        parse_kernel(text, 3)
