"""Fits rebuilt from K and their state, as model files do: the same results, including derivatives."""

import json
import warnings

import numpy as np
import pytest

from gpclass.engines.fit import restored
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
from gpclass.kernels import RBF
from gpclass.likelihoods import (
    Gaussian,
    Heaviside,
    LaplaceNoise,
    Logit,
    MultinomialProbit,
    Ordinal,
    Poisson,
    Probit,
    Softmax,
)
from gpclass.sparse import IVM

RNG = np.random.default_rng(2)
X, NEW = RNG.normal(size=(30, 2)), RNG.normal(size=(7, 2))
F = X[:, 0] + np.sin(2 * X[:, 1])
KERNEL = RBF(1.2, 2.5)
SIGN, THIRDS = np.where(F > 0, 1.0, -1.0), np.digitize(F, [-0.5, 0.5])
ONE = [(Probit(bias=0.2, learn_bias=True), SIGN), (Probit(epsilon=0.1), SIGN), (Logit(), SIGN), (Heaviside(0.1), SIGN)]
OTHERS = [(Gaussian(0.3), F), (LaplaceNoise(0.3), F), (Ordinal((-0.5, 0.5)), THIRDS), (Poisson(), THIRDS)]
SEVERAL = [(MultinomialProbit(3, learn_bias=True), THIRDS), (Softmax(3), THIRDS)]
CASES = [
    *((engine, ONE + OTHERS) for engine in (EP(), TAP(), TAPNaive(), KL(), VB(), FV(), LabelRegression())),
    *((engine, ONE + OTHERS + SEVERAL) for engine in (Laplace(), Laplace(correction="tierney-kadane"), IVM(active=12))),
    *((engine, SEVERAL) for engine in (NestedEP(), IndependentEP(), MeanFieldProbit(), VariationalMNL())),
    *((QuadratureEP(coupled=coupled), SEVERAL) for coupled in (True, False)),
]


def answers(fit, engine, likelihood):
    """All results of a fit, by name."""
    inputs = X[fit.rows] if isinstance(engine, IVM) else X
    Ks, kd = KERNEL(inputs, NEW), KERNEL.diag(NEW)
    mean, var = fit.predict(Ks, kd)
    told = {"evidence": fit.log_evidence, "sweeps": fit.n_iter, "mean": fit.mean, "var": fit.var}
    told |= {"predicted mean": mean, "predicted var": var}
    if likelihood.targets == "class labels":
        told |= {"probabilities": fit.log_class_probabilities(Ks, kd), "std": fit.class_probability_std(Ks, kd)}
        told |= {"left out": fit.loo_class_probabilities()}
    if not isinstance(engine, IVM):
        told |= {"gradient": fit.evidence_gradient(), "theta": fit.likelihood_gradient()}
    return told


@pytest.mark.parametrize(("engine", "problems"), CASES, ids=lambda part: type(part).__name__)
def test_a_fit_is_what_its_state_makes(engine, problems):
    taken = 0
    for likelihood, y in problems:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                fit = engine.fit(KERNEL(X), y, likelihood)
            except TypeError:  # the engine does not support it
                continue
        state = fit.state()
        json.dumps({name: part.tolist() if isinstance(part, np.ndarray) else part for name, part in state.items()})
        inputs = X[fit.rows] if isinstance(engine, IVM) else X
        again = restored(engine, KERNEL(inputs), fit.y, likelihood, state)
        before, after = answers(fit, engine, likelihood), answers(again, engine, likelihood)
        for name, told in before.items():
            # the same numbers, factorised again: eps times the condition of B, about 1e2 here
            np.testing.assert_allclose(after[name], told, rtol=1e-12, atol=1e-12, err_msg=f"{name} of {likelihood}")
        assert type(again) is type(fit)
        taken += 1
    assert taken
