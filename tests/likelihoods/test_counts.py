"""Ordered categories and counts through engines, and their errors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.inference import EP, KL, Laplace
from gpclass.kernels import RBF
from gpclass.likelihoods import Ordinal, Poisson


def test_engines_take_them():
    X = np.linspace(-3, 3, 40)[:, None]
    K = RBF(1.0)(X)
    f = np.sin(2 * X[:, 0])
    counts = np.random.default_rng(1).poisson(np.exp(1 + f))
    fits = [engine.fit(K, counts, Poisson(1.0)) for engine in (EP(), Laplace(), KL())]
    for fit in fits[1:]:
        assert_allclose(fit.mean, fits[0].mean, atol=0.1)  # three approximations of one posterior with width 0.3
    levels = np.digitize(f, [-0.5, 0.5])
    fit = EP().fit(K, levels, Ordinal((-0.5, 0.5)))
    assert np.corrcoef(fit.mean, f)[0, 1] > 0.95


def test_bad_targets_and_parameters():
    for y in ([0.5], [-1], [np.nan], [[1]], ["a"], [np.inf]):
        with pytest.raises(ValueError, match=r"whole numbers|one-dimensional"):
            Poisson().check_targets(y)
    with pytest.raises(ValueError, match="from 0 up to 2"):
        Ordinal((0.0, 1.0)).check_targets([3])
    for thresholds in ((1.0, 0.0), (), (np.nan,), (0.0, 0.0)):
        with pytest.raises(ValueError, match="ascending"):
            Ordinal(thresholds)
    with pytest.raises(ValueError, match="finite"):
        Poisson(np.nan)
