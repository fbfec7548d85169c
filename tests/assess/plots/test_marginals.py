"""What figures of marginals show, read back from matplotlib's objects."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris, make_moons

from gpclass.assess import (
    plot_marginal,
    plot_marginals,
)
from gpclass.inference import EP, Laplace
from gpclass.kernels import RBF
from gpclass.likelihoods import Logit, Softmax
from gpclass.sampling import EllipticalSlice

from .read_back import legend, points

plt = pytest.importorskip("matplotlib.pyplot")
IRIS = load_iris()


# marginals --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def marginals():
    X, y = make_moons(12, noise=0.2, random_state=0)
    K, signs = RBF(0.7, 20.0)(X), 2.0 * y - 1
    draws = EllipticalSlice(n_draws=100, n_warmup=50, random_state=0).fit(K, signs, Logit())
    return draws, {"EP": EP().fit(K, signs, Logit()), "LA": Laplace().fit(K, signs, Logit())}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("quantity", ["mean", "std", "probability"])
def test_marginals_against_draws(marginals, quantity):
    draws, fits = marginals
    ax = plot_marginals(draws, fits, quantity)
    assert legend(ax) == ["EP", "LA"]
    found = points(ax, "o")
    f = draws.pooled
    fit = fits["EP"]
    wanted = {
        "mean": (f.mean(0), fit.mean),
        "std": (f.std(0), np.sqrt(fit.var)),
        "probability": ((1 / (1 + np.exp(-f))).mean(0), Logit().predictive(fit.mean, fit.var)),
    }[quantity]
    assert_allclose(found, np.column_stack(wanted))
    assert "sampled" in ax.get_xlabel()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_marginal_of_one_point(marginals):
    draws, fits = marginals
    ax = plot_marginal(draws, fits, 3, bins=20)
    x, density = ax.lines[0].get_xydata().T
    step = x[1] - x[0]
    assert_allclose(density.sum() * step, 1, atol=0.01)  # three standard deviations contain a probability of 0.997
    assert_allclose((x * density).sum() * step, fits["EP"].mean[3], atol=0.02 * np.abs(fits["EP"].mean[3]) + 0.01)
    area = sum(bar.get_width() * bar.get_height() for bar in ax.patches)
    assert_allclose(area, 1)
    with pytest.raises(ValueError, match="point must be below 12 and latent below 1"):
        plot_marginal(draws, fits, 12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_marginals_of_several_classes():
    K, y = RBF(1.0, 4.0)(IRIS.data[::15]), IRIS.target[::15]
    draws = EllipticalSlice(n_draws=40, n_warmup=20, random_state=0).fit(K, y, Softmax(3))
    fit = Laplace().fit(K, y, Softmax(3))
    assert len(points(plot_marginals(draws, {"LA": fit}, "std"), "o")) == 30
    assert len(points(plot_marginals(draws, {"LA": fit}, "probability"), "o")) == 30
    assert "class 2" in plot_marginal(draws, {"LA": fit}, 0, latent=2).get_xlabel()


def test_marginal_errors(marginals):
    draws, fits = marginals
    with pytest.raises(ValueError, match="quantity must be one of"):
        plot_marginals(draws, fits, "median")
    with pytest.raises(ValueError, match="fits is empty"):
        plot_marginals(draws, {})
    short = EP().fit(np.eye(3), np.ones(3), Logit())
    with pytest.raises(ValueError, match=r"EP has .* but the draws have"):
        plot_marginals(draws, {"EP": short})
