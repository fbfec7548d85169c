"""Softmax and MultinomialProbit: values against other formulas, derivatives against central differences."""

import numpy as np
import pytest
from scipy.special import log_softmax

from gpclass.likelihoods import Logit, MultinomialProbit, OneAgainstRest, RobustMax, Softmax

BOTH = [Softmax, MultinomialProbit]
rng = np.random.default_rng(0)
F = rng.normal(size=(6, 4)) * np.array([0.1, 1, 3, 8, 20, 1])[:, None]
Y = np.array([0, 1, 2, 3, 0, 1])


@pytest.mark.parametrize("cls", BOTH)
def test_derivatives(cls):
    likelihood, h = cls(4), 1e-5
    value, slope, hessian = likelihood.log_prob(Y, F)
    up = [likelihood.log_prob(Y, F + h * e) for e in np.eye(4)]
    down = [likelihood.log_prob(Y, F - h * e) for e in np.eye(4)]
    assert slope == pytest.approx(np.stack([(u[0] - d[0]) / (2 * h) for u, d in zip(up, down, strict=True)], -1), abs=1e-6)
    assert hessian == pytest.approx(np.stack([(u[1] - d[1]) / (2 * h) for u, d in zip(up, down, strict=True)], -1), abs=1e-6)
    assert slope.sum(-1) == pytest.approx(np.zeros(6), abs=1e-9)  # only differences count
    assert hessian.sum(-1) == pytest.approx(np.zeros((6, 4)), abs=1e-8)
    pair = likelihood.log_prob_slope(Y, F)
    assert pair[0] == pytest.approx(value)
    assert pair[1] == pytest.approx(slope)


@pytest.mark.parametrize("cls", BOTH)
def test_columns_at_once(cls):
    likelihood = cls(4)
    stacked = np.stack([F, 2 * F, -F], axis=1)  # (n, R, C)
    value, slope = likelihood.log_prob_slope(Y[:, None], stacked)
    for r, f in enumerate((F, 2 * F, -F)):
        one = likelihood.log_prob_slope(Y, f)
        assert value[:, r] == pytest.approx(one[0])
        assert slope[:, r] == pytest.approx(one[1])
    p = likelihood.class_probabilities(stacked)
    assert p.sum(-1) == pytest.approx(np.ones((6, 3)), abs=1e-12)
    assert p[np.arange(6), :, Y] == pytest.approx(np.exp(value), abs=1e-7)


@pytest.mark.parametrize("cls", BOTH)
def test_far_tails(cls):
    f = np.array([[0.0, 300.0, -1e4], [1e8, 0.0, 0.0], [-1e8, 0.0, 1e8]])
    value, slope, hessian = cls(3).log_prob(np.zeros(3, int), f)
    assert np.all(np.isfinite(value) & (value <= 0))
    assert np.all(np.isfinite(slope))
    assert np.all(np.isfinite(hessian))
    assert value[1] == pytest.approx(0, abs=1e-7)
    tail = -300.0 if cls is Softmax else -(300.0**2) / 4
    assert value[0] == pytest.approx(tail, rel=1e-3)


def test_labels_are_checked():
    for bad in ([0, 1, 3], [-1, 0], [0.5, 1], ["a", "b"]):
        with pytest.raises(ValueError, match="labels must be integers from 0 to 2"):
            Softmax(3).check_targets(np.array(bad))
    with pytest.raises(ValueError, match="one-dimensional"):
        Softmax(3).check_targets(np.zeros((2, 2), int))
    assert Softmax(3).check_targets([0.0, 2.0]).dtype.kind == "i"
    for bad in (1, 2.5, "3"):
        with pytest.raises(ValueError, match="n_classes"):
            Softmax(bad)


@pytest.mark.parametrize("cls", BOTH)
def test_averages_over_latent_values_by_product_quadrature(cls):
    """Biased classes, correlated latent values: a Gauss-Hermite rule in three dimensions is the truth, to 1e-5 or so."""
    likelihood, y = cls(3, bias=(0.0, 0.7, -0.4)), np.array([0, 1, 2, 1])
    r = np.random.default_rng(3)
    mean, root = r.normal(size=(4, 3)), r.normal(size=(4, 3, 3))
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    grid = np.stack(np.meshgrid(nodes, nodes, nodes), axis=-1).reshape(-1, 3)
    weight = np.prod(np.stack(np.meshgrid(weights, weights, weights), axis=-1), axis=-1).ravel() / np.sum(weights) ** 3
    f = mean[:, None] + grid @ np.swapaxes(root, 1, 2)
    cov = root @ np.swapaxes(root, 1, 2)
    p = likelihood.class_probabilities(f)
    average = weight @ p
    # three classes: exact, or by two trapezoid rules; the truth has errors of 1e-5
    np.testing.assert_allclose(likelihood.predictive(mean, cov), average, rtol=0, atol=1e-4)
    spread = np.sqrt(weight @ p**2 - average**2)
    np.testing.assert_allclose(likelihood.predictive_std(mean, cov), spread, rtol=0, atol=0.01)  # 512 quasi-random points
    if cls is Softmax:
        log_p = log_softmax(f + likelihood.offset, axis=-1)[np.arange(4), :, y]
        np.testing.assert_allclose(likelihood.mean_log_prob(y, mean, cov), log_p @ weight, rtol=0, atol=1e-3)


AT_VALUES = ["log_prob", "log_prob_slope"]
UNDER_GAUSSIANS = ["expected_log_prob", "tilted_moments", "tilted_slopes", "log_predictive"]
PREDICTIONS = ["predictive", "log_class_probabilities", "predictive_std"]
# an average over few points, whose axes depend on the means without biases
ROUGH = {"predictive_std": 0.01}


@pytest.mark.parametrize(
    ("cls", "more"),
    [(Softmax, {}), (MultinomialProbit, {}), (MultinomialProbit, {"epsilon": 0.1}), (RobustMax, {}), (OneAgainstRest, {})],
    ids=["softmax", "probit", "noisy probit", "robust max", "one against rest"],
)
def test_biases_shift_the_latent_functions(cls, more):
    """Every answer with biases is the answer without them at shifted latent values or means."""
    bias = np.array([0.3, -0.8, 0.0, 1.1])
    biased, plain = cls(4, bias=tuple(bias), **more), cls(4, **more)
    f, var = F[:4] / 4, np.exp(np.random.default_rng(1).normal(size=(4, 4)))
    questions = [(name, (Y[:4], f), (Y[:4], f + bias)) for name in AT_VALUES if biased.offers("log_prob")]
    questions += [(name, (Y[:4], f, var), (Y[:4], f + bias, var)) for name in UNDER_GAUSSIANS]
    questions += [(name, (f, var), (f + bias, var)) for name in PREDICTIONS]
    asked = [question for question in questions if biased.offers(question[0])]
    assert len(asked) >= 7
    for name, given, shifted in asked:
        found, wanted = (getattr(one, name)(*args) for one, args in ((biased, given), (plain, shifted)))
        if isinstance(found, np.ndarray):
            found, wanted = (found,), (wanted,)
        for a, b in zip(found, wanted, strict=True):
            assert a == pytest.approx(b, rel=1e-9, abs=ROUGH.get(name, 1e-12)), name
    assert biased.class_probabilities(f) == pytest.approx(plain.class_probabilities(f + bias), rel=1e-9)


def test_expected_entropy_of_two_classes_is_that_of_their_difference():
    """512 quasi-random points are accurate to 0.02."""
    mean, var = rng.normal(size=(5, 2)), np.exp(rng.normal(size=(5, 2)))
    cov = var[:, :, None] * np.eye(2) + 0.5  # the common part of the classes does not matter
    want = Logit().expected_entropy(mean[:, 1] - mean[:, 0], var.sum(1))
    assert Softmax(2).expected_entropy(mean, var) == pytest.approx(want, abs=0.02)
    assert Softmax(2).expected_entropy(mean, cov) == pytest.approx(want, abs=0.02)
    assert RobustMax(3, epsilon=0.2).expected_entropy(F[:, :3], np.ones((6, 3))) == pytest.approx(
        np.full(6, -0.8 * np.log(0.8) - 0.2 * np.log(0.1))  # of the same three probabilities everywhere
    )
