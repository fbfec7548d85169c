"""GPClassifier with ordered categories: labels and their order, engines, learning, persistence, streams, scikit-learn."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import cross_val_predict
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpclass import GPClassifier, load, save
from gpclass.assess import fair_probabilities, scores, suggest, suspicious_labels, write_report
from gpclass.assess.models import training_labels
from gpclass.choose import default_engines, default_likelihood, engine_names, engines_for, likelihood_names
from gpclass.engines import UnsuitableLikelihood
from gpclass.inference import EP, KL, Laplace
from gpclass.kernels import RBF
from gpclass.likelihoods import Ordinal, Probit
from gpclass.sampling import HMC
from gpclass.sparse import GFITC, SVGP, ScalableEP, StochasticEP

NAMES = ["low", "medium", "high", "top"]  # sorted by name they would be in another order


def problem(n=60, seed=0, cuts=(-2.0, 0.0, 1.5)):
    """Inputs, the numbers of the categories, and their names."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    codes = np.digitize(2 * np.sin(1.5 * X[:, 0]) + X[:, 1] + 0.4 * rng.normal(size=n), cuts)
    return X, codes, np.array([*NAMES, "beyond"])[codes]


X, CODES, LABELS = problem()
QUICK = {"kernel": RBF(1.0, 4.0), "likelihood": "ordinal", "optimizer": None, "random_state": 0}


# labels and their order -----------------------------------------------------------------------------------------------


def test_every_way_to_give_the_order_is_the_same():
    numbers = GPClassifier(**QUICK).fit(X, CODES)
    p = numbers.predict_proba(X)
    assert numbers.classes_.tolist() == [0, 1, 2, 3]
    every = pd.Categorical(LABELS, categories=["none", *NAMES, "more"], ordered=True)  # two categories do not occur
    for model, y in [
        (GPClassifier(**QUICK, categories=NAMES), LABELS),
        (GPClassifier(**QUICK, categories=["none", *NAMES]), LABELS),
        (GPClassifier(**QUICK), every),
        (GPClassifier(**QUICK), pd.Series(every)),
        (GPClassifier(**QUICK, categories=NAMES), pd.Series(LABELS, dtype="category")),
    ]:
        model.fit(X, y)
        assert model.classes_.tolist() == NAMES
        assert_allclose(model.predict_proba(X), p, atol=1e-14)
        assert np.array_equal(model.predict(X), np.array(NAMES)[numbers.predict(X)])
        assert model.score(X, y) == numbers.score(X, CODES)
        assert_allclose(model.loo(), numbers.loo(), atol=1e-14)
        assert np.array_equal(training_labels(model), LABELS)
    turned = GPClassifier(**QUICK, categories=NAMES[::-1]).fit(X, LABELS)  # the mirrored order is the mirrored model
    assert_allclose(turned.predict_proba(X)[:, ::-1], p, atol=1e-7)  # tol of EP


def test_categories_of_nominal_classes_only_set_their_order():
    plain = GPClassifier(RBF(1.0, 4.0), optimizer=None).fit(X, LABELS)
    order = ["medium", "top", "low", "high"]
    given = clone(plain).set_params(categories=order).fit(X, LABELS)
    assert given.classes_.tolist() == order
    assert_allclose(given.predict_proba(X), plain.predict_proba(X)[:, np.argsort(np.argsort(order))], atol=1e-6)
    assert given.score(X, LABELS) == plain.score(X, LABELS)


def test_numbers_are_sorted_and_need_not_be_integers():
    model = GPClassifier(**QUICK).fit(X, np.array([-2.0, 0.0, 7.0, 10.0])[CODES])
    assert model.classes_.tolist() == [-2.0, 0.0, 7.0, 10.0]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, r"'low', 'medium', 'top'\] have no order. Pass categories=\[...\] .*--categories.*ordered pandas categorical"),
        ({"categories": NAMES[:3]}, r"y has labels \['top'\] that are not among the categories"),
        ({"categories": [*NAMES, "low"]}, "categories must be different, but low occurs more than once"),
        ({"categories": "low,high"}, "categories must be a list of labels"),
    ],
)
def test_labels_without_an_order(settings, words):
    with pytest.raises(ValueError, match=words):
        GPClassifier(**QUICK, **settings).fit(X, LABELS)
    with pytest.raises(ValueError, match=words):  # also from a stream
        GPClassifier(**QUICK, **settings, inference="scalable-ep").fit([(X, LABELS)])


def test_an_object_must_have_the_right_number_of_thresholds():
    with pytest.raises(ValueError, match="is for 2 classes, but y has 4; use 'ordinal'"):
        GPClassifier(likelihood=Ordinal((0.0,))).fit(X, CODES)


# engines --------------------------------------------------------------------------------------------------------------


def test_engines_serve_or_name_those_that_do():
    able = engines_for(4, "ordinal")
    assert {"ep", "laplace", "kl", "tap", "ivm", "scalable-ep", "stochastic-ep", "svgp", "gfitc", "mcmc"} <= set(able)
    for name in set(engine_names()) - set(able):
        with pytest.raises(UnsuitableLikelihood, match=r"not support ordered categories\. Engines that do: .*laplace"):
            GPClassifier(**{**QUICK, "inference": name}).fit(X, CODES)
        assert not GPClassifier(likelihood="ordinal", inference=name).__sklearn_tags__().classifier_tags.multi_class
    assert GPClassifier(likelihood="ordinal", inference="ep").__sklearn_tags__().classifier_tags.multi_class
    assert default_engines(100, 4, "ordinal") == ("laplace", "ep", "kl")
    assert {type(GPClassifier(**QUICK).fit(X, CODES).inference_)} == {EP}


def test_nominal_choices_are_without_ordinal():
    for C in (2, 3):
        assert "ordinal" not in likelihood_names(C)
        assert not default_likelihood(Laplace(), C).ordered


ALL_ROWS = {"n_inducing": 60}
SEVERAL = ["laplace", "kl", "tap", "ivm", *(kind(**ALL_ROWS) for kind in (ScalableEP, StochasticEP, SVGP, GFITC))]


@pytest.mark.parametrize("inference", SEVERAL, ids=lambda x: x if isinstance(x, str) else type(x).__name__)
def test_engines_agree(inference):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ep = GPClassifier(**QUICK, calibrate=None).fit(X, CODES)
        other = clone(ep).set_params(inference=inference).fit(X, CODES)
    p = other.predict_proba(X)
    assert np.abs(p - ep.predict_proba(X)).max() < 0.06  # approximations of one posterior
    assert_allclose(p.sum(1), 1, atol=1e-9)  # each category is integrated separately, without normalisation
    assert other.predict_proba_std(X).shape == (60, 4)


def test_two_categories_are_probit_with_a_bias():
    y = (CODES > 1).astype(int)
    ordinal = GPClassifier(**{**QUICK, "likelihood": Ordinal((0.4,))}).fit(X, y)
    probit = GPClassifier(**{**QUICK, "likelihood": Probit(-0.4)}).fit(X, y)
    assert_allclose(ordinal.predict_proba(X), probit.predict_proba(X), atol=1e-7)  # tol of EP
    assert_allclose(ordinal.log_evidence_, probit.log_evidence_, atol=1e-7)
    assert GPClassifier(likelihood="ordinal", random_state=0).fit(X, y).score(X, y) > 0.9


def test_sampler_agrees_with_ep():
    ep = GPClassifier(**QUICK, calibrate=None).fit(X, CODES)
    sampler = HMC(n_draws=150, n_warmup=100, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of few draws
        draws = clone(ep).set_params(inference=sampler).fit(X, CODES)
        assert np.abs(draws.loo() - ep.loo()).max() < 0.1  # few effective draws in leave-one-out weights
    assert np.abs(draws.predict_proba(X) - ep.predict_proba(X)).max() < 0.03  # Monte Carlo errors of 600 draws
    assert np.abs(draws.predict_proba_std(X) - ep.predict_proba_std(X)).max() < 0.03


# learning -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", [EP(tol=1e-11), Laplace(tol=1e-11), KL(tol=1e-11)], ids=repr)
def test_gradient_of_the_evidence(engine):
    """Central differences: truncation h² times third derivatives of order 100, rounding 1e-10 / h."""
    h = 1e-5
    model = GPClassifier(RBF(1.3, 3.0), Ordinal((-2.1, -0.3, 2.5)), engine, optimizer=None).fit(X, CODES)
    theta = np.concatenate([model.kernel_.theta, model.likelihood_.theta])
    gradient = model.log_evidence(theta, eval_gradient=True)[1]
    for i, e in enumerate(np.eye(len(theta))):
        up, down = (model.log_evidence(theta + s * h * e) for s in (1, -1))
        assert_allclose(gradient[i], (up - down) / (2 * h), rtol=1e-5, atol=1e-5)


def test_start_of_learning():
    """From thresholds by class frequencies the maximum is at least as good as from even ones, with no more evaluations."""
    steps = {"ordinal": 0, "even": 0}
    for seed, cuts in enumerate([(-2.5, -2.0, -1.5, 2.5), (-3.0, -2.8, 3.0)]):
        inputs, y, _ = problem(100, seed, cuts)
        y = np.unique(y, return_inverse=True)[1]
        inputs = np.column_stack([inputs, np.random.default_rng(seed).normal(size=100)])
        even = Ordinal.for_targets("ordered categories", y.max() + 1)
        fits = {
            name: GPClassifier(likelihood=likelihood, random_state=0).fit(inputs, y)
            for name, likelihood in (("ordinal", "ordinal"), ("even", even))
        }
        # searches end within about 0.01 nats of a maximum
        assert fits["ordinal"].log_evidence_ > fits["even"].log_evidence_ - 0.02
        for name, fit in fits.items():
            steps[name] += len(fit.history_)
    assert steps["ordinal"] < 1.2 * steps["even"]


def test_learned_thresholds_and_a_warm_start():
    model = GPClassifier("rbf", "ordinal", random_state=0, warm_start=True).fit(X, CODES)
    assert np.all(np.diff(model.likelihood_.thresholds) > 0)
    before, steps = model.log_evidence_, len(model.history_)
    model.fit(X, CODES)
    assert len(model.history_) < steps
    assert model.log_evidence_ > before - 0.01
    model.fit(X, np.minimum(CODES, 2))  # fewer categories: their thresholds are initialised again
    assert len(model.likelihood_.thresholds) == 2


def test_averages_over_kernels_and_hyperparameters():
    for settings in ({"kernel": "auto"}, {"kernel": "rbf", "hyper": "integrate"}):
        model = GPClassifier(likelihood="ordinal", categories=NAMES, random_state=0, **settings).fit(X, LABELS)
        assert len(model.members_) > 1
        assert model.score(X, LABELS) > 0.7


# rows in pieces -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["ivm", "scalable-ep"])
def test_partial_fit(inference):
    model = GPClassifier("rbf", "ordinal", inference, categories=NAMES, random_state=0)
    model.partial_fit(X[:40], LABELS[:40], classes=NAMES[::-1])
    assert model.classes_.tolist() == NAMES
    model.partial_fit(X[40:], LABELS[40:], classes=NAMES)
    assert model.score(X, LABELS) > 0.6


def test_stream():
    engine = ScalableEP(epochs=30, n_inducing=10, validation=0.2)
    model = GPClassifier("rbf", "ordinal", engine, categories=NAMES, random_state=0)
    model.fit([(X[:30], LABELS[:30]), (X[30:], LABELS[30:])])
    assert model.classes_.tolist() == NAMES
    assert model.score(X, LABELS) > 0.6


# the rest of the package ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["ep", "laplace", "ivm", "scalable-ep"])
def test_model_files(tmp_path, inference):
    model = GPClassifier(**QUICK, categories=NAMES, inference=inference).fit(X, LABELS)
    save(model, tmp_path / "model.gpclass")
    again = load(tmp_path / "model.gpclass")
    assert again.classes_.tolist() == again.categories == NAMES
    assert again.likelihood_ == model.likelihood_
    assert_allclose(again.predict_proba(X), model.predict_proba(X), atol=1e-12)
    assert_allclose(again.predict_proba_std(X), model.predict_proba_std(X), atol=1e-12)


def test_assessment_knows_the_order(tmp_path):
    model = GPClassifier(**QUICK, categories=NAMES).fit(X, LABELS)
    numbers = GPClassifier(**QUICK).fit(X, CODES)
    check, same = suspicious_labels(model), suspicious_labels(numbers)
    assert np.array_equal(check.index, same.index)
    assert np.array_equal(check.suggested, np.array(NAMES)[same.suggested])
    assert np.array_equal(suggest(model, X[::-1], 5).index, suggest(numbers, X[::-1], 5).index)
    judged = fair_probabilities(model, X, LABELS)
    found = scores(LABELS, judged.p, classes=model.classes_, ordered=True)
    page = tmp_path / "report.html"
    write_report(model, X, LABELS, page)
    text = page.read_text()
    assert "ranked probability score" in text
    assert f"{found['ranked_probability_score']:.3f}" in text
    # an error by one category is more probable than one by two
    p = model.predict_proba(X)
    assert np.all(p[CODES == 0, 1] > p[CODES == 0, 3])


def test_cross_validation_with_scikit_learn():
    p = cross_val_predict(GPClassifier(**QUICK), X, CODES, cv=3, method="predict_proba")
    assert np.mean(p.argmax(1) == CODES) > 0.5


def text_labels_have_no_order(estimator):
    return {"check_classifiers_classes": "it fits text labels, which have no order without categories="}


@pytest.mark.slow
@parametrize_with_checks(
    [GPClassifier(likelihood="ordinal", optimizer=None)], expected_failed_checks=text_labels_have_no_order
)
@pytest.mark.filterwarnings("ignore")
def test_sklearn_compatible(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [GPClassifier(likelihood="ordinal", max_iter=5), GPClassifier(likelihood="ordinal", inference="laplace", max_iter=5)],
    expected_failed_checks=text_labels_have_no_order,
)
@pytest.mark.filterwarnings("ignore")
def test_sklearn_compatible_with_learning(estimator, check):
    check(estimator)
