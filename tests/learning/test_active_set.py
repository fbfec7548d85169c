"""Learning with an active set."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.kernels import RBF, Linear, PerClass, White
from gpclass.learning import (
    KernelColumns,
    KernelGradient,
    Objective,
    fit_active,
    held_objective,
    maximise_active,
    paper_priors,
    resolve_priors,
    update_active,
)
from gpclass.learning.active_set import InverseWidth
from gpclass.likelihoods import Gaussian, MultinomialProbit, OneAgainstRest, Poisson, Probit
from gpclass.sparse import IVM

rng = np.random.default_rng(0)
n = 90
X = rng.normal(size=(n, 2))
LATENT = np.sin(2 * X[:, 0]) + X[:, 1]
Y = np.where(LATENT + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
CLASSES = np.digitize(LATENT, [-0.6, 0.6])


def objective(y, kernel, likelihood, priors="weak", **settings):
    names = [*kernel.names, *likelihood.names]
    return Objective(X, y, kernel, likelihood, IVM(**{"active": 25, **settings}), resolve_priors(priors, names))


CASES = {
    "probit": (Y, RBF([1.0, 2.0], 2.0), Probit(0.2, learn_bias=True)),
    "gaussian": (LATENT, RBF(1.0) + Linear() + White(0.1), Gaussian(0.3)),
    "poisson": (np.floor(np.exp(LATENT)), RBF(1.0), Poisson(0.1, learn_bias=True)),
    "classes": (CLASSES, RBF(1.0, 2.0), MultinomialProbit(3, learn_bias=True)),
    "a kernel each": (CLASSES, PerClass(RBF(1.0), RBF(2.0), RBF(0.5)), OneAgainstRest(3, learn_bias=True)),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rows", [None, np.arange(0, n, 2)], ids=["all rows", "some rows"])
def test_gradient_with_sites_held(case, rows):
    """(12) and (14), contracted with kernels, against central differences, not at the hyperparameters of the sites."""
    problem = objective(*CASES[case])
    fit, _, _ = fit_active(problem, problem.theta)
    theta = problem.theta + 0.1
    value, gradient = held_objective(problem, theta, fit, rows)
    h = 1e-5  # error h² times third derivatives of order ten, eps/h times a value of order 100
    for i, e in enumerate(np.eye(len(theta))):
        up, down = (held_objective(problem, theta + s * h * e, fit, rows)[0] for s in (1, -1))
        assert gradient[i] == pytest.approx((up - down) / (2 * h), rel=1e-6, abs=1e-6), problem.names[i]
    at_start, _ = held_objective(problem, problem.theta, fit)
    from gpclass.learning import log_prior

    assert at_start == pytest.approx(fit.log_evidence + log_prior(problem.theta, problem.priors)[0], abs=1e-8)
    assert np.isfinite(value)


def test_columns_of_a_kernel_and_the_way_back():
    kernel = RBF([1.0, 2.0], 2.0) + White(0.3)
    columns, sink = KernelColumns(kernel, X), KernelGradient(kernel, X)
    K = kernel(X)
    active, rows = np.array([3, 50, 7]), np.array([10, 11, 40, 41])
    assert_allclose(columns.columns(active), K[:, active], atol=1e-14)
    G, g, H = rng.normal(size=(3, 4)), rng.normal(size=4), rng.normal(size=(3, 3))
    H = H + H.T
    sink.cross(active, rows, G, K[np.ix_(active, rows)])
    sink.diag(rows, g)
    sink.gram(active, H)
    whole = np.zeros((n, n))
    whole[np.ix_(active, rows)] += G
    whole[rows, rows] += g
    whole[np.ix_(active, active)] += H
    assert_allclose(sink.total, kernel.pullback(X, whole), rtol=1e-10)


@pytest.mark.parametrize("strategy", ["constant", "hybrid", "exact"])
def test_a_search_gains_evidence_and_returns_the_best_major_step(strategy):
    problem = objective(Y, RBF(10.0, 0.3), Probit(learn_bias=True), strategy=strategy, major=5, minor=4)
    search = maximise_active(problem)
    major = [step for step in search.history if step.iteration == 0]
    assert search.best.value == max(step.objective for step in major)
    assert search.best.value > major[0].objective + 5
    assert search.best.kernel.lengthscale < 5
    again, _, _ = fit_active(problem, search.best.theta)
    assert np.array_equal(again.active, search.best.fit.active)
    assert search.message


def test_climbs_are_stretched_while_that_gains(monkeypatch):
    problem = objective(Y, RBF(1.0, 0.05), Probit(), major=1, minor=1)
    search = maximise_active(problem)
    steps = [step for step in search.history if step.iteration == 0]
    start, *others = steps
    assert len(others) > 1, "one climb, and what it was stretched to"
    gains = np.diff([step.objective for step in steps])
    assert np.all(gains[:-1] > 0)  # all but the last, which may be the final point
    move = others[0].theta - start.theta
    for i, (step, before) in enumerate(zip(others[1:], others, strict=False)):
        assert_allclose(step.theta - before.theta, 2**i * move, rtol=1e-10)
    monkeypatch.setattr("gpclass.learning.active_set.STRETCHES", 0)
    assert maximise_active(problem).best.value < search.best.value


def test_with_all_rows_and_gaussian_noise_the_search_is_type_ii_maximum_likelihood():
    from gpclass.inference import EP
    from gpclass.learning import maximise

    y = LATENT + 0.2 * rng.normal(size=n)
    problem = objective(y, RBF(1.0), Gaussian(0.3), active=n, major=15, minor=30)
    sparse = maximise_active(problem)
    full = maximise(Objective(X, y, RBF(1.0), Gaussian(0.3), EP(), problem.priors), [problem.theta])
    assert sparse.best.value == pytest.approx(full.best.value, abs=0.05)  # GAIN: gains below 0.1 count as zero
    assert_allclose(sparse.best.theta, full.best.theta, atol=0.1)


def test_a_bound_on_memory_does_not_change_what_major_steps_report():
    many = np.random.default_rng(3).normal(size=(1500, 2))
    y = np.where(np.sin(2 * many[:, 0]) + many[:, 1] > 0, 1.0, -1.0)
    kernel = RBF(1.0, 2.0)
    priors = resolve_priors("weak", kernel.names)
    problem = Objective(many, y, kernel, Probit(), IVM(active=60, memory=0.6, block=10, major=2, minor=2), priors)
    search = maximise_active(problem)
    fit = search.best.fit
    assert len(fit.candidates) < 1400
    minor = [step for step in search.history if step.iteration]
    assert all("of 1500 rows" in step.message for step in minor)  # these are evidences of fewer rows, as stated
    from gpclass.learning import log_prior

    all_rows, _ = held_objective(problem, search.best.theta, fit)
    assert search.best.value == pytest.approx(all_rows, abs=1e-7)
    assert search.best.value == pytest.approx(fit.log_evidence + log_prior(search.best.theta, priors)[0])


def test_hyperpriors_of_the_paper():
    priors = resolve_priors(paper_priors(256), ["lengthscale", "variance", "bias"])
    theta = np.array([2.0, 0.5, 1.0])
    from gpclass.learning import log_prior

    _, gradient = log_prior(theta, priors)
    # log v is N(-1, 1); β is N(0, 25)
    assert_allclose(gradient[1:], [-(0.5 + 1), -1 / 25])
    # 1/w = lengthscale²/D is Gamma with shape ½ and rate ½: density u^-½ exp(-u/2) du, and du = 2u dθ
    h = 1e-6
    u = [np.exp(2 * (2.0 + s * h)) / 256 for s in (1, -1)]
    log_density = [-0.5 * np.log(v) - 0.5 * v + np.log(v) for v in u]
    assert gradient[0] == pytest.approx((log_density[0] - log_density[1]) / (2 * h), rel=1e-6)
    assert InverseWidth(256).log_density(np.array([np.log(16.0)]))[1][0] == pytest.approx(0)  # mode of θ at 1/w = 1


def test_failures_step_back():
    problem = objective(Y, RBF(1.0, 2.0), Probit(), priors=None, major=3, minor=3)

    def fit(*args, start=None, engine=problem.engine, calls=[0], **kwargs):  # noqa: B006
        calls[0] += 1
        if calls[0] == 2:
            raise FloatingPointError("no")
        return engine.fit(*args, start=start, **kwargs)

    class Shaky:
        strategy, major, minor = "constant", 3, 3

    shaky = Shaky()
    shaky.fit = fit
    search = maximise_active(Objective(X, Y, problem.kernel, Probit(), shaky, problem.priors))
    assert [step.message for step in search.history if step.iteration == 0][1] == "no"
    assert np.isfinite(search.best.value)


# virtual vectors, streams ---------------------------------------------------------------------------------------------


def test_streams_keep_the_inputs_that_they_rest_on():
    kernel, likelihood, engine = RBF(1.0, 3.0), Probit(), IVM(active=20)
    problem = Objective(X[:40], Y[:40], kernel, likelihood, engine, resolve_priors(None, kernel.names))
    fit, _, _ = fit_active(problem, problem.theta)
    inputs = X[:40][fit.rows]
    fit, inputs = update_active(engine, kernel, likelihood, fit, inputs, X[40:], Y[40:])
    assert inputs.shape == (20, 2)
    mean, _ = fit.predict(kernel(inputs, X), kernel.diag(X))
    assert np.mean(np.sign(mean) == Y) > 0.8
