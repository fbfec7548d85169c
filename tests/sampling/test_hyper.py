"""Hyperparameters sampled with the latent values: against their posterior on a grid, and through the estimator."""

import warnings

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from gpclass import GPClassifier
from gpclass.inference import EP
from gpclass.kernels import RBF
from gpclass.learning import Objective, resolve_priors
from gpclass.learning.priors import Normal
from gpclass.likelihoods import MultinomialProbit, Probit, Softmax
from gpclass.sampling import HMC, EllipticalSlice, Gibbs, ScaledMetropolis, effective_size, orthant_evidence

PRIORS = {"lengthscale": Normal(0.0, 0.7), "variance": Normal(1.0, 0.7)}
FEW = {"n_draws": 30, "n_warmup": 30, "n_chains": 2, "random_state": 0}


@pytest.fixture
def _short_chains():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        yield


def problem(likelihood, n=12):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 1))
    classes = np.digitize(X[:, 0] + 0.3 * rng.normal(size=n), [0.0] if likelihood.n_latents == 1 else [-0.5, 0.5])
    y = 2.0 * classes - 1 if likelihood.n_latents == 1 else classes
    kernel = RBF(1.0, 2.0)
    return Objective(X, y, kernel, likelihood, EP(), resolve_priors(PRIORS, kernel.names))


def grid_posterior(objective, nodes=15):
    """Means and standard deviations of θ, the evidence at each θ being an orthant probability."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    a, b = (g.ravel() for g in np.meshgrid(0.7 * x, 1 + 0.7 * x, indexing="ij"))
    prior = np.outer(w, w).ravel()
    y, likelihood = objective.y, objective.likelihood
    covariances = [objective.kernel.with_theta(t)(objective.X) for t in np.column_stack([a, b])]
    estimates = [orthant_evidence(K, y, likelihood, n_samples=512, n_repeats=4) for K in covariances]
    log_z = np.array([estimate.log_evidence for estimate in estimates])
    mass = prior * np.exp(log_z - log_z.max())
    mass /= mass.sum()
    theta = np.column_stack([a, b])
    mean = mass @ theta
    return mean, np.sqrt(mass @ (theta - mean) ** 2)


TRUTH = {}


@pytest.mark.parametrize(
    ("likelihood", "sampler"),
    [pytest.param(MultinomialProbit(3), Gibbs, marks=pytest.mark.slow)]
    + [pytest.param(Probit(), s, marks=pytest.mark.slow) for s in (HMC, EllipticalSlice, Gibbs, ScaledMetropolis)],
    ids=lambda x: x.__name__ if isinstance(x, type) else repr(x),
)
def test_hyperparameters_have_their_posterior(likelihood, sampler):
    objective = problem(likelihood)
    if likelihood not in TRUTH:
        TRUTH[likelihood] = grid_posterior(objective, nodes=11)
    mean, sd = TRUTH[likelihood]
    draws = sampler(n_draws=600, n_warmup=200, random_state=1, sample_hyper=True).fit_hyper(objective)
    theta = draws.theta.reshape(-1, 2)
    error = sd / np.sqrt(effective_size(draws.theta))
    assert np.abs((theta.mean(0) - mean) / error).max() < 4
    assert theta.std(0) == pytest.approx(sd, rel=0.3)
    assert norm(1, 0.7).std() > sd[1]  # the data are informative


@pytest.mark.usefixtures("_short_chains")
def test_draws_are_repeatable_and_shaped():
    objective = problem(Softmax(3))
    first, second = (HMC(**FEW, sample_hyper=True).fit_hyper(objective) for _ in range(2))
    assert np.array_equal(first.theta, second.theta)
    assert first.latent.shape == (2, 30, 12, 3)
    assert first.theta.shape == (2, 30, 2)
    members = first.members(None)
    assert len(members) == 60
    kernel, member = members[-1]
    assert np.log([kernel.lengthscale, kernel.variance]) == pytest.approx(first.theta[-1, -1])
    X = objective.X
    p = np.exp(member.log_class_probabilities(kernel(X), kernel.diag(X)))
    assert p == pytest.approx(Softmax(3).class_probabilities(first.latent[-1, -1]), abs=1e-3)  # at the points of the model


@pytest.mark.usefixtures("_short_chains")
@pytest.mark.parametrize("likelihood", [Softmax(3), MultinomialProbit(3)], ids=repr)
def test_far_from_all_data_classes_are_alike(likelihood):
    # the latent values there are the prior's, whatever the draw: their noise must be averaged over the draws
    X, y = problem(likelihood).X, problem(likelihood).y
    clf = GPClassifier(RBF(1.0, 4.0), likelihood, HMC(**FEW, sample_hyper=True)).fit(X, y)
    far = np.array([[1e3]])
    assert clf.predict_proba(far)[0] == pytest.approx(np.full(3, 1 / 3), abs=0.05)  # 1000 draws of sd 0.35: errors of 0.01
    fixed = GPClassifier(clf.kernel_, likelihood, HMC(**FEW), optimizer=None).fit(X, y)
    assert clf.predict_proba_std(far)[0] == pytest.approx(fixed.predict_proba_std(far)[0], abs=0.1)


@pytest.mark.usefixtures("_short_chains")
def test_gibbs_keeps_no_stale_log_likelihood():
    assert np.all(np.isnan(Gibbs(**FEW, sample_hyper=True).fit_hyper(problem(Probit())).log_likelihood))


@pytest.mark.usefixtures("_short_chains")
def test_interruption_keeps_the_draws(monkeypatch):
    from gpclass.sampling import hyper

    draw, count = hyper._Chain.draw, 0

    def interrupted(self, thin):
        nonlocal count
        count += 1
        if count == 21:
            raise KeyboardInterrupt
        return draw(self, thin)

    monkeypatch.setattr(hyper._Chain, "draw", interrupted)
    with pytest.warns(UserWarning, match="10 of 30"):
        draws = HMC(**FEW, sample_hyper=True).fit_hyper(problem(Probit()))
    assert draws.n_draws == 10


# through the estimator ------------------------------------------------------------------------------------------------


def two_moons(n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(X[:, 0] * X[:, 1] > 0, "yes", "no")


def test_mcmc_predicts_like_expectation_propagation():
    X, y = two_moons()
    new = np.random.default_rng(1).normal(size=(30, 2))
    held = {"kernel": RBF(1.0, 4.0), "optimizer": None, "calibrate": None, "random_state": 0}
    ep, mcmc = GPClassifier(**held).fit(X, y), GPClassifier(inference="mcmc", **held).fit(X, y)
    assert mcmc.predict_proba(new) == pytest.approx(ep.predict_proba(new), abs=0.03)
    assert mcmc.predict_proba_std(new) == pytest.approx(ep.predict_proba_std(new), abs=0.04)
    mean, var = mcmc.latent(new)
    want_mean, want_var = ep.latent(new)
    assert mean == pytest.approx(want_mean, abs=0.25)
    assert var == pytest.approx(want_var, rel=0.25)
    assert mcmc.loo() == pytest.approx(ep.loo(), abs=0.1)
    assert mcmc.posterior_.theta is None
    for method in (mcmc.log_evidence, mcmc.jensen_bound):
        with pytest.raises(AttributeError, match="annealed_importance"):
            method()
    assert not hasattr(mcmc, "log_evidence_")


@pytest.mark.usefixtures("_short_chains")
def test_full_bayes_through_the_estimator():
    X, y = two_moons()
    clf = GPClassifier(inference=HMC(n_draws=60, n_warmup=60, n_chains=2, sample_hyper=True), random_state=0)
    first, second = clone(clf).fit(X, y), clone(clf).fit(X, y)
    new = np.random.default_rng(1).normal(size=(10, 2))
    p = first.predict_proba(new)
    assert np.array_equal(p, second.predict_proba(new))
    assert p.sum(1) == pytest.approx(np.ones(10), abs=1e-9)
    assert set(first.predict(new)) <= {"yes", "no"}
    one_by_one = np.concatenate([first.predict_proba(row[None]) for row in new])
    assert one_by_one == pytest.approx(p, abs=1e-10)
    assert first.posterior_.theta.shape == (2, 60, 3)
    assert first.kernel_.theta == pytest.approx(first.posterior_.theta.mean((0, 1)))
    assert np.all(first.predict_proba_std(new) > 0)
    mean, var = first.latent(new)
    assert mean.shape == var.shape == (10,)
    assert np.all(var > 0)
    assert first.loo().shape == (40, 2)
    assert not hasattr(first, "log_evidence_")


@pytest.mark.usefixtures("_short_chains")
@pytest.mark.parametrize("likelihood", ["auto", "softmax", "multinomial-probit"])
def test_several_classes(likelihood):
    X, y = load_iris(return_X_y=True)
    X, y = X[::5], np.array(["setosa", "versicolor", "virginica"])[y[::5]]
    clf = GPClassifier(RBF(1.5, 10.0), likelihood, HMC(**{**FEW, "n_draws": 100}), optimizer=None).fit(X, y)
    p = clf.predict_proba(X)
    assert p.shape == (30, 3)
    assert p.sum(1) == pytest.approx(np.ones(30), abs=1e-9)
    assert clf.score(X, y) > 0.9
    mean, cov = clf.latent(X)
    assert mean.shape == (30, 3)
    assert cov.shape == (30, 3, 3)
    assert clf.predict_proba_std(X).shape == (30, 3)
    assert clf.loo().shape == (30, 3)


@pytest.mark.usefixtures("_short_chains")
def test_a_sampler_that_leaves_hyperparameters_alone_learns_them_by_the_engine_of_auto():
    X, y = two_moons()
    sampled = GPClassifier(inference=HMC(**FEW)).fit(X, y)
    learned = GPClassifier().fit(X, y)
    assert sampled.kernel_.theta == pytest.approx(learned.kernel_.theta, abs=0.02)
    assert sampled.posterior_.latent.shape == (2, 30, 40)
    X, y = load_iris(return_X_y=True)
    several = GPClassifier(inference=HMC(**FEW)).fit(X[::5], y[::5])
    taught = GPClassifier(likelihood="softmax").fit(X[::5], y[::5])
    assert several.kernel_.theta == pytest.approx(taught.kernel_.theta, abs=0.02)


@pytest.mark.usefixtures("_short_chains")
def test_sampled_hyperparameters_can_be_continued():
    objective = problem(Probit())
    whole = HMC(**{**FEW, "n_draws": 25}, sample_hyper=True).fit_hyper(objective)
    part = HMC(**{**FEW, "n_draws": 10}, sample_hyper=True).fit_hyper(objective)
    resumed = HMC(**{**FEW, "n_draws": 15}, sample_hyper=True).fit_hyper(objective, start=part)
    assert np.array_equal(resumed.theta, whole.theta)
    assert np.array_equal(resumed.latent, whole.latent)
    with pytest.raises(ValueError, match="other data"):
        HMC(**FEW, sample_hyper=True).fit_hyper(problem(Probit(), n=11), start=part)
    with pytest.raises(TypeError, match="earlier draws"):
        HMC(**FEW, sample_hyper=True).fit_hyper(objective, start="there")


def test_estimator_errors():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="Engines for more classes: laplace, nested-ep"):
        GPClassifier(inference="kl").fit(X, y)
    with pytest.raises(ValueError, match="does not fit y with its 3 classes"):
        GPClassifier(likelihood="probit", inference="mcmc").fit(X, y)
    with pytest.raises(ValueError, match="is for 4 classes, but y has 3; use 'softmax'"):
        GPClassifier(likelihood=Softmax(4), inference="mcmc").fit(X, y)
    with pytest.raises(TypeError, match="one latent function"):
        GPClassifier(likelihood="softmax", inference="ep").fit(X[:100], y[:100])
