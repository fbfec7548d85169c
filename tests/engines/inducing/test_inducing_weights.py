"""Weighted rows of engines on inducing points: whole weights equal repeated rows, in sweeps and in minibatches."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from gpclass.engines.inducing.step import State, take_step
from gpclass.engines.observations import Observed
from gpclass.gaussian import LowRankMatrices
from gpclass.kernels import RBF
from gpclass.likelihoods import Heaviside, Logit, MultinomialProbit, Probit, RobustMax, Softmax
from gpclass.sparse import GFITC, SVGP, ScalableEP, StochasticEP

rng = np.random.default_rng(3)
X, Z, NEW = rng.normal(size=(10, 2)), rng.normal(size=(4, 2)), rng.normal(size=(5, 2))
KERNEL = RBF(1.2, variance=3.0)
SIGNS = np.sign(X[:, 0] + 0.8 * rng.normal(size=10))
LABELS = np.argmax(X @ rng.normal(size=(2, 3)) + 0.7 * rng.normal(size=(10, 3)), axis=1)
COUNTS = np.array([1, 3, 1, 2, 4, 1, 1, 2, 1, 2])
PARTS = np.array([0.3, 2.5, 1.0, 0.05, 0.7, 1.0, 0.5, 1.5, 0.2, 3.0])
REPEATED = np.repeat(np.arange(10), COUNTS)
FIRST = np.searchsorted(REPEATED, np.arange(10))

ONE = [
    (ScalableEP(), Probit(learn_bias=True, bias=0.3)), (ScalableEP(), Heaviside(0.2)), (GFITC(), Logit()),
    (StochasticEP(), Probit(learn_bias=True, bias=0.3)), (SVGP(), Logit(learn_bias=True, bias=0.3)),
]  # fmt: skip
SEVERAL = [
    (ScalableEP(), MultinomialProbit(3, bias=(0.0, 0.3, -0.2), learn_bias=True)),
    (ScalableEP("joint"), RobustMax(3, epsilon=0.1)),
    (GFITC(), MultinomialProbit(3, bias=(0.0, 0.3, -0.2), learn_bias=True)),
    (StochasticEP(), MultinomialProbit(3)), (StochasticEP("joint"), MultinomialProbit(3)), (SVGP(), Softmax(3)),
    (SVGP(), RobustMax(3)),
]  # fmt: skip
EVERY = [*((e, lik, SIGNS) for e, lik in ONE), *((e, lik, LABELS) for e, lik in SEVERAL)]
IDS = [f"{type(e).__name__}-{type(lik).__name__}" for e, lik, _ in EVERY]
every = pytest.mark.parametrize(("engine", "likelihood", "y"), EVERY, ids=IDS)


def tight(engine):
    return replace(engine, tol=1e-11, max_iter=3000)


def covariances(rows=slice(None)):
    return KERNEL(Z), KERNEL(X[rows], Z), KERNEL.diag(X[rows])


def fitted(engine, y, likelihood, rows=slice(None), change=None, start=None):
    K = covariances(rows) if change is None else change
    return engine.fit(*K, y, likelihood, start=start)


def predicted(fit):
    return fit.log_class_probabilities(KERNEL(Z, NEW), KERNEL.diag(NEW))


@every
def test_whole_weights_are_repeated_rows(engine, likelihood, y):
    """The tolerance is that of convergence, 1e-11, times the condition of K_uu and the size of the evidence."""
    weighted = fitted(tight(engine), Observed(y, COUNTS), likelihood)
    repeated = fitted(tight(engine), y[REPEATED], likelihood, REPEATED)
    assert_allclose(weighted.log_evidence, repeated.log_evidence, rtol=0, atol=1e-8)
    assert_allclose(predicted(weighted), predicted(repeated), rtol=0, atol=1e-8)
    assert_allclose(weighted.loo(), repeated.loo()[FIRST], rtol=0, atol=1e-7)
    assert_allclose(weighted.mean, repeated.mean[FIRST], rtol=0, atol=1e-7)
    assert_allclose(weighted.var, repeated.var[FIRST], rtol=0, atol=1e-7)
    assert_allclose(weighted.likelihood_gradient(), repeated.likelihood_gradient(), rtol=0, atol=1e-7)
    one, other = weighted.evidence_gradient(), repeated.evidence_gradient()
    assert_allclose(one.uu, other.uu, rtol=0, atol=1e-7)
    assert_allclose(one.fu, np.add.reduceat(other.fu, FIRST), rtol=0, atol=1e-7)
    assert_allclose(one.diag, np.add.reduceat(other.diag, FIRST), rtol=0, atol=1e-7)


WITH_POWERS = [i for i, (e, lik, _) in enumerate(EVERY) if not isinstance(lik, RobustMax) or isinstance(e, SVGP)]
fractional = pytest.mark.parametrize(
    ("engine", "likelihood", "y"), [EVERY[i] for i in WITH_POWERS], ids=[IDS[i] for i in WITH_POWERS]
)


@fractional
def test_tiny_weights_are_removed_rows(engine, likelihood, y):
    kept = np.array([0, 1, 2, 4, 5, 7])
    observed = Observed(y, np.where(np.isin(np.arange(10), kept), 1.0, 1e-9))
    fit, fewer = fitted(engine, observed, likelihood), fitted(engine, y[kept], likelihood, kept)
    # the start of SVGP with robust-max has weights of at least one, and its bound many local maxima
    if not isinstance(likelihood, RobustMax):
        assert_allclose(fit.log_evidence, fewer.log_evidence, rtol=0, atol=1e-6)
        assert_allclose(predicted(fit), predicted(fewer), rtol=0, atol=1e-5)


@fractional
def test_gradients_with_fractional_weights(engine, likelihood, y):
    """Central differences with step 2e-5: their own error is 4e-10 times third derivatives, and that of rounding 1e-7."""
    if isinstance(engine, StochasticEP):  # tied sites are not a stationary point of the evidence
        return
    engine, observed, step = tight(engine), Observed(y, PARTS), 2e-5
    fit = fitted(engine, observed, likelihood)
    rng = np.random.default_rng(0)
    along = [rng.normal(size=part.shape) for part in covariances()]
    along = along[0] @ along[0].T, along[1], np.abs(along[2])
    G, theta = fit.evidence_gradient(), likelihood.theta

    def at(t, theta):
        K = [part + t * d for part, d in zip(covariances(), along, strict=True)]
        return fitted(engine, observed, likelihood.with_theta(theta), change=K, start=fit).log_evidence

    wanted = sum(float(np.sum(g * d)) for g, d in zip((G.uu, G.fu, G.diag), along, strict=True))
    assert_allclose(wanted, (at(step, theta) - at(-step, theta)) / (2 * step), rtol=2e-6, atol=2e-6)
    for i, slope in enumerate(fit.likelihood_gradient()):
        e = step * np.eye(len(theta))[i]
        assert_allclose(slope, (at(0, theta + e) - at(0, theta - e)) / (2 * step), rtol=1e-5, atol=2e-6)


def test_powers_are_continuous():
    """Weights just below one are powers of the likelihood, by other formulas than those of weight one."""
    for engine, likelihood, y in [*EVERY[:4], EVERY[5], EVERY[7]]:
        fits = [fitted(tight(engine), Observed(y, np.full(10, w)), likelihood) for w in (1 - 1e-7, 1.0)]
        assert_allclose(*(fit.log_evidence for fit in fits), rtol=0, atol=3e-6)
        assert_allclose(*(predicted(fit) for fit in fits), rtol=0, atol=3e-6)
        assert_allclose(*(fit.var for fit in fits), rtol=0, atol=3e-6)


MINIBATCHES = [i for i, (e, _, _) in enumerate(EVERY) if e.minibatches]


@pytest.mark.parametrize("seen", [0, 10, 1000])
@pytest.mark.parametrize(
    ("engine", "likelihood", "y"), [EVERY[i] for i in MINIBATCHES], ids=[IDS[i] for i in MINIBATCHES]
)
def test_a_step_with_weights_is_one_with_repeated_rows(engine, likelihood, y, seen):
    """The minibatch has half of the rows, and of the weight. Before the step, sites are those of a weighted fit."""
    weight, rows = np.append(COUNTS[:9], 6.0), np.array([1, 4, 5, 6, 7])  # weights 3, 4, 1, 1 and 2: 11 of 22
    first = fitted(engine, Observed(y, weight), likelihood)
    sites = first.row_sites if engine.keeps_rows else {}
    copies = np.repeat(rows, weight[rows].astype(int))
    state = replace(first.minibatch_state, seen=seen, steps=seen, passed=0, moved=0.2 if seen == 10 else 0.0)

    def stepped(some, targets, n_total, seen, **more):
        K = LowRankMatrices(*covariances(some))
        own = {name: part[some] for name, part in sites.items()}
        return take_step(engine, replace(state, seen=seen), K, targets, own, n_total, likelihood, **more)

    scaled = int(seen * 2.2)  # the same number of passes
    one, part = stepped(rows, Observed(y[rows], weight[rows]), 10, seen, weight=22.0)
    other, whole = stepped(copies, y[copies], 22, scaled)
    assert_allclose(one.log_evidence, other.log_evidence, rtol=0, atol=1e-9)
    for name in ("uu", "theta"):
        assert_allclose(getattr(one, name), getattr(other, name), rtol=0, atol=1e-9)
    for name in ("P", "h"):
        wanted = getattr(other.state, name)
        assert_allclose(getattr(one.state, name), wanted, rtol=0, atol=1e-9 * np.abs(wanted).max())
    at = np.searchsorted(np.repeat(np.arange(5), weight[rows].astype(int)), np.arange(5))
    assert_allclose(part.fu, np.add.reduceat(whole.fu, at, axis=1), rtol=0, atol=1e-9)
    assert_allclose(part.diag, np.add.reduceat(whole.diag, at, axis=1), rtol=0, atol=1e-9)
    for name, new in part.sites.items():
        assert_allclose(new, whole.sites[name][at], rtol=0, atol=1e-9)


def test_minibatches_of_weighted_rows_settle_where_sweeps_do():
    """ScalableEP at fixed hyperparameters; after some passes the remaining move is below the tolerance."""
    engine, likelihood = ScalableEP(), Probit()
    settled = fitted(tight(engine), Observed(SIGNS, PARTS), likelihood)
    state, sites = State.empty(1, 4), engine.row_sites(10, likelihood)
    for number in range(300):
        rows = np.random.default_rng(number // 5).permutation(10)[2 * (number % 5) :][:2]
        own = {name: part[rows] for name, part in sites.items()}
        observed = Observed(SIGNS[rows], PARTS[rows])
        done, part = take_step(
            engine, state, LowRankMatrices(*covariances(rows)), observed, own, 10, likelihood, weight=PARTS.sum()
        )
        state = done.state
        for name, new in part.sites.items():
            sites[name][rows] = new
    wanted = settled.minibatch_state
    assert_allclose(state.P, wanted.P, rtol=0, atol=1e-6 * np.abs(wanted.P).max())
    assert_allclose(state.h, wanted.h, rtol=0, atol=1e-6 * np.abs(wanted.h).max())


def test_refusals():
    with pytest.raises(TypeError, match="one latent value for each observation"):
        fitted(ScalableEP(), Observed(SIGNS, COUNTS, np.arange(10)), Probit())
