"""Every engine with every likelihood, also of other packages: it fits, or an error lists suitable ones."""

import re
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.datasets import load_iris

import gpclass
from gpclass import GPClassifier, GPRegressor, likelihoods
from gpclass.choose import (
    LARGEST_SIZE,
    as_engine,
    default_likelihood,
    engine_for,
    engine_named,
    engine_names,
    likelihood_names,
    likelihoods_of,
)
from gpclass.engines import UnsuitableLikelihood
from gpclass.inference import EP, KL, QuadratureEP
from gpclass.kernels import RBF
from gpclass.likelihoods import (
    Gaussian,
    LaplaceNoise,
    Likelihood,
    MultinomialProbit,
    OneAgainstRest,
    Ordinal,
    Poisson,
    Probit,
    RobustMax,
    Sigmoid,
    Softmax,
)
from gpclass.registry import name_of, registered
from gpclass.sampling import HMC, EllipticalSlice, Gibbs, ScaledMetropolis

X = np.random.default_rng(0).normal(size=(12, 2))
LABELS = {C: np.array([f"u{i % C}" for i in range(12)]) for C in (2, 3)}
ORDER = ["u0", "u1", "u2"]  # for ordered categories
QUICK = {"n_draws": 6, "n_warmup": 4, "n_chains": 2}
SAMPLERS = {type(s).__name__: s for s in (HMC(**QUICK), EllipticalSlice(**QUICK), Gibbs(**QUICK), ScaledMetropolis(**QUICK))}
EVERY = {**{name: engine_named(name) for name in engine_names() if name != "mcmc"}, **SAMPLERS, "auto": "auto"}


def fit(engine, likelihood, C):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = GPClassifier(RBF(1.0, 1.0), likelihood, engine, categories=ORDER, optimizer=None, random_state=0)
        clf.fit(X, LABELS[C]).predict_proba(X[:2])
        return clf


@pytest.mark.parametrize("C", [2, 3])
@pytest.mark.parametrize("name", EVERY)
def test_every_engine_with_every_likelihood(name, C):
    named, noisy = list(registered("likelihood")), [Probit(epsilon=0.1), MultinomialProbit(C, epsilon=0.1)]
    advised, served = set(), set()
    for likelihood in [*named, *noisy, Gaussian(), Poisson(), Ordinal((0.0,)), Ordinal((0.0, 1.0)), likelihoods.Softmax(5)]:
        try:
            fit(EVERY[name], likelihood, C)
        except (TypeError, ValueError) as error:
            text = str(error)
            assert "\n" not in text
            assert "-1" not in text  # labels that do not occur
            assert "np." not in text
            if "; use '" in text:
                advised.update(re.findall("'([^']+)'", text.partition("; use ")[2]))
            served.update(re.split(", ", text.partition("Likelihoods that ")[2].partition(": ")[2].rstrip(".")))
    for other in advised:
        fit(EVERY[name], other, C)
    for other in served - {""}:
        cls = getattr(likelihoods, other)
        fit(EVERY[name], cls(C) if issubclass(cls, likelihoods.Multiclass) else cls(), C)


def test_the_contract_says_which_pairs_fit():
    """A pair that is declared to be compatible fits, and any other is refused by the engine itself."""
    K = RBF(1.0, 1.0)(X) + 0.1 * np.eye(12)
    for engine in [e for e in EVERY.values() if e != "auto" and e.design == "all rows"]:
        for C in (2, 3):
            for likelihood in [*likelihoods_of(C).values(), MultinomialProbit(C, epsilon=0.1), Probit(epsilon=0.1)]:
                if len(likelihood.class_targets) != C:
                    continue
                y = likelihood.class_targets[np.arange(12) % C]
                if engine.serves(likelihood):
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        engine.fit(K, y, likelihood)
                else:
                    with pytest.raises(UnsuitableLikelihood, match=r"(Likelihoods that do|Supported likelihoods): \w+"):
                        engine.fit(K, y, likelihood)


@pytest.mark.parametrize("likelihood", [Gaussian(), LaplaceNoise(), Poisson()])
def test_likelihoods_of_other_targets_are_refused(likelihood):
    for C in (2, 3):
        for inference in ("auto", "laplace", HMC(**QUICK)):
            with pytest.raises(TypeError, match=f"for class labels, but .* is for {likelihood.targets}; use '"):
                fit(inference, likelihood, C)


def test_auto_picks_what_fits():
    """It picks a likelihood for an engine, or an engine for a likelihood."""
    for C in (2, 3):
        for engine in EVERY.values():
            if engine != "auto" and (C == 2 or engine.takes_several):
                fit(engine, "auto", C)
        for likelihood in likelihoods_of(C):
            fit("auto", likelihood, C)
    assert isinstance(default_likelihood(Gibbs(), 3), likelihoods.MultinomialProbit)
    assert type(engine_for(OneAgainstRest(3))).__name__ == "ScalableEP"
    assert type(engine_for(Probit())).__name__ == "EP"
    assert type(engine_for(RobustMax(3))).__name__ == "QuadratureEP"
    assert type(engine_for(Softmax(3))).__name__ == "VariationalMNL"
    assert type(engine_for(Probit(epsilon=0.1))).__name__ == "EP"
    assert engine_for(MultinomialProbit(3, epsilon=0.1)) == QuadratureEP(coupled=False)
    assert type(engine_for(MultinomialProbit(3, epsilon=0.1), 10**5)).__name__ == "ScalableEP"
    assert type(engine_for(Softmax(3), 10**5)).__name__ == "SVGP"
    assert likelihood_names(2, EP()) == ["logit", "probit", "heaviside"]


def test_auto_goes_by_the_cost_that_engines_declare():
    """Dense systems of at most LARGEST_SIZE rows: n, n (C + 1)^(1/3) for C + 1 factorisations, or n (C - 1) for one."""
    for likelihood, most, usual, large in (
        (Probit(), LARGEST_SIZE, "EP", "ScalableEP"),
        (MultinomialProbit(7), LARGEST_SIZE // 2, "NestedEP", "ScalableEP"),
        (Softmax(5), LARGEST_SIZE // 4, "VariationalMNL", "SVGP"),
    ):
        assert [type(engine_for(likelihood, n)).__name__ for n in (1, most, most + 1)] == [usual, usual, large]


@pytest.mark.parametrize("likelihood", [MultinomialProbit(4), RobustMax(4), MultinomialProbit(4, epsilon=0.1), Probit()])
def test_auto_avoids_engines_that_are_slow_with_weights_below_one(likelihood):
    """Only if another engine supports the likelihood: a slow fit is better than one of a dense system of any size."""
    plain, weighted = (engine_for(likelihood, 10**6, fractions=fractions) for fractions in (False, True))
    assert not plain.pairwise(likelihood), "the evidence of pairwise factors prefers too large variances"
    assert weighted.design == "inducing inputs"
    assert weighted.pairwise(likelihood) == likelihood.offers("contrast_factor")
    assert weighted.slow_fractions(likelihood) == (likelihood == MultinomialProbit(4, epsilon=0.1))


def test_the_weights_of_rows_reach_the_choice_of_auto(monkeypatch):
    """Streams have not read all weights when the engine is chosen: there any weights count as below one."""

    class Chosen(Exception):
        pass

    def stop(likelihood, n_rows, n_places, fractions, posterior_only):
        raise Chosen(fractions)

    monkeypatch.setattr("gpclass.fitting.problem.engine_for", stop)
    y = np.arange(40) % 3
    X = np.random.default_rng(0).normal(size=(40, 2))
    some = np.where(y == 0, 0.5, 1.0)
    for given, settings, fractions in (
        ({"X": X, "y": y}, {}, False),
        ({"X": X, "y": y, "sample_weight": np.full(40, 2.0)}, {}, False),
        ({"X": X, "y": y, "sample_weight": some}, {}, True),
        ({"X": X, "y": y}, {"class_weight": {0: 0.5, 1: 1, 2: 1}}, True),
        ({"X": [(X, y)]}, {}, False),
        ({"X": [(X, y)]}, {"class_weight": {0: 2, 1: 1, 2: 1}}, True),
    ):
        with pytest.raises(Chosen, match=str(fractions)):
            GPClassifier(**settings).fit(**given)


def test_probabilities_of_auto_with_softmax_agree_with_a_sampler():
    X, y = load_iris(return_X_y=True)
    X, y, new = X[1::5], y[1::5], X[::5]
    auto = GPClassifier(likelihood="softmax").fit(X, y)
    # at the same hyperparameters; two runs, whose difference gives the sampler's error
    samplers = [HMC(n_draws=500, n_warmup=200, random_state=seed) for seed in (0, 1)]
    exact = [GPClassifier(auto.kernel_, "softmax", s, optimizer=None).fit(X, y).predict_proba(new) for s in samplers]
    error = np.sqrt(np.mean((exact[0] - exact[1]) ** 2)) / 2  # standard error of their mean
    assert error < 0.005
    gap = np.abs(auto.predict_proba(new) - np.mean(exact, axis=0))
    # against runs of 4000 draws variational MNL is off by 0.008 on average and 0.058 at most, Laplace by 0.125 and 0.25
    assert gap.mean() < 0.008 + 4 * error
    assert gap.max() < 0.06 + 12 * error  # the error of single probabilities is up to three times the average


def test_names_that_are_nearly_right():
    with pytest.raises(ValueError, match=r"inference='nestedep' is not known. Did you mean 'nested-ep'?"):
        as_engine("nestedep")
    with pytest.raises(ValueError, match=r"likelihood='softmx' is not known. Did you mean 'softmax'?"):
        fit("auto", "softmx", 3)


# classes of other packages --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tempered(Sigmoid):
    """A logistic function of slope two, as another package would write it."""

    def log_prob(self, y, f):
        z = 2 * np.asarray(y) * (f + self.bias)
        p = expit(-z)
        return -np.logaddexp(0.0, -z), 2 * np.asarray(y) * p, -4 * p * (1 - p)

    def log_prob_third(self, y, f):
        p = expit(-2 * np.asarray(y) * (f + self.bias))
        return -8 * np.asarray(y) * p * (1 - p) * (2 * p - 1)


class Whispered(Likelihood):
    """A likelihood with a single method, which no engine of gpclass uses."""

    def check_targets(self, y):
        return likelihoods.sigmoid.check_signs(y)

    def whisper(self, y, mean, var):
        return Probit().expected_log_prob(y, mean, var)

    def log_predictive(self, y, mean, var):
        return Probit().log_predictive(y, mean, var)


@dataclass(frozen=True)
class Listener(KL):
    """KL for `Whispered`."""

    needs: ClassVar = ("whisper",)

    def fit(self, K, y, likelihood, start=None):
        self.check_likelihood(likelihood)
        return KL(self.damping, self.tol, self.max_iter).fit(K, y, Probit(), start)


@pytest.fixture
def others():
    """Register these classes during a test."""
    tables = gpclass.registry._classes
    before = {kind: dict(table) for kind, table in tables.items()}
    yield
    for kind, table in before.items():
        tables[kind].clear()
        tables[kind].update(table)


def test_a_likelihood_from_outside_is_a_citizen(others):
    assert name_of(Tempered) is None
    clf = fit("auto", Tempered(), 2)  # an object needs no name
    assert isinstance(clf.inference_, EP)
    gpclass.register(Tempered, "tempered")
    assert isinstance(fit("laplace", "tempered", 2).likelihood_, Tempered)
    assert "tempered" in likelihood_names(2, EP())
    with pytest.raises(UnsuitableLikelihood, match="Logit, Probit, Tempered"):
        fit("kl", "heaviside", 2)
    with pytest.raises(UnsuitableLikelihood, match=r"VB needs bound, which Tempered does not offer. .* Logit, Probit\."):
        fit("vb", "tempered", 2)


def test_an_engine_from_outside_is_a_citizen(others):
    with pytest.raises(UnsuitableLikelihood, match="no engine supports Whispered"):
        fit("auto", Whispered(), 2)
    gpclass.register(Listener, "listener")
    gpclass.register(Whispered, "whispered")
    clf = fit("auto", Whispered(), 2)
    assert isinstance(clf.inference_, Listener)
    assert isinstance(fit("listener", "auto", 2).likelihood_, Whispered)
    assert_allclose(clf.predict_proba(X), fit("kl", "probit", 2).predict_proba(X), atol=1e-9)
    with pytest.raises(UnsuitableLikelihood, match=r"Listener needs whisper, which Probit does not offer. .*: Whispered"):
        fit("listener", "probit", 2)
    with pytest.raises(ValueError, match="listener"):  # listed among the others
        as_engine("nothing of the kind")


def test_what_cannot_be_registered():
    with pytest.raises(TypeError, match="derive it from Kernel, Likelihood or Engine"):
        gpclass.register(int, "number")
    with pytest.raises(ValueError, match="already registered under the name 'ep'"):
        gpclass.register(Listener, "ep")
    with pytest.raises(TypeError, match=r"object of a class derived from gpclass.engines.Engine; got 3"):
        as_engine(3)


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
    with pytest.raises(ValueError, match=r"only one class \('u0'\)"):
        model.fit(X, np.array(["u0"] * 12))
    with pytest.raises(ValueError, match=r"classes are \['u0', 'u7'\], but the first call had \['u0', 'u1'\]"):
        GPClassifier(inference="ivm", optimizer=None).fit(X, LABELS[2]).partial_fit(X, LABELS[2], classes=["u0", "u7"])
