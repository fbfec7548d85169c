"""Every engine with every likelihood: it fits, or one line says which likelihoods would serve, and these do."""

import re
import warnings

import numpy as np
import pytest

from gpclass import GPClassifier, GPRegressor, likelihoods
from gpclass.choose import ENGINES, LIKELIHOODS, MULTICLASS_LIKELIHOODS, default_likelihood, engine_for, takes_several
from gpclass.kernels import RBF
from gpclass.likelihoods import Gaussian, OneAgainstRest, Ordinal, Poisson, Probit
from gpclass.sampling import HMC, EllipticalSlice, Gibbs, ScaledMetropolis

X = np.random.default_rng(0).normal(size=(12, 2))
LABELS = {C: np.array([f"u{i % C}" for i in range(12)]) for C in (2, 3)}
QUICK = {"n_draws": 6, "n_warmup": 4, "n_chains": 2}
SAMPLERS = {type(s).__name__: s for s in (HMC(**QUICK), EllipticalSlice(**QUICK), Gibbs(**QUICK), ScaledMetropolis(**QUICK))}
EVERY = {**{name: make() for name, make in ENGINES.items()}, **SAMPLERS, "auto": "auto"}


def fit(engine, likelihood, C):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = GPClassifier(RBF(1.0, 1.0), likelihood, engine, optimizer=None, random_state=0)
        clf.fit(X, LABELS[C]).predict_proba(X[:2])


@pytest.mark.parametrize("C", [2, 3])
@pytest.mark.parametrize("name", EVERY)
def test_every_engine_with_every_likelihood(name, C):
    named = [*LIKELIHOODS, *MULTICLASS_LIKELIHOODS, OneAgainstRest(C)]
    for likelihood in [*named, Gaussian(), Poisson(), Ordinal((0.0,)), likelihoods.Softmax(5)]:
        try:
            fit(EVERY[name], likelihood, C)
        except (TypeError, ValueError) as error:
            text = str(error)
            assert "\n" not in text
            assert "-1" not in text  # labels that nobody gave
            assert "np." not in text
            if "; use '" in text:
                for other in re.findall("'([^']+)'", text.partition("; use ")[2]):
                    fit(EVERY[name], other, C)
            for other in re.split(", ", text.partition("Likelihoods that ")[2].partition(": ")[2].rstrip(".")):
                if other:
                    cls = getattr(likelihoods, other)
                    fit(EVERY[name], cls(C) if issubclass(cls, likelihoods.Multiclass) else cls(), C)


@pytest.mark.parametrize("likelihood", [Gaussian(), Poisson(), Ordinal((0.0,)), Ordinal()])
def test_likelihoods_of_other_targets_are_told_by_what_they_take(likelihood):
    for C in (2, 3):
        for inference in ("auto", "laplace", HMC(**QUICK)):
            with pytest.raises(TypeError, match=f"one of class labels, but .* is one of {likelihood.targets}; use '"):
                fit(inference, likelihood, C)


def test_auto_picks_what_fits():
    """A likelihood for an engine, an engine for a likelihood."""
    for C in (2, 3):
        for engine in EVERY.values():
            if engine != "auto" and (C == 2 or takes_several(engine)):
                fit(engine, "auto", C)
        for likelihood in (*MULTICLASS_LIKELIHOODS, OneAgainstRest(C)):
            fit("auto", likelihood, C)
    assert default_likelihood(Gibbs(), 3) == "multinomial-probit"
    assert type(engine_for(OneAgainstRest(3))).__name__ == "ScalableEP"
    assert type(engine_for(Probit())).__name__ == "EP"


def test_a_sampler_rests_on_all_rows_whoever_taught_it():
    clf = GPClassifier(RBF(1.0, 1.0), OneAgainstRest(3), HMC(**QUICK), random_state=0, max_iter=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p = clf.fit(X, LABELS[3]).predict_proba(X)
    np.testing.assert_array_equal(clf.inputs_, X)
    assert p.shape == (12, 3)


def test_text_where_numbers_should_be():
    words = X.astype(str)
    words[3, 1] = "red"
    model = GPClassifier(optimizer=None).fit(X, LABELS[2])
    for rows in (words, words.astype(object)):
        for work in (lambda r: GPClassifier().fit(r, LABELS[2]), model.predict, lambda r: GPRegressor().fit(r, X[:, 0])):
            with pytest.raises(ValueError, match=r"^could not convert string to float: 'red'; X holds text, but numbers"):
                work(rows)
    with pytest.raises(ValueError, match=r"^could not convert string to float: 'u0'; y holds text"):
        GPRegressor().fit(X, LABELS[2])
    with pytest.raises(ValueError, match=r"one class only \('u0'\)"):
        model.fit(X, np.array(["u0"] * 12))
    with pytest.raises(ValueError, match=r"classes are \['u0', 'u7'\], but the first call had \['u0', 'u1'\]"):
        GPClassifier(inference="ivm", optimizer=None).fit(X, LABELS[2]).partial_fit(X, LABELS[2], classes=["u0", "u7"])
