"""Conjugate gradients against direct solves."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gpclass.numerics import conjugate_gradients


def system(n=12, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    return root @ root.T / n + np.eye(n), rng.normal(size=n)


class Counted:
    """Matrix product with a counter of calls."""

    def __init__(self, A):
        self.A, self.calls = A, 0

    def __call__(self, x):
        self.calls += 1
        return self.A @ x


def test_solves_in_as_many_steps_as_dimensions():
    A, b = system()
    product = Counted(A)
    x, _ = conjugate_gradients(b, product, lambda r: r, 1e-24, 100)
    assert product.calls <= 13  # one more than the dimension, for rounding
    assert_allclose(x, np.linalg.solve(A, b), rtol=1e-9)


def test_exact_preconditioner_needs_one_step():
    A, b = system()
    inverse, product = np.linalg.inv(A), Counted(A)
    x, left = conjugate_gradients(b, product, lambda r: inverse @ r, 1e-20, 30)
    assert product.calls == 1
    assert_allclose(x, inverse @ b, rtol=1e-10)
    assert np.max(np.abs(left)) < 1e-12


@pytest.mark.parametrize("rank", [1, 3])
def test_steps_follow_the_distinct_eigenvalues(rank):
    rng = np.random.default_rng(rank)
    factor = rng.normal(size=(30, rank))
    product, b = Counted(np.eye(30) + factor @ factor.T), rng.normal(size=30)
    conjugate_gradients(b, product, lambda r: r, 1e-20, 30)
    assert product.calls <= rank + 1


def test_x_may_carry_more_than_the_solution():
    """x as the pair (K⁻¹ x, x), for a K that has no inverse: (K⁻¹ + N) x = b means x = K (I + N K)⁻¹ b."""
    rng = np.random.default_rng(2)
    root = rng.normal(size=(8, 3))
    K, N, b = root @ root.T, np.diag(rng.uniform(0.5, 1, 8)), rng.normal(size=8)
    solve = np.linalg.inv(np.eye(8) + K)  # preconditioner: N replaced by I

    def precondition(r):
        alpha = r - solve @ (K @ r)
        return np.stack([alpha, K @ alpha])

    pair, _ = conjugate_gradients(
        b, lambda d: d[0] + N @ d[1], precondition, 1e-24, 30, precondition(b), lambda r, d: float(r @ d[1])
    )
    assert_allclose(pair[1], K @ np.linalg.solve(np.eye(8) + N @ K, b), rtol=1e-9, atol=1e-10)
    assert_allclose(K @ pair[0], pair[1], rtol=1e-9, atol=1e-10)


def test_stops_early_and_at_nothing():
    A, b = system()
    rough, left = conjugate_gradients(b, lambda x: A @ x, lambda r: r, 1e-2, 30)
    assert_allclose(left, b - A @ rough, atol=1e-12)
    assert left @ left <= 1e-2 * (b @ b)
    assert left @ left > 1e-20 * (b @ b)
    assert_array_equal(conjugate_gradients(np.zeros(12), lambda x: A @ x, lambda r: r, 1e-2, 30)[0], np.zeros(12))
