"""Weighted observations in engines on all rows: whole weights equal repeated rows, shared places equal duplicate rows."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

from gpclass.engines.observations import Observed
from gpclass.inference import (
    EP,
    FV,
    KL,
    TAP,
    VB,
    IndependentEP,
    LabelRegression,
    Laplace,
    MeanFieldProbit,
    NestedEP,
    QuadratureEP,
    TAPNaive,
    VariationalMNL,
)  # fmt: skip
from gpclass.kernels import RBF
from gpclass.likelihoods import Heaviside, Logit, MultinomialProbit, Poisson, Probit, RobustMax, Softmax

rng = np.random.default_rng(5)
X = rng.normal(size=(9, 2))
K = RBF(1.3, variance=3.0)(X)
KS, KD = RBF(1.3, variance=3.0)(X, rng.normal(size=(4, 2))), np.full(4, 3.0)
SIGNS = np.sign(X[:, 0] + 0.8 * rng.normal(size=9))
LABELS = np.argmax(X @ rng.normal(size=(2, 3)) + 0.7 * rng.normal(size=(9, 3)), axis=1)
COUNTS = np.array([1, 3, 1, 2, 4, 1, 1, 2, 1])

ONE = [
    (EP(), Probit(learn_bias=True, bias=0.3)), (EP(), Logit()), (EP(schedule="sequential"), Probit()),
    (EP(), Heaviside(0.2)),
    (EP(), Probit(epsilon=0.1)), (TAP(), Probit(learn_bias=True, bias=0.3)), (TAPNaive(), Probit(learn_bias=True, bias=0.3)),
    (Laplace(), Logit(learn_bias=True, bias=0.3)), (Laplace(correction="tierney-kadane"), Logit()),
    (KL(), Logit(learn_bias=True, bias=0.3)), (VB(), Logit(learn_bias=True, bias=0.3)), (VB(), Probit()),
    (LabelRegression(), Probit()),
]  # fmt: skip
SEVERAL = [
    (NestedEP(), MultinomialProbit(3, bias=(0.0, 0.3, -0.2), learn_bias=True)), (IndependentEP(), MultinomialProbit(3)),
    (QuadratureEP(coupled=False), RobustMax(3, epsilon=0.1)), (QuadratureEP(coupled=False), MultinomialProbit(3)),
    (QuadratureEP(), MultinomialProbit(3)), (Laplace(), Softmax(3, bias=(0.0, 0.3, -0.2), learn_bias=True)),
    (Laplace(correction="tierney-kadane"), Softmax(3)),
    (MeanFieldProbit(), MultinomialProbit(3)), (VariationalMNL(), Softmax(3)),
]  # fmt: skip
EVERY = [*((engine, likelihood, SIGNS) for engine, likelihood in ONE), *((e, lik, LABELS) for e, lik in SEVERAL)]
IDS = [f"{type(e).__name__}-{type(lik).__name__}" for e, lik, _ in EVERY]


def tight(engine):
    return replace(engine, tol=1e-10) if engine.tol else engine


def agree(a, b, rows=slice(None), tol=1e-8):
    """Compare all answers of two fits; `rows` are the observations of b that correspond to those of a."""
    np.testing.assert_allclose(a.log_evidence, b.log_evidence, rtol=0, atol=tol)
    np.testing.assert_allclose(a.log_class_probabilities(KS, KD), b.log_class_probabilities(*answers(b)), rtol=0, atol=tol)
    np.testing.assert_allclose(a.likelihood_gradient(), b.likelihood_gradient(), rtol=0, atol=10 * tol)
    np.testing.assert_allclose(a.loo(), b.loo()[rows], rtol=0, atol=10 * tol)


def answers(fit):
    return (KS if fit.n_inputs == len(KS) else KS[np.searchsorted(np.cumsum(COUNTS), np.arange(COUNTS.sum()), "right")]), KD


def gathered(G, index, n):
    """Derivative in the n × n matrix from that in the matrix of repeated rows."""
    E = np.eye(n)[index]
    return E.T @ G @ E


@pytest.mark.parametrize(("engine", "likelihood", "y"), EVERY, ids=IDS)
def test_whole_weights_are_repeated_rows(engine, likelihood, y):
    """The tolerance is that of the engines' convergence, 1e-10, times the size of log evidence and of its gradient."""
    index = np.repeat(np.arange(9), COUNTS)
    weighted = tight(engine).fit(K, Observed(y, COUNTS), likelihood)
    repeated = tight(engine).fit(K[np.ix_(index, index)], y[index], likelihood)
    agree(weighted, repeated, rows=np.searchsorted(index, np.arange(9)))
    G = weighted.evidence_gradient()
    np.testing.assert_allclose(G, gathered(repeated.evidence_gradient(), index, 9), rtol=0, atol=1e-7)


# with several labels of one place under robust-max, EP has sites of large negative precision and does not converge
SHARING = [i for i, (e, lik, _) in enumerate(EVERY) if e.weights == "places" and not isinstance(lik, RobustMax)]


@pytest.mark.parametrize(("engine", "likelihood", "y"), [EVERY[i] for i in SHARING], ids=[IDS[i] for i in SHARING])
def test_places_are_equal_rows(engine, likelihood, y):
    """Observations with different labels at one place equal separate rows with equal inputs."""
    place = np.array([0, 0, 1, 2, 3, 3, 4, 5, 5, 6, 7, 8])
    labels, weight = (
        np.append(y[place][:-3], likelihood.class_targets[[0, 1, 1]]),
        np.array([1, 2, 1, 1, 3, 1, 2, 1, 1, 1, 1, 2]),
    )
    labels[1] = likelihood.class_targets[0] if labels[1] != likelihood.class_targets[0] else likelihood.class_targets[1]
    shared = tight(engine).fit(K, Observed(labels, weight, place), likelihood)
    index = np.repeat(place, weight)
    repeated = tight(engine).fit(K[np.ix_(index, index)], np.repeat(labels, weight), likelihood)
    np.testing.assert_allclose(shared.log_evidence, repeated.log_evidence, rtol=0, atol=1e-8)
    first = np.concatenate([[0], np.cumsum(weight)[:-1]])
    np.testing.assert_allclose(shared.loo(), repeated.loo()[first], rtol=0, atol=1e-7)
    np.testing.assert_allclose(
        shared.log_class_probabilities(KS, KD), repeated.log_class_probabilities(KS[index], KD), rtol=0, atol=1e-8
    )
    np.testing.assert_allclose(
        shared.evidence_gradient(), gathered(repeated.evidence_gradient(), index, 9), rtol=0, atol=1e-7
    )


PARTS = np.array([0.3, 2.5, 1.0, 0.05, 0.7, 1.0, 0.5, 1.5, 0.2])
# the coupled form needs weights of at least one, and powers of multinomial probit have errors of a few percent
FRACTIONAL = [i for i, (e, lik, _) in enumerate(EVERY) if not isinstance(e, QuadratureEP) or isinstance(lik, RobustMax)]


@pytest.mark.parametrize(("engine", "likelihood", "y"), [EVERY[i] for i in FRACTIONAL], ids=[IDS[i] for i in FRACTIONAL])
def test_gradients_with_fractional_weights(engine, likelihood, y):
    """Central differences with step 2e-5: their own error is 4e-10 times third derivatives, and that of rounding 1e-7."""
    engine, observed = tight(engine), Observed(y, PARTS)
    fit, step, direction = engine.fit(K, observed, likelihood), 2e-5, rng.normal(size=(9, 9))
    direction = direction @ direction.T

    def at(t, theta):
        return engine.fit(K + t * direction, observed, likelihood.with_theta(theta)).log_evidence

    theta = likelihood.theta
    slope = (at(step, theta) - at(-step, theta)) / (2 * step)
    G = fit.evidence_gradient()
    np.testing.assert_allclose(np.sum(G * direction), slope, rtol=2e-6, atol=1e-6)
    for i, wanted in enumerate(fit.likelihood_gradient()):
        e = step * np.eye(len(theta))[i]
        np.testing.assert_allclose(wanted, (at(0, theta + e) - at(0, theta - e)) / (2 * step), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("engine", "likelihood", "y"), [EVERY[i] for i in FRACTIONAL], ids=[IDS[i] for i in FRACTIONAL])
def test_tiny_weights_are_removed_rows(engine, likelihood, y):
    kept = np.array([0, 1, 2, 4, 5, 7])
    weight = np.where(np.isin(np.arange(9), kept), 1.0, 1e-9)
    fit = engine.fit(K, Observed(y, weight), likelihood)
    fewer = engine.fit(K[np.ix_(kept, kept)], y[kept], likelihood)
    wanted, got = fewer.log_class_probabilities(KS[kept], KD), fit.log_class_probabilities(KS, KD)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6)
    if not isinstance(engine, LabelRegression):  # its noise is learned from all labels
        np.testing.assert_allclose(fit.log_evidence, fewer.log_evidence, rtol=0, atol=1e-6)


@pytest.mark.parametrize("likelihood", [Probit(bias=0.4), Logit(), Heaviside(0.1), Probit(epsilon=0.2)], ids=repr)
@pytest.mark.parametrize("weight", [0.3, 0.9])
def test_ep_of_one_observation_is_exact(likelihood, weight):
    """EP matches the moments of p^w itself: for one observation its evidence is log ∫ N(f | 0, v) p(y | f)^w df."""
    v, y = 6.0, np.array([-1.0])

    def density(f):
        if isinstance(likelihood, Heaviside):
            p = 0.9 if f < 0 else 0.1
        else:
            p = np.exp(likelihood.log_prob(y, np.array([f]))[0][0])
        return p**weight * np.exp(-0.5 * f**2 / v) / np.sqrt(2 * np.pi * v)

    exact = np.log(quad(density, -40, 0, epsabs=1e-13)[0] + quad(density, 0, 40, epsabs=1e-13)[0])
    fit = EP().fit([[v]], Observed(y, [weight]), likelihood)
    np.testing.assert_allclose(fit.log_evidence, exact, rtol=0, atol=1e-9)


def test_fv_uses_the_product_of_the_observations_of_a_place():
    """On a diagonal K the factorial method is exact: the evidence is a sum of one-dimensional integrals."""
    var, place = np.array([2.0, 5.0]), np.array([0, 0, 1])
    y, weight = np.array([1.0, -1.0, 1.0]), np.array([0.7, 2.0, 3.0])
    fit = FV(ridge=1e-12).fit(np.diag(var), Observed(y, weight, place), Logit())

    def mass(i):
        def density(f):
            mine = place == i
            return np.exp(-weight[mine] @ np.log1p(np.exp(-y[mine] * f)) - 0.5 * f**2 / var[i]) / np.sqrt(2 * np.pi * var[i])

        return quad(density, -30, 30, epsabs=1e-13)[0]

    np.testing.assert_allclose(fit.log_evidence, np.log(mass(0)) + np.log(mass(1)), rtol=0, atol=1e-9)
    # without one copy: the remaining observations of the place, under the prior
    left = [(0, np.array([0.0, 2.0])), (0, np.array([0.7, 1.0])), (1, np.array([2.0]))]
    for k, (i, rest) in enumerate(left):
        mine = y[place == i]

        def density(f, extra=0.0, mine=mine, rest=rest, i=i, k=k):
            return np.exp(-rest @ np.log1p(np.exp(-mine * f)) - extra * np.log1p(np.exp(-y[k] * f)) - 0.5 * f**2 / var[i])

        ratio = quad(lambda f, d=density: d(f, 1.0), -30, 30)[0] / quad(density, -30, 30)[0]
        # the fit uses a Gaussian with the moments of the remaining product
        np.testing.assert_allclose(fit.loo()[k], np.log(ratio), atol=0.02)


def test_fv_gradient_with_weights():
    observed, likelihood, engine = Observed(SIGNS, PARTS), Logit(learn_bias=True, bias=0.2), FV()
    fit, step = engine.fit(K, observed, likelihood), 1e-5
    direction = np.outer(X[:, 0], X[:, 0]) + np.diag(X[:, 1] ** 2)
    up, down = (engine.fit(K + t * direction, observed, likelihood).log_evidence for t in (step, -step))
    np.testing.assert_allclose(np.sum(fit.evidence_gradient() * direction), (up - down) / (2 * step), rtol=1e-5)
    up, down = (engine.fit(K, observed, likelihood.with_theta([0.2 + t])).log_evidence for t in (step, -step))
    np.testing.assert_allclose(fit.likelihood_gradient(), [(up - down) / (2 * step)], rtol=1e-5)


def test_jensen_bound_with_powers():
    """The bound counts each expected log probability by its weight, also where EP uses powers."""
    fit = EP().fit(K, Observed(SIGNS, PARTS), Logit())
    q = fit.posterior.latent
    expected = PARTS @ Logit().expected_log_prob(SIGNS, q.mean, q.var)[0]
    wanted = expected + 0.5 * (9 - q.alpha @ q.mean - q.log_det - q.trace_ratio)
    np.testing.assert_allclose(fit.jensen_bound(), wanted, rtol=1e-10)
    assert fit.jensen_bound() <= KL().fit(K, Observed(SIGNS, PARTS), Logit()).log_evidence


def test_powers_of_multinomial_probit():
    """Quadrature EP integrates powers numerically, with errors of a few percent; independent EP uses other powers."""
    observed = Observed(LABELS, np.minimum(PARTS, 1.0))
    one, other = (e.fit(K, observed, MultinomialProbit(3)) for e in (QuadratureEP(coupled=False), IndependentEP()))
    assert one.converged
    np.testing.assert_allclose(one.log_evidence, other.log_evidence, rtol=0.05)
    np.testing.assert_allclose(one.log_class_probabilities(KS, KD), other.log_class_probabilities(KS, KD), rtol=0, atol=0.1)
    # with classes coupled, the powers are those of nested EP
    one, other = (e.fit(K, observed, MultinomialProbit(3)) for e in (QuadratureEP(), NestedEP()))
    assert one.converged
    np.testing.assert_allclose(one.log_evidence, other.log_evidence, rtol=0.01)
    np.testing.assert_allclose(one.log_class_probabilities(KS, KD), other.log_class_probabilities(KS, KD), rtol=0, atol=0.02)


def test_refusals():
    with pytest.raises(ValueError, match="positive finite"):
        Observed(SIGNS, np.append(COUNTS[:-1], 0))
    with pytest.raises(ValueError, match="ascending"):
        EP().fit(K, Observed(SIGNS, COUNTS, np.array([0, 1, 2, 4, 3, 5, 6, 7, 8])), Probit())
    with pytest.raises(TypeError, match="one latent value for each observation"):
        NestedEP().fit(K[:8, :8], Observed(LABELS, COUNTS, np.array([0, 0, 1, 2, 3, 4, 5, 6, 7])), MultinomialProbit(3))
    with pytest.raises(TypeError, match=r"EP with such weights needs tilted_power.*Poisson"):
        EP().fit(K, Observed(LABELS, PARTS), Poisson())
