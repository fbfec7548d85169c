"""Every public engine with every likelihood that it can use through the public kit of checks, and the kit against slips."""

import dataclasses
import inspect
import re

import numpy as np
import pytest

import gpclass.inference as inference
from gpclass.engines import Engine
from gpclass.inference import EP, FV, KL, TAP, VB, LabelRegression, Laplace, TAPNaive
from gpclass.likelihoods import Gaussian, Heaviside, Logit, Probit
from gpclass.testing.engines import check_engine

LIKELIHOODS = [
    Probit(), Probit(0.4, learn_bias=True), Logit(), Logit(-0.3, learn_bias=True),
    Heaviside(0.05), Heaviside(0.0), Gaussian(0.3),
]  # fmt: skip

# what each engine is good for; see check_engine
CLAIMS = {
    Laplace(): {},
    EP(): {"independent": True},
    EP(schedule="sequential"): {"independent": True},
    TAP(): {"independent": True},
    # its free energy keeps the prior's variances in the cavities: the posterior of a regression is right, its evidence not
    TAPNaive(): {"independent": True, "regression": "posterior"},
    KL(): {"bound": True},
    VB(): {"bound": True},
    # a product of one-dimensional factors never tends to a correlated prior, however small
    FV(): {"independent": True, "bound": True, "small_prior": False, "regression": "nothing"},
    # its evidence is that of real-valued labels under its own noise
    LabelRegression(): {"small_prior": False, "regression": "nothing"},
    LabelRegression(noise=0.7): {"small_prior": False, "regression": "nothing"},
}
PAIRS = [(e, l) for e in CLAIMS for l in LIKELIHOODS if e.serves(l)]


@pytest.mark.parametrize(("engine", "likelihood"), PAIRS, ids=[f"{e}-{l}" for e, l in PAIRS])
def test_kit(engine, likelihood):
    check_engine(engine, likelihood, **CLAIMS[engine])


def test_every_public_engine_is_covered():
    public = {getattr(inference, name) for name in inference.__all__}
    engines = {c for c in public if inspect.isclass(c) and hasattr(c, "needs")}
    multiclass = {c for c in engines if getattr(c, "latents", "one") == "several"}
    assert {type(e) for e in CLAIMS} == engines - multiclass
    assert {c.__name__ for c in vars(inference).values() if inspect.isclass(c) and hasattr(c, "needs")} <= set(
        inference.__all__
    )


def test_every_engine_meets_every_likelihood_that_can_serve_it():
    served = {(type(e).__name__, type(l).__name__) for e, l in PAIRS}
    smooth = {"Probit", "Logit", "Gaussian"}
    for engine in ("Laplace", "KL", "VB"):
        assert {l for e, l in served if e == engine} == smooth
    for engine in ("EP", "TAP", "TAPNaive", "FV", "LabelRegression"):
        assert {l for e, l in served if e == engine} == smooth | {"Heaviside"}


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


SLIPS = {
    "wrong gradient": (Wrapped(Laplace(), evidence_gradient=returning(1.001)), {}, "along the scale of K"),
    "wrong likelihood gradient": (Wrapped(Laplace(), likelihood_gradient=returning(1.001)), {}, "in bias"),
    "wrong variance": (Wrapped(Laplace(), var=factor(1.001)), {}, "predicted variances at the training points"),
    "wrong mean": (Wrapped(Laplace(), mean=factor(1.001)), {}, "K alpha against the mean"),
    "wrong predictions": (Wrapped(Laplace(), predict=returning(1.001)), {}, "predicted means at the training points"),
    "unfinished": (Laplace(max_iter=2), {}, "Laplace stopped after 2 sweeps"),
    "order matters": (IgnoresTheOrder(), {}, "data in another order: log_evidence|evidence_gradient"),
    "labels not alike": (PrefersPositive(), {}, "opposite targets: log_evidence|prior scale 1e-10"),
    "symmetry unchecked": (Unchecked(), {}, "K that is not symmetric should raise ValueError"),
    "miscounted": (Silent(), {}, "should contain '2 sweep'"),
    "jensen above truth": (Wrapped(KL(), jensen_bound=lambda fit, value: lambda: value() + 0.5), {}, "is above the true"),
    "EP is no bound": (EP(), {"bound": True}, "log_evidence, a bound, is above the true one"),
    "Laplace is not exact": (Laplace(), {"independent": True}, "log_evidence for a diagonal K"),
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
