"""Too many rows for a search on all of them: a search on inducing points, then a posterior on all rows or on points."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from gpclass import GPClassifier, choose, load, save
from gpclass.assess.labels import with_fixed_hyperparameters
from gpclass.fitting import arrays, problem, search
from gpclass.inference import EP, NestedEP, QuadratureEP, VariationalMNL
from gpclass.kernels import RBF
from gpclass.learning import Learned, Objective, begin, learn_inducing, objective
from gpclass.learning.calibration import Calibration, LeftOut
from gpclass.learning.trainer import Trainer
from gpclass.likelihoods import MultinomialProbit, NullCategory, RobustMax, Softmax
from gpclass.numerics import factor_dtype, threads
from gpclass.progress import keeping_best
from gpclass.sparse import SVGP, ScalableEP

ROWS = 90


@pytest.fixture(autouse=True)
def few_rows_are_many(monkeypatch):
    """Numbers of rows between 50 and 100 are those of a posterior without a search."""
    monkeypatch.setattr(choose, "LARGEST_SIZE", 50)
    monkeypatch.setattr(choose, "MOST_POSTERIOR_SIZE", 100)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (300, 2))
    y = np.where(np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.1 * rng.normal(size=300) > 0, "yes", "no")
    return X, y


def prefer(monkeypatch, design):
    """Let posteriors with this design have the better leave-one-out probabilities."""
    monkeypatch.setattr(search, "_left_out_score", lambda learned, **_: learned.posterior.engine.design == design)


def fitted(X, y, **settings):
    return GPClassifier("rbf", random_state=0, **settings).fit(X[:ROWS], y[:ROWS])


@pytest.mark.parametrize(("n", "posterior", "learner"), [(50, EP, EP), (51, EP, ScalableEP), (101, ScalableEP, ScalableEP)])
def test_numbers_of_rows(n, posterior, learner):
    likelihood = choose.as_likelihood("probit", 2)
    assert type(choose.engine_for(likelihood, n, posterior_only=True)) is posterior
    assert type(choose.engine_for(likelihood, n)) is learner


@pytest.mark.parametrize(
    ("n", "posterior", "learner"), [(31, NestedEP, NestedEP), (32, NestedEP, ScalableEP), (63, ScalableEP, ScalableEP)]
)
def test_numbers_of_rows_with_three_classes(n, posterior, learner):
    """A sweep costs four factorisations: 50 and 100 rows of one latent function are 50/4^(1/3) = 31.5 and 63 here."""
    likelihood = choose.as_likelihood("multinomial-probit", 3)
    assert type(choose.engine_for(likelihood, n, posterior_only=True)) is posterior
    assert type(choose.engine_for(likelihood, n)) is learner


@pytest.mark.parametrize(
    ("likelihood", "most", "engine", "learner"),
    [
        (Softmax(2), 50, VariationalMNL, SVGP),
        (Softmax(3), 25, VariationalMNL, SVGP),
        (RobustMax(2), 34, QuadratureEP, ScalableEP),
        (RobustMax(3), 31, QuadratureEP, ScalableEP),
        (MultinomialProbit(3, epsilon=0.05), 31, QuadratureEP, ScalableEP),
    ],
)
def test_engines_without_single_precision_need_too_long_for_all_rows(likelihood, most, engine, learner):
    """Variational MNL factorises matrices of n (C - 1) rows, quadrature EP may take a hundred sweeps."""
    assert type(choose.engine_for(likelihood, most, posterior_only=True)) is engine
    assert type(choose.engine_for(likelihood, most + 1, posterior_only=True)) is learner


@pytest.mark.parametrize("likelihood", ["softmax", "multinomial-probit"])
def test_two_classes_with_a_likelihood_of_two_latent_functions(data, monkeypatch, likelihood):
    """The engine that learns is the one of "auto" for so many rows: its cost is that of two latent functions."""
    learners = []
    learn = search.learn

    def recorded(objective, *given, **settings):
        learners.append(type(objective.engine))
        return learn(objective, *given, **settings)

    monkeypatch.setattr(search, "learn", recorded)
    model = fitted(*data, likelihood=likelihood, max_iter=2)
    assert learners == [SVGP if likelihood == "softmax" else ScalableEP]
    assert model.likelihood_.n_latents == 2


def test_engines_on_inducing_points_learn_with_one_thread(data, monkeypatch):
    """Products of minibatches are too small for more, whatever the size of the posterior on all rows."""
    monkeypatch.setattr(learn_inducing, "SETTLED_VALUES", 10)  # so that there are minibatches
    monkeypatch.setattr(threads, "THREADED_ROWS", 50)
    seen = []
    run = Trainer.run

    def recorded(*given, **settings):
        seen.extend(library.num_threads for library in threads._libraries())
        return run(*given, **settings)

    monkeypatch.setattr(Trainer, "run", recorded)
    with threadpool_limits(2, "blas"):
        fitted(*data)
    assert set(seen) == {1}


def test_the_posterior_on_all_rows_is_that_of_ep_at_the_learned_hyperparameters(data, monkeypatch):
    prefer(monkeypatch, "all rows")
    X, y = data
    model = fitted(X, y)
    again = GPClassifier(model.kernel_, model.likelihood_, model.inference_, optimizer=None).fit(X[:ROWS], y[:ROWS])
    assert model.inference_ == EP(tol=choose.POSTERIOR_TOL)
    assert model.inputs_.shape == (ROWS, 2)
    assert len(model.history_) > 1
    assert_allclose(model.log_evidence_, again.log_evidence_, rtol=1e-10)
    assert_array_equal(model.predict_proba(X), again.predict_proba(X))
    assert_array_equal(model.loo(), again.loo())


@pytest.mark.parametrize("coarse", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_sweeps_in_single_precision_come_first(data, monkeypatch, coarse, n_classes):
    """The result is that of double precision; a matrix that float32 rounds too much has no others."""
    prefer(monkeypatch, "all rows")
    X, n = data[0], 90 if n_classes == 2 else 60
    y = data[1] if n_classes == 2 else three_classes(X)
    expected = GPClassifier("rbf", random_state=0).fit(X[:n], y[:n])
    engine = type(expected.inference_)
    monkeypatch.setattr(objective, "SINGLE_SIZE", 0)
    if coarse:
        monkeypatch.setattr(objective, "SINGLE_ROUNDING", 0.0)
    fits = []
    fit = engine.fit

    def recorded(engine, *given, **settings):
        found = fit(engine, *given, **settings)
        fits.append((factor_dtype(), found.n_iter))
        return found

    monkeypatch.setattr(engine, "fit", recorded)
    monkeypatch.setattr(search, "learner_of", lambda *_: ScalableEP(factors="joint"))
    model = GPClassifier("rbf", random_state=0).fit(X[:n], y[:n])
    assert engine is (EP if n_classes == 2 else NestedEP)
    assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=1e-3)  # POSTERIOR_TOL standard deviations
    fits = fits[-2:]  # nested EP also scans starts
    assert [dtype for dtype, _ in fits] == [np.float32, np.float64]
    assert (fits[1][1] < fits[0][1]) == (not coarse)


def three_classes(X):
    return np.array(["a", "b", "c"])[np.digitize(X[:, 0] * X[:, 1], [-0.5, 0.5])]


def test_the_posterior_on_all_rows_of_several_classes_is_that_of_nested_ep(data, monkeypatch):
    prefer(monkeypatch, "all rows")
    X = data[0]
    y, n = three_classes(X), 60
    model = GPClassifier("rbf", random_state=0).fit(X[:n], y[:n])
    again = GPClassifier(model.kernel_, model.likelihood_, "nested-ep", optimizer=None).fit(X[:n], y[:n])
    assert model.inference_ == NestedEP(tol=choose.POSTERIOR_TOL)
    # moves of 1e-3 posterior standard deviations; the evidence is stationary in the sites
    assert_allclose(model.predict_proba(X), again.predict_proba(X), atol=1e-3)
    assert_allclose(model.log_evidence_, again.log_evidence_, atol=1e-4)


def test_inducing_points_are_kept_if_they_are_better(data, monkeypatch):
    prefer(monkeypatch, "inducing inputs")
    model = fitted(*data)
    assert type(model.inference_) is ScalableEP
    assert len(model.inputs_) < ROWS
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(data[0]), model.predict_proba(data[0]))


def test_the_better_leave_one_out_probabilities_decide(data, monkeypatch):
    seen = []
    score = search._left_out_score

    def recorded(learned, calibrated):
        seen.append((score(learned, calibrated), learned))
        return seen[-1][0]

    monkeypatch.setattr(search, "_left_out_score", recorded)
    model = fitted(*data)
    assert len(seen) == 2
    best = max(seen, key=lambda pair: pair[0])
    assert model.posterior_ is best[1].posterior
    if type(model.inference_) is EP:
        chosen = np.searchsorted(model.classes_, data[1][:ROWS])
        log_p = model.calibration_.log_probabilities(model.posterior_.loo_log_class_probabilities())
        expected = np.mean(log_p[np.arange(ROWS), chosen])
        assert_allclose(best[0], expected, rtol=1e-12)


def test_there_is_no_posterior_on_all_rows_if_more_points_were_not_better(data, monkeypatch):
    learn = search.learn
    monkeypatch.setattr(search, "learn", lambda *given, **more: replace(learn(*given, **more), enough_points=True))
    monkeypatch.setattr(search, "_left_out_score", lambda *_, **__: pytest.fail("nothing is to be compared"))
    assert type(fitted(*data).inference_) is ScalableEP


def test_weighted_and_repeated_rows_are_the_same(data, monkeypatch):
    prefer(monkeypatch, "all rows")
    X, y = data
    rows = np.concatenate([np.arange(70), np.arange(15)])
    weighted = GPClassifier("rbf", random_state=0).fit(X[:70], y[:70], np.repeat([2.0, 1.0], [15, 55]))
    repeated = GPClassifier("rbf", random_state=0).fit(X[rows], y[rows])
    assert type(weighted.inference_) is EP
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-10)


def test_without_a_search_there_is_only_the_posterior_on_all_rows(data):
    model = GPClassifier("rbf", optimizer=None, calibrate=None).fit(data[0][:ROWS], data[1][:ROWS])
    assert type(model.inference_) is EP
    assert model.history_ == []


def test_an_engine_that_is_given_searches_itself(data):
    model = fitted(*data, inference="ep")
    assert type(model.inference_) is EP
    assert model.history_[0].unit == "evaluation"


def test_averages_over_hyperparameters_need_too_many_posteriors(data):
    with pytest.raises(ValueError, match="needs an engine that uses all rows"):
        fitted(*data, hyper="integrate")


def test_stacked_kernels_would_need_several_posteriors(data, tmp_path):
    """Members with different engines could not be saved."""
    X, y = data
    model = GPClassifier("auto", random_state=0).fit(X[:ROWS], y[:ROWS])
    assert {type(member.posterior.engine) for member in model._mixture.members} == {ScalableEP}
    save(model, tmp_path / "model.gpclass")
    assert_allclose(load(tmp_path / "model.gpclass").predict_proba(X), model.predict_proba(X), atol=1e-12)


def test_rows_that_are_held_out_for_calibration_stay_out(data, monkeypatch):
    monkeypatch.setattr(begin, "LEAST_HELD_OUT", 5)
    monkeypatch.setattr(learn_inducing, "SETTLED_VALUES", 10)  # so that there are minibatches
    model = fitted(*data, calibrate="held-out")
    assert type(model.inference_) is ScalableEP
    assert model.calibration_.held_out
    assert model.calibration_.n_rows == ROWS // 10


def test_rows_without_a_label_are_refused_as_by_the_engine_that_learns(data):
    codes = np.where(data[1] == "yes", 1, 0)[:ROWS]
    codes[::3] = -1
    with pytest.raises(ValueError, match="ScalableEP does not support rows without a label; engines that do: ep"):
        GPClassifier("rbf", likelihood=NullCategory(unlabelled=-1)).fit(data[0][:ROWS], codes)


def test_the_limit_counts_observations(data):
    """Soft labels are two observations a row, each of which needs a row of the engine that learns."""
    X = data[0]
    p = np.random.default_rng(0).uniform(0.1, 0.9, len(X))
    sizes = []
    for n in (48, 60, 90):
        model = GPClassifier("rbf", likelihood="probit", random_state=0, optimizer=None).fit(X[:n], np.c_[p, 1 - p][:n])
        sizes.append(type(model.inference_))
    assert sizes == [EP, ScalableEP, ScalableEP]


def test_ctrl_c_keeps_the_posterior_on_inducing_points(data, monkeypatch):
    fit = EP.fit

    def interrupted(engine, K, *more, **settings):
        if len(K) == ROWS:
            raise KeyboardInterrupt
        return fit(engine, K, *more, **settings)

    monkeypatch.setattr(EP, "fit", interrupted)
    with keeping_best() as interruption:
        model = fitted(*data)
    assert interruption.happened
    assert type(model.inference_) is ScalableEP
    with pytest.raises(KeyboardInterrupt):
        fitted(*data)


def test_a_result_that_has_not_seen_all_rows_is_not_kept(data, monkeypatch):
    """Probabilities of a few held-out rows are not compared with those of all rows."""
    few = LeftOut(np.log([[0.01, 0.99]]), np.array([1]), held_out=True)
    learn = search.learn
    monkeypatch.setattr(search, "learn", lambda *given, **more: replace(learn(*given, **more), rows_left_out=lambda: few))
    assert type(fitted(*data).inference_) is EP


def test_model_files(data, monkeypatch, tmp_path):
    prefer(monkeypatch, "all rows")
    model = fitted(*data)
    save(model, tmp_path / "model.gpclass")
    loaded = load(tmp_path / "model.gpclass")
    assert_allclose(loaded.predict_proba(data[0]), model.predict_proba(data[0]), atol=1e-12)


def test_too_little_memory_for_all_rows(data, monkeypatch):
    asked = []
    monkeypatch.setattr(arrays, "fits_in_memory", lambda n, n_latents: asked.append((n, n_latents)))
    assert type(fitted(*data).inference_) is ScalableEP
    X = data[0][:60]
    assert type(GPClassifier("rbf", random_state=0).fit(X, three_classes(X)).inference_) is ScalableEP
    assert asked == [(ROWS, 1), (60, 3)]


def test_scores_are_those_of_rows_that_training_has_not_seen(data):
    """As the result will predict them: calibrated, if it will be."""
    rng = np.random.default_rng(1)
    rows = LeftOut(np.log(rng.dirichlet([1.0, 1.0], 40)), rng.integers(0, 2, 40), rng.uniform(0.5, 2.0, 40))
    unseen = np.array([3, 5, 30])

    def score(unseen, calibrated):
        learned = Learned(None, RBF(), None, data[0], [], 1, rows_left_out=lambda: rows, unseen=unseen)
        return search._left_out_score(learned, calibrated)

    own = rows.log_p[np.arange(40), rows.codes]
    assert_allclose(score(None, False), np.average(own, weights=rows.weight))
    assert_allclose(score(unseen, False), np.average(own[unseen], weights=rows.weight[unseen]))
    after = Calibration.fitted(rows).log_probabilities(rows.log_p)[np.arange(40), rows.codes]
    assert_allclose(score(unseen, True), np.average(after[unseen], weights=rows.weight[unseen]))


def test_scores_that_are_not_finite_lose(data):
    unknown = LeftOut(np.full((1, 2), np.nan), np.zeros(1, int))
    assert search._left_out_score(Learned(None, RBF(), None, data[0], [], 1, rows_left_out=lambda: unknown)) == -np.inf


@pytest.mark.parametrize("design", ["all rows", "inducing inputs"])
def test_copies_with_fixed_hyperparameters_have_the_engine_that_was_kept(data, monkeypatch, design):
    """Without a search there is no comparison."""
    prefer(monkeypatch, design)
    model = fitted(*data)
    assert model.inference_.design == design
    assert with_fixed_hyperparameters(model).inference == model.inference_
    assert with_fixed_hyperparameters(fitted(*data, inference="laplace")).inference == "laplace"


def test_streams_have_inducing_points(data):
    X, y = data
    model = GPClassifier("rbf", random_state=0, optimizer=None).fit([(X[:30], y[:30])])
    assert type(model.inference_) is ScalableEP


@pytest.mark.parametrize("error", [MemoryError("no room"), np.linalg.LinAlgError("not proper"), FloatingPointError("NaN")])
def test_a_posterior_on_all_rows_that_fails_leaves_the_one_on_inducing_points(data, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(EP, "fit", fail)
    with pytest.warns(ConvergenceWarning, match=f"EP failed on all rows, so .* on inducing points: {error}"):
        model = fitted(*data)
    assert type(model.inference_) is ScalableEP
    assert model.score(data[0][ROWS:], data[1][ROWS:]) > 0.7


@pytest.mark.parametrize("design", ["all rows", "inducing inputs"])
def test_only_the_posterior_that_is_kept_warns(data, monkeypatch, design):
    prefer(monkeypatch, design)
    fit = EP.fit

    def fit_with_warning(*given, **settings):
        if len(given[2]) == ROWS:
            warnings.warn("EP has not converged", ConvergenceWarning, stacklevel=1)
        return fit(*given, **settings)

    monkeypatch.setattr(EP, "fit", fit_with_warning)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fitted(*data)
    assert any("EP has not converged" in str(warning.message) for warning in told) == (design == "all rows")


def test_restarts_are_divided_among_processes(data, monkeypatch):
    given = []
    learn = search.learn
    monkeypatch.setattr(search, "learn", lambda *args, **settings: given.append(settings) or learn(*args, **settings))
    fitted(*data, n_restarts=1, n_jobs=2)
    assert given[0]["n_jobs"] == 2


def test_an_engine_that_is_the_only_one_for_a_likelihood_learns_itself(data, monkeypatch):
    model = GPClassifier(random_state=0)
    model.classes_ = np.array(["no", "yes"])
    monkeypatch.setattr(problem, "engine_for", lambda *_, **__: EP(tol=1e-5))
    X, y = data
    objective = Objective(X[:ROWS], np.where(y[:ROWS] == "yes", 1, -1), RBF(), choose.as_likelihood("probit", 2), EP(), [])
    assert problem.learner_of(model, objective) is objective.engine


def test_many_columns_compare_rbf_too_because_inducing_points_learn(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 3)) @ rng.normal(size=(3, 110))
    asked = []
    make = arrays.start_kernels
    monkeypatch.setattr(arrays, "start_kernels", lambda *args, **given: asked.append(given) or make(*args, **given))
    GPClassifier(random_state=0, max_iter=2).fit(X, X[:, 0] > 0)
    assert asked[0]["smooth"]
