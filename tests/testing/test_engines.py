"""Every registered engine with every likelihood that it supports passes the checks, and the checks find faults."""

import dataclasses
import re

import numpy as np
import pytest

import gpclass.choose  # registers all engines and likelihoods  # noqa: F401
from gpclass.engines import Engine
from gpclass.engines.contract import DESIGNS
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
)
from gpclass.likelihoods import (
    Gaussian,
    Heaviside,
    LaplaceNoise,
    Logit,
    MultinomialProbit,
    NullCategory,
    OneAgainstRest,
    Ordinal,
    Poisson,
    Probit,
    RobustMax,
    Softmax,
)
from gpclass.registry import registered
from gpclass.sparse import GFITC, IVM, SVGP, CoupledScalableEP, ScalableEP, SparseVariationalMNL, StochasticEP
from gpclass.testing.engines import check_engine

# each likelihood once, with its parameters free: biases of zero leave it symmetric
LIKELIHOODS = [
    Probit(learn_bias=True),
    NullCategory(learn_bias=True),
    Logit(-0.3, learn_bias=True),
    Heaviside(0.05),
    Gaussian(0.3),
    LaplaceNoise(0.3),
    Ordinal(),
    Poisson(learn_bias=True),
    Softmax(3, learn_bias=True),
    MultinomialProbit(3, learn_bias=True),
    MultinomialProbit(3, learn_bias=True, epsilon=0.1),
    RobustMax(3, epsilon=0.1, learn_epsilon=True),
    OneAgainstRest(3, learn_bias=True),
]
MORE = {  # by design
    "all rows": [Probit(0.4, learn_bias=True), Probit(learn_bias=True, epsilon=0.1), Logit(), Heaviside(0.0)],
    "inducing inputs": [MultinomialProbit(3, bias=(0.0, 0.2, -0.3), learn_bias=True)],
}

# inner EP is too low by 0.0018 per datum if three classes are equally probable
INNER_EP = {"small_prior": 0.002}
NOISY = MultinomialProbit(3, learn_bias=True, epsilon=0.1)
TWO = QuadratureEP(), MultinomialProbit(2)  # one contrast: no quadrature is needed
# the claims of each engine; see check_engine
CLAIMS = {
    Laplace(): {},
    EP(): {"independent": True},
    EP(schedule="sequential"): {"independent": True},
    EP(power=0.5): {},
    TAP(): {"independent": True},
    # its free energy keeps the prior's variances in the cavities: for regression the posterior is exact, the evidence is not
    TAPNaive(): {"independent": True, "regression": "posterior"},
    KL(): {"bound": True},
    VB(): {"bound": True},
    VB(objective="jensen"): {"bound": True},
    # a product of one-dimensional factors never tends to a correlated prior, however small, nor to that of equal rows
    FV(): {"independent": True, "bound": True, "small_prior": False, "regression": "nothing", "weights": "nothing"},
    # its evidence is that of real-valued labels with its own noise; the search for this noise has no warm start
    LabelRegression(): {"small_prior": False, "regression": "nothing", "warm_start": False},
    LabelRegression(noise=0.7): {"small_prior": False, "regression": "nothing"},
    NestedEP(): INNER_EP,
    NestedEP(power=0.5): {"small_prior": 0.003},  # low by 0.0027 there
    IndependentEP(): INNER_EP,
    # a diagonal precision of more than two classes is not stationary, and ten nodes depend on the order of the contrasts
    QuadratureEP(): {"gradient": 0.02, "class_order": 2e-3, "small_prior": 1e-4},
    QuadratureEP(precision="full"): {"gradient": 2e-3, "class_order": 2e-3, "small_prior": 1e-4},
    QuadratureEP(coupled=False): {"independent": True},
    MeanFieldProbit(): {"bound": True},
    VariationalMNL(): {"bound": True},
    SparseVariationalMNL(): {"bound": True, "dense": VariationalMNL()},
    # a row has one site, whatever its weight
    IVM(active=6): {"regression": "nothing", "weights": "powers"},
    # a start gives the rows; their sites are recomputed
    IVM(active=30, sweeps=200): {"warm_start": False, "weights": "powers"},
    ScalableEP(): {},
    ScalableEP("joint"): {},
    ScalableEP(power=0.5): {},
    CoupledScalableEP(): {},
    # the derivative in K_uu treats tied sites as stationary; see test_stochastic_ep.py
    StochasticEP(): {"gradient": np.inf, "regression": "nothing"},
    SVGP(): {"bound": True},
    GFITC(): {},
}
# the engine on all rows with the same fixed point
ONE_EP, SEVERAL_EP = {"dense": EP()}, {"dense": QuadratureEP(coupled=False)}
DENSE = {IVM(active=30, sweeps=200): ONE_EP, ScalableEP(): ONE_EP, GFITC(): ONE_EP, SVGP(): {"dense": KL()}}
DENSE[CoupledScalableEP()] = ONE_EP
DENSE[ScalableEP(power=0.5)] = {"dense": EP(power=0.5)}
# the product of pairwise probabilities is below the probability; so is SVGP's bound of multinomial probit
PAIRWISE = {"small_prior": False}
PAIRS_OF_CLAIMS = {
    (ScalableEP(), MultinomialProbit): PAIRWISE,
    # at a training point its own factors replace its part of the tied sites
    (StochasticEP(), MultinomialProbit): {**PAIRWISE, "marginals": False},
    (SVGP(), MultinomialProbit): PAIRWISE,
    (GFITC(), MultinomialProbit): {**INNER_EP, "dense": IndependentEP()},
    (ScalableEP("joint"), MultinomialProbit): SEVERAL_EP,
    (CoupledScalableEP(), MultinomialProbit): {**INNER_EP, "dense": NestedEP()},
    (ScalableEP(), RobustMax): SEVERAL_EP,
    (GFITC(), RobustMax): SEVERAL_EP,
    # with label noise there are no pairwise factors
    (ScalableEP(), NOISY): SEVERAL_EP,
    (StochasticEP(), NOISY): {},
    (GFITC(), NOISY): SEVERAL_EP,
    TWO: {"gradient": 1e-6, "class_order": 1e-6, "small_prior": True, "dense": NestedEP()},
    # quasi-random points depend on the order of the classes
    (SVGP(), Softmax): {"class_order": 0.02},
}
WIDE = {IVM(active=30, sweeps=200): (Probit, Heaviside, Gaussian), ScalableEP("joint"): (MultinomialProbit,)}  # quick ones
WIDE[ScalableEP(power=0.5)] = (Probit, Gaussian)


def likelihoods_of(engine):
    some = LIKELIHOODS + MORE.get(engine.design, [])
    return [l for l in some if engine.serves(l) and (engine not in WIDE or type(l) in WIDE[engine])]


def claims_of(engine, likelihood):
    dense = DENSE.get(engine, {}) if likelihood.n_latents == 1 else {}
    pair = PAIRS_OF_CLAIMS.get((engine, likelihood), PAIRS_OF_CLAIMS.get((engine, type(likelihood)), {}))
    return {**CLAIMS[engine], **dense, **pair}


PAIRS = [*((e, l) for e in CLAIMS for l in likelihoods_of(e)), TWO]


def short(x):
    """The parts of its repr that are not defaults."""
    fields = [f for f in dataclasses.fields(x) if f.default != getattr(x, f.name)]
    return f"{type(x).__name__}({', '.join(str(getattr(x, f.name)) for f in fields)})"


# variants of an engine meet the likelihoods of the engine itself only in the slow tests, but for those that they are for
SLOW = {
    EP(schedule="sequential"): (Poisson, LaplaceNoise, NullCategory, Ordinal, Gaussian),
    EP(power=0.5): (Poisson, LaplaceNoise, NullCategory, Ordinal, Gaussian),
    VB(objective="jensen"): (Heaviside, Ordinal),
    LabelRegression(noise=0.7): (Logit, Heaviside),
}


def marked(engine, likelihood):
    slow = type(likelihood) in SLOW.get(engine, ()) or (likelihood in MORE["inducing inputs"] and engine != ScalableEP())
    return pytest.param(engine, likelihood, marks=[pytest.mark.slow] * slow, id=f"{short(engine)}-{short(likelihood)}")


@pytest.mark.slow_cases("QuadratureEP(False)-RobustMax(3, 0.1, True)", "StochasticEP()-MultinomialProbit(3, True, 0.1)")
@pytest.mark.parametrize(("engine", "likelihood"), [marked(*pair) for pair in PAIRS])
def test_kit(engine, likelihood):
    check_engine(engine, likelihood, **claims_of(engine, likelihood))


def test_every_engine_meets_every_likelihood_that_can_serve_it():
    """All registered engines and likelihoods; there are engines of all designs among them."""
    met = {(type(e), type(l)) for e, l in PAIRS}
    engines = [cls() for cls in registered("engine").values() if cls.__module__.startswith("gpclass.")]
    likelihoods = [cls for cls in registered("likelihood").values() if cls.__module__.startswith("gpclass.")]
    made = [cls.for_targets(cls.targets, n) for cls in likelihoods for n in (2, 3)]
    assert {(type(e), type(l)) for e in engines for l in made if l is not None and e.serves(l)} <= met
    assert {e.design for e, _ in PAIRS} == set(DESIGNS)


# wrong on purpose: one slip each --------------------------------------------------------------------------------


class Wrapped(Engine):
    """An engine whose fits are passed through `change`."""

    needs = Laplace.needs

    def __init__(self, engine, **change):
        self.engine, self.change = engine, change

    def fit(self, K, y, likelihood, start=None):
        inner = self.engine.fit(K, y, likelihood, start.fit if start else None)
        return Changed(inner, self.change)


class Changed:
    def __init__(self, fit, change):
        self.fit, self.change = fit, change

    def __getattr__(self, name):
        value = getattr(self.fit, name)
        return self.change[name](self.fit, value) if name in self.change else value


def factor(number):
    return lambda fit, value: number * value


def returning(number):
    return lambda fit, value: lambda *args: tuple(number * v for v in value(*args)) if args else number * value()


class IgnoresTheOrder(Laplace):
    def fit(self, K, y, likelihood, start=None):
        fit = super().fit(K, y, likelihood, start)
        return dataclasses.replace(fit, log_evidence=fit.log_evidence + 1e-3 * (1 + float(np.tanh(y[0] * K[0][1]))))


class PrefersPositive(Laplace):
    def fit(self, K, y, likelihood, start=None):
        fit = super().fit(K, y, likelihood, start)
        return dataclasses.replace(fit, log_evidence=fit.log_evidence + 1e-4 * float(np.sum(np.asarray(y) > 0)))


class Unchecked(Laplace):
    def fit(self, K, y, likelihood, start=None):
        return super().fit(0.5 * (np.asarray(K) + np.asarray(K).T), y, likelihood, start)


class Silent(Laplace):
    def fit(self, K, y, likelihood, start=None):
        fit = super().fit(K, y, likelihood, start)
        if not fit.converged:
            return dataclasses.replace(fit, status=dataclasses.replace(fit.status, n_iter=fit.n_iter + 1))
        return fit


class IgnoresWeights(Laplace):
    def fit(self, K, y, likelihood, start=None):
        return super().fit(K, np.asarray(y), likelihood, start)


class DeclaresNoWeights(Laplace):
    weights = "none"

    def fit(self, K, y, likelihood, start=None):
        return super().fit(K, np.asarray(y), likelihood, start)


class CountsRowsOnly(SVGP):
    """An engine that treats a minibatch as all rows."""

    def absorb(self, broadcast, sums):
        own = {"P": sums.P / broadcast.share, "h": sums.h / broadcast.share}
        return super().absorb(broadcast, dataclasses.replace(sums, **own))


SLIPS = {
    "wrong gradient": (Wrapped(Laplace(), evidence_gradient=returning(1.001)), {}, "in K along the scale"),
    "wrong likelihood gradient": (Wrapped(Laplace(), likelihood_gradient=returning(1.001)), {}, "in bias"),
    "wrong variance": (Wrapped(Laplace(), var=factor(1.001)), {}, "predicted variances at the training points"),
    "wrong mean": (Wrapped(Laplace(), mean=factor(1.001)), {}, "K alpha against the mean"),
    "wrong predictions": (Wrapped(Laplace(), predict=returning(1.001)), {}, "predicted means at the training points"),
    "unfinished": (Laplace(max_iter=2), {}, "Laplace stopped after 2 sweeps"),
    "order matters": (IgnoresTheOrder(), {}, "data in another order: log_evidence|derivative in K"),
    "labels not alike": (PrefersPositive(), {}, "opposite targets: log_evidence|prior scale 1e-10"),
    "symmetry unchecked": (Unchecked(), {}, "K that is not symmetric should raise ValueError"),
    "miscounted": (Silent(), {}, "should contain '2 sweep'"),
    "jensen above truth": (Wrapped(KL(), jensen_bound=lambda fit, value: lambda: value() + 0.5), {}, "is above the true"),
    "EP is no bound": (EP(), {"bound": True}, "log_evidence, a bound, is above the true one"),
    "Laplace is not exact": (Laplace(), {"independent": True}, "log_evidence for a diagonal K"),
    "rows stand for themselves only": (CountsRowsOnly(), {}, "a step on half the rows, .*: precisions"),
    "weights ignored": (IgnoresWeights(), {}, "weights against repeated rows: log_evidence"),
    "weights not refused": (DeclaresNoWeights(), {}, "weights should raise TypeError"),
    "FV is not that of equal rows": (FV(), {"small_prior": False, "regression": "nothing"}, "weights against repeated rows"),
    "FV forgets correlations": (FV(), {}, "log_evidence at prior scale 1e-10"),
}  # fmt: skip


@pytest.mark.parametrize("slip", SLIPS)
def test_kit_notices(slip):
    engine, claims, message = SLIPS[slip]
    bias = 0.0 if "labels" in slip else 0.2
    with pytest.raises((AssertionError, UserWarning), match=message):
        check_engine(engine, Probit(bias, learn_bias=True), **claims)


def test_kit_notices_wrong_regression():
    with pytest.raises(AssertionError, match=re.escape("regression: log_evidence")):
        check_engine(TAPNaive(), Gaussian(0.3))
    with pytest.raises(ValueError, match="regression must be"):
        check_engine(EP(), Gaussian(0.3), regression="some")
    with pytest.raises(ValueError, match="weights must be"):
        check_engine(EP(), Gaussian(0.3), weights="some")
