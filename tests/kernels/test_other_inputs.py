"""Kernels for bits, categories, given matrices and objects, against their formulas and through the public kit of checks."""

from math import exp

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from gpclass.kernels import (
    RBF,
    Categorical,
    Constant,
    FunctionKernel,
    Linear,
    PerClass,
    Precomputed,
    Standardized,
    Tanimoto,
    White,
    covariance_rows,
)
from gpclass.testing.kernels import check_kernel

rng = np.random.default_rng(5)
BITS, MORE_BITS = (rng.random((n, 6)) < 0.5 for n in (8, 5))
CODES, MORE_CODES = (rng.integers(0, 3, (n, 3)) for n in (8, 5))
MATRIX = np.cov(rng.normal(size=(13, 30)))
ROWS = covariance_rows(MATRIX, np.diag(MATRIX), np.arange(13))
WORDS = ["anna", "hanna", "otto", "lotto", "ottilie", "ann"]


def overlap(a, b):
    """Shared letters of two words: an inner product of sets, normalised."""
    return len(set(a) & set(b)) / np.sqrt(len(set(a)) * len(set(b)))


def gaussian(A, B):
    A, B = np.asarray(A), np.asarray(B)
    return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(-1))


def test_tanimoto_counts_shared_bits():
    K = Tanimoto(2.5)(BITS, MORE_BITS)
    for x, row in zip(BITS, K, strict=True):
        assert_allclose(row, [2.5 * (x & z).sum() / (x | z).sum() for z in MORE_BITS], rtol=1e-14)


def test_tanimoto_of_rows_without_bits():
    X = np.zeros((2, 4))
    assert_allclose(Tanimoto(2.0)(X), 2.0)
    assert_allclose(Tanimoto(2.0)(X, np.eye(4)), 0.0)


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csr_array, sp.coo_array])
@pytest.mark.parametrize("kernel", [Tanimoto(), Linear(2.0)], ids=repr)
def test_sparse_rows_have_the_values_of_dense_ones(kernel, make):
    X, Z = BITS.astype(float), MORE_BITS.astype(float)
    assert_allclose(kernel.unit_values(make(X), make(Z)), kernel(X, Z), rtol=1e-14)
    assert_allclose(kernel.unit_values(make(X), None), kernel(X), rtol=1e-14)
    assert_allclose(kernel.unit_diagonal(make(X)), kernel.diag(X), rtol=1e-14)


@pytest.mark.parametrize("lengthscale", [1.7, (0.5, 1.0, 3.0)])
def test_categorical_decays_with_differing_columns(lengthscale):
    K = Categorical(lengthscale, 2.5)(CODES, MORE_CODES)
    scales = np.broadcast_to(lengthscale, 3)
    for x, row in zip(CODES, K, strict=True):
        assert_allclose(row, [2.5 * exp(-np.sum((x != z) / scales)) for z in MORE_CODES], rtol=1e-14)


def test_names_of_categories_do_not_matter():
    renamed = np.array([70.0, -3.5, 1e9])
    assert_allclose(Categorical()(renamed[CODES]), Categorical()(CODES), rtol=0)


def test_categorical_gets_one_lengthscale_per_column():
    kernel = Categorical(2.0, ard=True)
    with pytest.raises(ValueError, match="number of columns"):
        kernel(CODES)
    assert kernel.for_columns(3).names == [f"lengthscale[{d}]" for d in range(3)] + ["variance"]


def test_precomputed_rows_find_their_covariances():
    some, others = np.array([4, 0, 9]), np.array([2, 4])
    kernel = Precomputed(3.0)
    assert_allclose(kernel(ROWS[some]), 3.0 * MATRIX[np.ix_(some, some)], rtol=1e-15)
    assert_allclose(kernel(ROWS[some], ROWS[others]), 3.0 * MATRIX[np.ix_(some, others)], rtol=1e-15)
    new = covariance_rows(np.ones((2, 13)), 7.0)
    assert_allclose(kernel(new, ROWS[some]), 3.0)
    assert_allclose(kernel(ROWS[some], new), 3.0)
    assert_allclose(kernel.diag(new), 21.0)
    with pytest.raises(ValueError, match="not training rows"):
        kernel(new)


def test_precomputed_takes_no_other_rows():
    with pytest.raises(ValueError, match="covariance_rows"):
        Precomputed()(rng.normal(size=(4, 4)))


@pytest.mark.parametrize("kernel", [FunctionKernel(overlap, 2.0), FunctionKernel(overlap, 2.0) + Constant(0.5) + White(0.1)])
def test_functions_of_text(kernel):
    K, offset = kernel(WORDS), 0.5 if len(kernel.leaves) > 1 else 0.0
    expected = [[2.0 * overlap(a, b) + offset for b in WORDS] for a in WORDS]
    assert_allclose(kernel(WORDS, WORDS[:2]), np.array(expected)[:, :2], rtol=1e-15)
    off = ~np.eye(6, dtype=bool)
    assert_allclose(K[off], np.array(expected)[off], rtol=1e-15)


def test_vectorized_function_agrees_with_the_kernel_it_computes():
    X = rng.normal(size=(20, 2))
    kernel = FunctionKernel(gaussian, 3.0, vectorized=True)
    assert_allclose(kernel(X), RBF(1.0, 3.0)(X), rtol=1e-12)
    assert_allclose(kernel.diag(X), 3.0, rtol=1e-15)


def test_objects_that_are_sequences_stay_whole():
    seen = []
    FunctionKernel(lambda a, b: seen.append(a) or 1.0)([[1, 2], [3, 4]])
    assert [1, 2] in seen


@pytest.mark.parametrize(
    ("function", "vectorized", "message"),
    [
        (lambda a, b: "text", False, "numbers"),
        (lambda a, b: np.nan, False, "not finite"),
        (lambda a, b: [1.0, 2.0], False, "one number for each pair"),
        (lambda A, B: np.ones(3), True, "shape"),
    ],
)
def test_what_functions_must_return(function, vectorized, message):
    with pytest.raises(ValueError, match=message):
        FunctionKernel(function, vectorized=vectorized)(WORDS)


def test_one_text_is_not_a_sequence_of_objects():
    with pytest.raises(TypeError, match="a single object"):
        FunctionKernel(overlap)("anna")


@pytest.mark.parametrize(
    ("kernel", "X", "Z"),
    [
        (Tanimoto(2.5), BITS, MORE_BITS),
        (Tanimoto(), rng.normal(size=(6, 3)), rng.normal(size=(4, 3))),
        (Categorical(1.7, 2.5), CODES, MORE_CODES),
        (Categorical((0.5, 1.0, 3.0)), CODES, MORE_CODES),
        (Categorical() * RBF(2.0) + Tanimoto(), CODES, MORE_CODES),
        (Precomputed(2.0), ROWS[:8], ROWS[8:]),
        (Precomputed(2.0) + White(0.3), ROWS[:8], ROWS[8:]),
        (FunctionKernel(overlap, 2.0), WORDS[:4], WORDS[4:]),
        (FunctionKernel(overlap, 2.0) * Constant(2.0) + White(), WORDS[:4], WORDS[4:]),
        (FunctionKernel(gaussian, vectorized=True), None, None),
    ],
    ids=lambda part: repr(part) if hasattr(part, "theta") else "",
)
def test_passes_the_kit(kernel, X, Z):
    check_kernel(kernel, X, Z)


def test_sums_need_the_same_inputs():
    for other in (RBF(), FunctionKernel(overlap)):
        with pytest.raises(TypeError, match="need the same inputs"):
            Precomputed() + other
    with pytest.raises(TypeError, match="cannot be standardised"):
        Standardized(Precomputed(), [0.0], [1.0])


def test_leaves_can_be_replaced_in_every_structure():
    kernel = PerClass(RBF() + White(), Linear())
    assert kernel._with_leaves(iter([RBF(), White(), Linear()])) == kernel
