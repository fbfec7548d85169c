"""Fingerprints depend on values, their order and their shape, and on nothing else."""

import numpy as np

from gpclass.numerics.fingerprint import fingerprint, row_fingerprints, single_precision_fingerprints


def test_equal_values_have_equal_fingerprints_whatever_their_layout():
    X = np.arange(12, dtype=float).reshape(4, 3)
    for same in (np.asfortranarray(X), X.astype(np.int32), X.astype(">f4")):
        assert fingerprint(same) == fingerprint(X)
    np.testing.assert_array_equal(row_fingerprints(X), row_fingerprints(np.asfortranarray(X.astype(np.float32))))


def test_any_change_shows():
    X = np.random.default_rng(0).standard_normal((5, 3))
    nudged = X.copy()
    nudged[3, 1] = np.nextafter(nudged[3, 1], 9.0)
    different = [X, nudged, X[::-1], X.T, X.ravel(), X[:4]]
    assert len({fingerprint(x) for x in different}) == len(different)
    assert len({fingerprint(X, y) for y in (["a"], ["b"], [], {"a": 1})} | {fingerprint(["a"], X)}) == 5
    np.testing.assert_array_equal(row_fingerprints(X) == row_fingerprints(nudged), [True, True, True, False, True])


def test_labels_of_text_and_zeros_of_both_signs():
    assert fingerprint(np.array(["ab", "c"])) != fingerprint(np.array(["a", "bc"]))
    a, b = np.array([[0.0, np.nan]]), np.array([[-0.0, -np.nan]])
    assert row_fingerprints(a) == row_fingerprints(b)


def test_blocks_do_not_show(rows_at_a_time):
    X = np.random.default_rng(1).standard_normal((10, 2))
    whole = fingerprint(X), row_fingerprints(X)
    rows_at_a_time("gpclass.numerics.fingerprint", 3)
    assert fingerprint(X) == whole[0]
    np.testing.assert_array_equal(row_fingerprints(X), whole[1])


def test_many_rows_have_no_collisions():
    assert len(np.unique(row_fingerprints(np.arange(20_000.0)[:, None]))) == 20_000


def test_in_single_precision_rows_are_equal_as_numpy_rounds_them():
    X = np.random.default_rng(2).standard_normal((200, 2)) * np.logspace(-30, 30, 200)[:, None]
    single = single_precision_fingerprints(X)
    np.testing.assert_array_equal(single, row_fingerprints(X.astype(np.float32)))
    np.testing.assert_array_equal(single, single_precision_fingerprints(X * (1 + 1e-12)))  # no entry is at a rounding border
    assert not np.any(single == single_precision_fingerprints(X * (1 + 1e-6)))
    wide = np.array([[1e200, -np.inf], [2e200, np.nan], [0.0, 5e-324]])  # beyond the range of single precision
    assert len(set(single_precision_fingerprints(wide).tolist())) == 3
