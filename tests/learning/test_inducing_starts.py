"""Inducing inputs that learning starts from."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_limits

from gpclass.engines.inducing.training import INPUTS, Training
from gpclass.kernels import RBF, Matern32, Standardized, Tanimoto
from gpclass.learning.inducing_starts import cluster_centres, start_inputs
from gpclass.learning.streams import Arrays

N = 200


def blobs(count=6, seed=0):
    """Rows in far clusters of different sizes, in two columns of very different units, and the clusters' means."""
    rng = np.random.default_rng(seed)
    place = np.append(np.arange(count), rng.integers(count, size=N - count))
    X = 10.0 * np.stack([place % 3, place // 3], axis=1) + 0.1 * rng.normal(size=(N, 2))
    return X, np.array([X[place == c].mean(0) for c in range(count)]), place


def chosen(X, inputs="k-means", n_inducing=6, kernel=None, weight=None, seed=0):
    source = Arrays(X, np.arange(len(X)) % 2, weight=weight)
    settings = Training(n_inducing=n_inducing, inputs=inputs)
    return start_inputs(source.look((0, 0)), settings, len(X), 2, np.random.default_rng(seed), kernel)[0]


def sorted_rows(X):
    return X[np.lexsort(X.T)]


def test_centres_of_separate_clusters_are_their_means():
    X, means, _ = blobs()
    assert_allclose(sorted_rows(chosen(X)), sorted_rows(means), rtol=1e-12)


def test_weights_count_as_repeated_rows():
    X, _, place = blobs()
    weight = np.random.default_rng(1).integers(1, 4, N).astype(float)
    wanted = [np.average(X[place == c], axis=0, weights=weight[place == c]) for c in range(6)]
    assert_allclose(sorted_rows(chosen(X, weight=weight)), sorted_rows(np.array(wanted)), rtol=1e-12)
    assert_allclose(sorted_rows(chosen(np.repeat(X, weight.astype(int), axis=0))), sorted_rows(np.array(wanted)), rtol=1e-12)


def test_distances_are_those_of_the_kernel():
    """A column that the kernel hardly sees does not divide clusters; without a kernel all columns count alike."""
    X, _, place = blobs()
    columns = place % 3
    wanted = sorted_rows(np.array([X[columns == c].mean(0) for c in range(3)]))
    for kernel in (RBF([1.0, 1e4]), Standardized(Matern32([1.0, 1e4]), X.mean(0), X.std(0))):
        assert_allclose(sorted_rows(chosen(X, kernel=kernel, n_inducing=3)), wanted, rtol=1e-9)
    stretched = X * [1.0, 1e-4]
    assert len(np.unique(chosen(stretched)[:, 1].round(5))) == 2
    assert len(np.unique(chosen(stretched, kernel=RBF(1.0), n_inducing=3)[:, 1].round(5))) > 2


def test_kernels_without_averages_get_rows():
    bits = (np.random.default_rng(0).random((N, 12)) < 0.4).astype(float)
    Z = chosen(bits, n_inducing=20, kernel=Tanimoto())
    assert len(np.unique(Z, axis=0)) == 20
    assert set(map(tuple, Z)) <= set(map(tuple, bits))


@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.filterwarnings("error")
def test_inputs_are_different_if_the_kernel_hardly_tells_rows_apart(inputs):
    X = np.stack([np.arange(N) % 4, np.arange(N)], axis=1).astype(float)
    Z = chosen(X, inputs, n_inducing=9, kernel=RBF([1.0, 1e9]))
    assert np.all(np.isfinite(Z))
    assert len(np.unique(Z, axis=0)) == 9
    if inputs != "random":
        assert set(Z[:, 0]) == {0.0, 1.0, 2.0, 3.0}


def test_results_do_not_depend_on_the_number_of_threads():
    X = np.random.default_rng(0).normal(size=(3000, 5))
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(cluster_centres(X, X, np.ones(len(X)), 40, 0))
    assert_array_equal(*found)


def test_unknown_inputs_raise_an_error():
    with pytest.raises(ValueError, match="'k-means', 'k-means\\+\\+', 'random'"):
        Training(inputs="grid")
