"""Factors of float32, and the context that asks for them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.numerics import Factor, factor_dtype, refined, scaled_plus_identity, single_precision

EPS = np.finfo(np.float32).eps


@pytest.fixture
def K():
    x = np.linspace(0, 3, 230)
    return 5 * np.exp(-0.5 * np.subtract.outer(x, x) ** 2)


def factors(K):
    root = np.linspace(0.1, 1.5, len(K))
    return [Factor(scaled_plus_identity(K, root, dtype)) for dtype in (np.float64, np.float32)]


def test_a_context_sets_the_precision_of_factors_and_ends():
    assert factor_dtype() == np.float64
    with single_precision():
        assert factor_dtype() == np.float32
        with single_precision(False):
            assert factor_dtype() == np.float64
    assert factor_dtype() == np.float64


def test_a_factor_of_float32_answers_as_one_of_float64_to_its_rounding(K):
    double, single = factors(K)
    bound = 20 * EPS * (1 + 1.5**2 * np.max(K))  # eps × largest entry; the norm of the inverse is at most one
    x = np.cos(np.arange(len(K)))
    assert_allclose(single.log_det, double.log_det, atol=len(K) * bound)
    assert_allclose(single.diag_inverse(), double.diag_inverse(), atol=bound)
    assert_allclose(np.tril(single.inverse_lower()), np.tril(double.inverse_lower()), atol=bound)
    assert_allclose(single.solve(x), double.solve(x), atol=len(K) ** 0.5 * bound)
    assert single.inverse_lower().dtype == np.float32


def test_a_rounded_factor_whitens_rows_of_float32(K):
    double, _ = factors(K)
    rows = np.cos(np.arange(3 * len(K))).reshape(3, -1)
    rounded = double.rounded(np.float32)
    single, exact = rows.astype(np.float32), rows.copy()
    rounded.whiten_rows(single)
    double.whiten_rows(exact)
    assert single.dtype == np.float32
    assert_allclose(single, exact, atol=100 * EPS)  # the condition of the factor is about 40
    assert double.rounded(np.float64) is double


def test_refinement_says_if_a_factor_of_float32_is_too_coarse():
    """A solver with errors of 90 % shrinks the residual to 0.81 in two steps; in float64 the best solution is returned."""
    right = np.ones(4)

    def check(x):
        return right - x, None

    with pytest.raises(np.linalg.LinAlgError, match="float32 factor solves a linear system only to a residual of 8e-01"):
        refined(right, lambda r: 0.1 * r, check, dtype=np.float32)
    assert_allclose(refined(right, lambda r: 0.1 * r, check)[0], 0.19)
