"""Every sampler against numerical integrals. Bounds are four standard errors of the sampler's own estimate."""

import numpy as np
import pytest

from gpclass.inference import EP
from gpclass.likelihoods import Gaussian, Logit, MultinomialProbit, Probit, Softmax
from gpclass.sampling import HMC, EllipticalSlice, Gibbs, ScaledMetropolis, effective_size
from gpclass.testing.problems import grid_truth

from .problems import NEW_POINT, SEVERAL, TWO_POINTS, quadrature_truth, three_class_problem, two_class_problem

SAMPLERS = [
    HMC(n_draws=1500, n_warmup=300, random_state=0),
    EllipticalSlice(n_draws=3000, n_warmup=200, random_state=0),
    ScaledMetropolis(n_draws=6000, n_warmup=1000, random_state=0),
    Gibbs(n_draws=4000, n_warmup=200, random_state=0),
]


def serves(sampler, likelihood):
    return sampler.serves(likelihood)


def mean_error(draws):
    """Monte Carlo standard errors of the means."""
    return np.sqrt(draws.var / draws.effective_size)


def gaps(draws, mean, var):
    """Errors of mean and variance in standard errors; for a variance, that of the mean squared deviation."""
    squares = (draws.latent - draws.mean) ** 2
    sizes = effective_size(squares)
    spread = squares.reshape(-1, *squares.shape[2:]).std(0) / np.sqrt(sizes)
    return (draws.mean - mean) / mean_error(draws), (draws.var - var) / spread


@pytest.mark.parametrize("likelihood", [Probit(), Probit(bias=0.7), Logit(), Logit(bias=-1.0)], ids=repr)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda s: type(s).__name__)
def test_two_points_agree_with_the_grid(sampler, likelihood):
    if not serves(sampler, likelihood):
        pytest.skip("Gibbs has no auxiliary variables for the logistic")
    K, y = TWO_POINTS
    _, mean, cov = grid_truth(K, y, likelihood)
    draws = sampler.fit(K, y, likelihood)
    for gap in gaps(draws, mean, np.diagonal(cov)):
        assert np.abs(gap).max() < 4
    assert draws.converged


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda s: type(s).__name__)
def test_predictions_agree_with_the_grid(sampler):
    # three points, the third without a label: p(f₃ | y) from p(f₁, f₂ | y), averaged over the same grid
    K, y = TWO_POINTS
    Ks, kd = NEW_POINT
    likelihood = Probit(bias=0.2)
    draws = sampler.fit(K, y, likelihood)
    A = np.linalg.solve(K, Ks)[:, 0]
    left = float(kd[0] - Ks[:, 0] @ A)
    x, w = np.polynomial.hermite_e.hermegauss(81)
    z = np.stack([a.ravel() for a in np.meshgrid(x, x, indexing="ij")], axis=1)
    f = z @ np.linalg.cholesky(K).T
    mass = np.outer(w, w).ravel() * np.exp(likelihood.log_prob(y, f)[0].sum(1))
    mass /= mass.sum()
    mean = mass @ (f @ A)
    p = likelihood.predictive(f @ A, left)
    error = np.sqrt(draws.var.max() * (A**2).sum()) * 2 / np.sqrt(draws.effective_size.min())
    got_mean, got_var = draws.predict(Ks, kd)
    assert abs(got_mean[0] - mean) < 4 * error
    assert got_var[0] == pytest.approx(mass @ (f @ A - mean) ** 2 + left, rel=8 / np.sqrt(draws.effective_size.min()))
    probabilities = np.exp(draws.log_class_probabilities(Ks, kd))
    assert abs(probabilities[0, 1] - mass @ p) < 4 * error / np.sqrt(2 * np.pi)  # Φ's slope is 1/√2π at most
    assert probabilities.sum() == pytest.approx(1, abs=1e-12)
    within = likelihood.predictive_std(f @ A, np.full(len(f), left)) ** 2
    spread = np.sqrt(mass @ ((p - mass @ p) ** 2 + within))
    assert draws.class_probability_std(Ks, kd)[0] == pytest.approx([spread, spread], rel=0.1)


@pytest.mark.quick_cases(
    "HMC-softmax, two points",
    "HMC-probit, two points",
    "EllipticalSlice-softmax, three classes",
    "ScaledMetropolis-softmax, two points",
    "Gibbs-probit, two points",
)
@pytest.mark.parametrize("case", SEVERAL)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda s: type(s).__name__)
def test_several_classes_agree_with_quadrature(sampler, case):
    likelihood, K, y = SEVERAL[case]
    if not serves(sampler, likelihood):
        pytest.skip("Gibbs has no auxiliary variables for softmax")
    _, mean, var = quadrature_truth(K, y, likelihood)
    draws = sampler.fit(K, y, likelihood)
    for gap in gaps(draws, mean, var):
        assert np.abs(gap).max() < 4


def test_gibbs_and_hamiltonian_agree_for_multinomial_probit():
    K, y = three_class_problem()
    likelihood = MultinomialProbit(3)
    gibbs = Gibbs(n_draws=3000, random_state=1).fit(K, y, likelihood)
    hmc = HMC(n_draws=600, n_warmup=300, random_state=1).fit(K, y, likelihood)
    error = np.hypot(mean_error(gibbs), mean_error(hmc))
    assert (np.abs(gibbs.mean - hmc.mean) / error).max() < 4.5  # the largest of 36
    assert np.abs(gibbs.var / hmc.var - 1).max() < 0.35


def test_scaled_metropolis_and_hamiltonian_agree_for_softmax():
    K, y = three_class_problem()
    likelihood = Softmax(3)
    metropolis = ScaledMetropolis(n_draws=20_000, random_state=1).fit(K, y, likelihood)
    hmc = HMC(n_draws=1500, random_state=1).fit(K, y, likelihood)
    error = np.hypot(mean_error(metropolis), mean_error(hmc))
    assert (np.abs(metropolis.mean - hmc.mean) / error).max() < 4.5
    Ks, kd = K[:, :3], np.diagonal(K)[:3]
    p, q = (np.exp(d.log_class_probabilities(Ks, kd)) for d in (metropolis, hmc))
    assert p == pytest.approx(q, abs=0.05)
    assert p.sum(1) == pytest.approx(np.ones(3), abs=1e-12)


def test_two_classes_by_either_likelihood():
    # the difference of two independent latent functions of kernel K/2 has kernel K; softmax of two is logistic of it
    K, y = two_class_problem()
    binary = HMC(n_draws=2000, random_state=0).fit(K, y, Logit())
    joint = HMC(n_draws=2000, random_state=0).fit(K / 2, (y > 0).astype(int), Softmax(2))
    difference = joint.latent[..., 1] - joint.latent[..., 0]
    error = np.hypot(mean_error(binary), np.sqrt(binary.var / effective_size(difference)))
    assert (np.abs(difference.mean((0, 1)) - binary.mean) / error).max() < 4.5


def test_gaussian_noise_is_exact_regression():
    K, _ = two_class_problem(n=8)
    y = np.linspace(-2, 2, 8)
    exact = EP().fit(K, y, Gaussian(0.5))
    draws = HMC(n_draws=3000, random_state=0).fit(K, y, Gaussian(0.5))
    for gap in gaps(draws, exact.mean, exact.var):
        assert np.abs(gap).max() < 4.5


def test_singular_covariance():
    K = np.full((6, 6), 3.0)  # all points are equal
    y = np.array([1.0, 1, 1, 1, -1, 1])
    for sampler in (HMC(n_draws=500, random_state=0), Gibbs(n_draws=500, random_state=0)):
        draws = sampler.fit(K, y, Probit())
        assert np.ptp(draws.pooled, axis=1).max() < 1e-6
        assert draws.mean[0] > 0


def test_rank_zero_prior_is_a_fact_not_an_error():
    draws = HMC(n_draws=20, n_warmup=5, random_state=0).fit(np.zeros((3, 3)), np.array([1.0, -1, 1]), Probit())
    assert np.all(draws.pooled == 0)
    assert np.exp(draws.log_class_probabilities(np.zeros((3, 1)), np.zeros(1))) == pytest.approx(np.full((1, 2), 0.5))
