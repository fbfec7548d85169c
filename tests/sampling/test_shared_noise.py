"""Targets with multinomial probit's shared noise and with contrasts of classes: the same posterior as the plain one."""

import numpy as np
import pytest

from gpclass.kernels import RBF, PerClass
from gpclass.learning import Objective, resolve_priors
from gpclass.likelihoods import MultinomialProbit, Softmax
from gpclass.sampling import HMC
from gpclass.sampling.shared_noise import NoisyTarget, smooth_target
from gpclass.sampling.target import Target

from .problems import three_class_problem

LIKELIHOODS = [MultinomialProbit(3), MultinomialProbit(3, bias=(0.4, -0.3, -0.1))]


def states(target, R=4, seed=0):
    C, rank = target.shape
    return target.prior.colour(np.random.default_rng(seed).standard_normal((C, rank, R)))


@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_the_noise_integrates_to_the_likelihood(likelihood, per_class):
    K, y = three_class_problem()
    target = smooth_target(np.stack([K, 2 * K, 0.5 * K]) if per_class else K, y, likelihood)
    F = states(target)
    x, w = np.polynomial.hermite_e.hermegauss(60)
    for i in range(3):  # one datum at a time: its noise varies, and the other terms cancel
        noise = np.repeat(F[:, :, :1], len(x), axis=2)
        noise[-1, i] = x
        factors = target._factor.log_prob_value(1.0, target._lead(noise))[i].sum(0)
        marginal = np.log(w @ np.exp(factors) / w.sum())
        f = target.latent(F)[:, i, 0]
        assert marginal == pytest.approx(float(likelihood.log_prob_value(y[i], f)), abs=1e-6)  # log p is good to 2e-7


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_slopes_are_those_of_the_value(likelihood):
    K, y = three_class_problem()
    target = smooth_target(K, y, likelihood)
    F, step = states(target, R=2), 1e-5
    value, slope = target.slope(F)
    assert value == pytest.approx(target.log_likelihood(F), rel=1e-12)
    for c, i in [(0, 0), (1, 3), (2, 5), (3, 2)]:
        up, down = F.copy(), F.copy()
        up[c, i] += step
        down[c, i] -= step
        numeric = (target.log_likelihood(up) - target.log_likelihood(down)) / (2 * step)
        assert slope[c, i] == pytest.approx(numeric, abs=1e-7)  # step² and eps / step times values of order ten


def test_contrasts_leave_prior_and_likelihood_as_they_are():
    K, y = three_class_problem()
    target = Target.of(K, y, Softmax(3))
    F = states(target, R=20_000, seed=1)
    f = target.latent(F)
    assert target.log_likelihood(F) == pytest.approx(Softmax(3).log_prob_value(y[:, None], np.moveaxis(f, 0, -1)).sum(0))
    moments = np.einsum("anr,bmr->anbm", f[:, :3], f[:, :3]) / f.shape[2]
    want = np.einsum("ab,nm->anbm", np.eye(3), K[:3, :3])
    assert moments == pytest.approx(want, abs=6 * K.max() / np.sqrt(f.shape[2]))  # six standard errors
    assert Target.of(np.stack([K, K, 2 * K]), y, Softmax(3)).basis is None  # contrasts of these are correlated


@pytest.mark.filterwarnings("ignore:HMC")
def test_which_likelihoods_have_shared_noise():
    K, y = three_class_problem()
    assert isinstance(smooth_target(K, y, MultinomialProbit(3)), NoisyTarget)
    assert not isinstance(smooth_target(K, y, Softmax(3)), NoisyTarget)
    draws = HMC(n_draws=20, n_warmup=20, random_state=0).fit(K, y, MultinomialProbit(3))
    assert draws.latent.shape == (4, 20, len(y), 3)
    exact = MultinomialProbit(3).log_prob_value(y, draws.latent).sum(-1)
    assert draws.log_likelihood == pytest.approx(exact, abs=1e-9)  # of f alone, not of f and noise


@pytest.mark.filterwarnings("ignore")
def test_sampled_hyperparameters_keep_the_prior_of_each_class():
    # under a log-concave likelihood labels reduce variances: each class's variance is below its prior's
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(8, 1)), np.array([0, 1, 2, 0, 1, 2, 0, 1])
    kernel = PerClass(*(RBF(0.8, v, bounds={"variance": (0.99 * v, v)}).fix("lengthscale") for v in (0.1, 1.0, 25.0)))
    problem = Objective(X, y, kernel, Softmax(3), None, resolve_priors(None, kernel.names))
    draws = HMC(n_draws=150, n_warmup=50, n_chains=2, random_state=1).fit_hyper(problem)
    assert np.all(draws.var.mean(0) < 1.1 * np.array([0.1, 1.0, 25.0]))
