"""The shared problems and their exact results, against closed forms, other rules and each other."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.likelihoods import (
    Gaussian,
    Heaviside,
    MultinomialProbit,
    OneAgainstRest,
    Ordinal,
    Poisson,
    Probit,
    RobustMax,
    Softmax,
)
from gpclass.sampling import orthant_evidence
from gpclass.testing.problems import (
    NUGGET,
    TWO_ROWS,
    class_covariances,
    grid_truth,
    n_categories,
    ordinary_problem,
    several_truth,
    small_problems,
    targets,
)

ONE = [Probit(), Heaviside(), Gaussian(0.3), Ordinal((-1.0, 0.0, 1.0)), Poisson()]
EVERY = [*ONE, Softmax(3), RobustMax(4), OneAgainstRest(3)]
OWN = np.stack([TWO_ROWS, 0.5 * TWO_ROWS, np.array([[2.0, -0.7], [-0.7, 1.0]])])  # a matrix for each of three classes


@pytest.mark.parametrize("likelihood", EVERY, ids=lambda x: type(x).__name__)
def test_problems_are_read_only_and_their_targets_fit_the_likelihood(likelihood):
    for K, y in [ordinary_problem(likelihood), *small_problems(likelihood)]:
        assert not K.flags.writeable
        assert not y.flags.writeable
        assert_allclose(likelihood.check_targets(y), y)
    if likelihood.targets == "class labels":
        assert set(ordinary_problem(likelihood, n=20)[1]) == set(likelihood.class_targets)


def test_no_row_is_known_from_the_others():
    """Conditional variances are above the nugget, so that differences are possible in any direction."""
    for K in (ordinary_problem(Probit())[0], *class_covariances(3)):
        assert np.min(1 / np.diagonal(np.linalg.inv(K))) > NUGGET
    assert len({K.tobytes() for K in class_covariances(3)}) == 3


def test_targets_of_an_unknown_kind_are_refused():
    class Angles(Probit):
        targets = "angles"

    with pytest.raises(ValueError, match="no problems with targets 'angles', only with 'class labels'"):
        targets(Angles(), np.zeros((3, 2)))
    assert n_categories(Ordinal((-1.0, 0.0, 1.0))) == 4
    with pytest.raises(ValueError, match="without an upper limit"):
        n_categories(Poisson())


# several latent functions ---------------------------------------------------------------------------------------------


def hermite_truth(K, y, likelihood, nodes=30):
    """log Z, mean (n, C), variance (n, C) by a product Gauss–Hermite rule on the whitened latent values; C n ≤ 4."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    C, n = likelihood.n_latents, len(y)
    roots = [np.linalg.cholesky(k) for k in np.broadcast_to(K, (C, n, n))]
    index = np.indices((nodes,) * (C * n)).reshape(C * n, -1)
    z, weights = x[index].T.reshape(-1, C, n), np.prod((w / w.sum())[index], axis=0)
    f = np.stack([z[:, c] @ roots[c].T for c in range(C)], axis=-1)  # (S, n, C)
    mass = weights * np.exp(likelihood.log_prob_value(y, f).sum(-1))
    mean = np.tensordot(mass, f, (0, 0)) / mass.sum()
    return float(np.log(mass.sum())), mean, np.tensordot(mass, (f - mean) ** 2, (0, 0)) / mass.sum()


@pytest.mark.parametrize(
    ("likelihood", "K", "y"),
    [
        (Softmax(2, bias=(0.0, 0.7)), 0.5 * TWO_ROWS, [0, 1]),
        (Softmax(3, bias=(0.0, 0.7, -0.2)), np.array([[2.0]]), [2]),
        (MultinomialProbit(3), np.array([[[2.0]], [[0.5]], [[1.0]]]), [0]),
    ],
    ids=["two rows", "one row", "a matrix for each class"],
)
def test_several_latent_functions_against_gauss_hermite(likelihood, K, y):
    log_z, mean, cov = several_truth(K, y, likelihood)
    other = hermite_truth(K, np.array(y), likelihood)
    # 30 nodes have settled to 1e-9 for softmax under variances of two, to 1e-7 for multinomial probit
    for got, wanted in zip((log_z, mean, np.einsum("icc->ic", cov)), other, strict=True):
        assert_allclose(got, wanted, atol=1e-6)


@pytest.mark.parametrize("y", [[0, 0], [1, 0]])
def test_two_classes_of_multinomial_probit_are_an_orthant(y):
    """f₁ - f₀ and its noise have covariance 2K + 2I: ¼ + arcsin(ρ)/2π."""
    rho = (1 if y[0] == y[1] else -1) * TWO_ROWS[0, 1] / (1 + TWO_ROWS[0, 0])
    exact = np.log(0.25 + np.arcsin(rho) / (2 * np.pi))
    assert_allclose(several_truth(TWO_ROWS, y, MultinomialProbit(2))[0], exact, atol=1e-12)


def test_three_classes_of_multinomial_probit_are_an_orthant():
    for y in ([0, 0], [0, 1]):
        exact = orthant_evidence(OWN, np.array(y), MultinomialProbit(3))
        # the estimate states an error of 5e-6
        assert_allclose(several_truth(OWN, y, MultinomialProbit(3), order=36)[0], exact.log_evidence, atol=2e-5)


def test_one_against_rest_falls_apart():
    """It equals separate binary problems, one for each class."""
    log_z, mean, cov = several_truth(OWN, [0, 2], OneAgainstRest(3))
    parts = [grid_truth(OWN[c], np.where(np.array([0, 2]) == c, 1.0, -1.0), Probit()) for c in range(3)]
    assert_allclose(log_z, sum(part[0] for part in parts), atol=1e-10)
    for c, (_, wanted, spread) in enumerate(parts):
        assert_allclose(mean[:, c], wanted, atol=1e-9)
        assert_allclose(cov[:, c, c], np.diagonal(spread), atol=1e-9)
    assert_allclose(cov[:, 0, 1:], 0.0, atol=1e-9)


@pytest.mark.parametrize("likelihood", [Softmax(3), RobustMax(3)], ids=lambda x: type(x).__name__)
def test_labels_have_probabilities_that_sum_to_one(likelihood):
    total = sum(np.exp(several_truth(OWN, y, likelihood, order=30)[0]) for y in product(range(3), repeat=2))
    assert_allclose(total, 1.0, atol=1e-9)


@pytest.mark.parametrize("likelihood", [Softmax(3), OneAgainstRest(3)], ids=lambda x: type(x).__name__)
def test_several_truth_has_converged(likelihood):
    for _, y in small_problems(likelihood):
        for coarse, fine in zip(*(several_truth(TWO_ROWS, y, likelihood, order=order) for order in (48, 57)), strict=True):
            assert_allclose(coarse, fine, atol=1e-10)
