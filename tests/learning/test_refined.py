"""Further inducing points after training on minibatches (`Training.refine`)."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from gpclass import GPClassifier, load, save
from gpclass.engines.inducing import training
from gpclass.engines.inducing.training import Training
from gpclass.kernels import Matern32
from gpclass.learning import begin, inducing_starts, learn_inducing
from gpclass.learning import refine as module
from gpclass.learning.calibration import Calibration, LeftOut
from gpclass.learning.inducing import InducingInputs
from gpclass.learning.objective import Objective
from gpclass.learning.streams import Arrays
from gpclass.learning.trainer import Trainer
from gpclass.likelihoods import MultinomialProbit, Probit
from gpclass.numerics import factor_dtype
from gpclass.progress import keeping_best
from gpclass.sparse import SVGP, ScalableEP

N = 240
ENGINE = ScalableEP(factors="joint", search="minibatches", n_inducing=12, epochs=3, batch_size=60, refine=True)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    return X, np.digitize(np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=N), [-0.5, 0.5])


@pytest.fixture(scope="module")
def refined(rows):
    return GPClassifier("matern32", inference=ENGINE, random_state=0).fit(*rows)


def test_the_posterior_is_that_of_converged_sites_with_the_learned_hyperparameters(rows, refined):
    X, y = rows
    kernel, Z, new = refined.kernel_, refined.inputs_, X[:40] + 0.3
    assert len(Z) == ENGINE.refined_count(N, 3) == N
    fit = replace(ENGINE, tol=1e-9).fit(kernel(Z), kernel(X, Z), kernel.diag(X), y, refined.likelihood_)
    mean, var = refined.posterior_.moments(kernel(Z, new), kernel.diag(new))
    exact_mean, exact_var = fit.moments(kernel(Z, new), kernel.diag(new))
    assert np.max(np.abs(mean - exact_mean) / np.sqrt(exact_var)) < 0.03  # the last sweep moved by at most 1e-3
    assert_allclose(var, exact_var, rtol=0.03)
    assert_allclose(refined.log_evidence_, fit.log_evidence, atol=1e-2)  # of second order in the error of the sites


def test_hyperparameters_and_first_inducing_points_are_those_of_training(rows, refined):
    trained = GPClassifier("matern32", inference=replace(ENGINE, refine=False), random_state=0).fit(*rows)
    assert trained.kernel_ == refined.kernel_
    assert_allclose(refined.inputs_[:12], trained.inputs_)
    by_rows = GPClassifier("matern32", inference=replace(ENGINE, inputs="k-means++"), random_state=0).fit(*rows)
    assert set(map(tuple, by_rows.inputs_[12:])) <= set(map(tuple, rows[0])), "further points are rows"


def test_a_number_of_inducing_points_can_be_given(rows):
    model = GPClassifier("matern32", inference=replace(ENGINE, refine=31), random_state=0).fit(*rows)
    assert len(model.inputs_) == 31
    fewer = replace(ENGINE, refine=5)  # never fewer than in training
    assert [engine.refined_count(N, 3) for engine in (fewer, replace(ENGINE, refine=10 * N))] == [12, N]
    for wrong in (-3, 0, 1, 0.5):
        with pytest.raises(ValueError, match="refine must be True, False or a number of inducing points"):
            replace(ENGINE, refine=wrong)


def test_a_refined_model_takes_more_rows_and_is_saved(rows, refined, tmp_path):
    save(refined, tmp_path / "model.gpc")
    assert_allclose(load(tmp_path / "model.gpc").predict_proba(rows[0]), refined.predict_proba(rows[0]), atol=1e-12)
    model = GPClassifier("matern32", inference=ENGINE, random_state=0).fit(*rows)
    before = model.predict_proba([[0.0, 3.0]])
    model.partial_fit(np.tile([[0.0, 3.0]], (5, 1)) + 0.01 * np.arange(5)[:, None], [0] * 5)
    assert model.predict_proba([[0.0, 3.0]])[0, 0] > before[0, 0]


def test_rows_of_validation_and_streams_are_not_refined(rows):
    X, y = rows
    for given, settings in (((X, y), {"validation": 0.2}), (([(X, y)],), {}), (([(X, y)],), {"held_out": 30})):
        model = GPClassifier("matern32", inference=replace(ENGINE, **settings), random_state=0).fit(*given)
        assert len(model.inputs_) == 12


def test_a_posterior_that_does_not_converge_is_not_used(rows, monkeypatch):
    monkeypatch.setattr(module, "REFINED_SWEEPS", 2)
    with pytest.warns(ConvergenceWarning, match=f"on {N} inducing points did not converge in 2 sweeps, and is not used"):
        model = GPClassifier("matern32", inference=ENGINE, random_state=0).fit(*rows)
    assert len(model.inputs_) == 12


@pytest.mark.parametrize("error", [MemoryError("no room"), np.linalg.LinAlgError("not positive definite")])
def test_a_failure_keeps_the_result_of_training(rows, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(module, "converged", fail)
    with pytest.warns(ConvergenceWarning, match=f"{N} inducing points failed, so .* of training on 12: {error}"):
        model = GPClassifier("matern32", inference=ENGINE, random_state=0).fit(*rows)
    assert len(model.inputs_) == 12
    assert model.score(*rows) > 0.7


def test_interruption_keeps_the_result_of_training(rows, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(inducing_starts, "start_inputs", interrupt_second(inducing_starts.start_inputs, interrupt))
    with keeping_best() as interruption:
        model = GPClassifier("matern32", inference=ENGINE, random_state=0).fit(*rows)
    assert interruption.happened
    assert len(model.inputs_) == 12
    with pytest.raises(KeyboardInterrupt):
        GPClassifier("matern32", inference=ENGINE, random_state=0).fit(*rows)


def interrupt_second(function, interrupt):
    """Return `function`, replaced for the selection of further points."""
    return lambda summary, engine, *more: (interrupt if engine.n_inducing > 12 else function)(summary, engine, *more)


def test_number_of_points_is_bounded_by_time_and_memory():
    engine = Training()
    for n, C in product((100, 1000, 4435, 20_000, 60_000, 10**6), (1, 6, 26)):
        count = engine.refined_count(n, C)
        assert engine.count(n) <= count <= min(n, training.MOST_REFINED)
        if count > engine.count(n):
            least, most = training.REFINED_SIZES
            assert C * count**2 <= min(max(training.REFINED_WORK / n, least), most)
            assert n * count <= training.MOST_FEATURES
            assert count >= training.WORTH_REFINING * engine.count(n)
    assert engine.refined_count(3000, 1) == training.MOST_REFINED
    assert engine.refined_count(6000, 10) == int(np.sqrt(training.REFINED_WORK / 6e4))
    assert engine.refined_count(60_000, 10) == int(np.sqrt(training.REFINED_SIZES[0] / 10))
    assert engine.refined_count(100_000, 1) == training.MOST_FEATURES / 100_000
    assert engine.refined_count(10**6, 3) == engine.count(10**6)


# rows that were held out decide ---------------------------------------------------------------------------------------


@pytest.fixture
def many_rows(rows, monkeypatch):
    """240 rows are enough to hold 24 of them out. Refinements have 48 points."""
    monkeypatch.setattr(begin, "LEAST_HELD_OUT", 20)
    monkeypatch.setattr("gpclass.engines.inducing.training.MOST_REFINED", 48)
    return rows


def seen_by_judge(monkeypatch, verdict=0.0):
    """Record what the held-out rows decide on; `verdict` is added to the score of the posterior on more points."""
    seen = {}
    held_out = module.held_out

    def judge(run, Z, fit):
        rows = held_out(run, Z, fit)
        seen.update(run=run, Z=Z, fit=fit, score=rows.score)
        return rows._replace(log_p=rows.log_p + verdict)

    monkeypatch.setattr(module, "held_out", judge)
    return seen


@pytest.mark.parametrize(("verdict", "count"), [(9.0, 48), (-9.0, 12)])
def test_held_out_rows_decide_and_the_posterior_has_all_rows(many_rows, monkeypatch, verdict, count):
    """Also if further points are not better: then the posterior on the points of training has all rows."""
    X, y = many_rows
    results = []
    refine = learn_inducing.refined
    monkeypatch.setattr(learn_inducing, "refined", lambda *given: results.append(refine(*given)) or results[-1])
    seen_by_judge(monkeypatch, verdict)
    model = GPClassifier("matern32", inference=ENGINE, random_state=0).fit(X, y)
    assert len(model.inputs_) == count
    assert results[0].enough_points == (count == 12)
    assert results[0].unseen.shape == (24,)
    # leave-one-out probabilities of few learned points are too good, so the rows that decided check the calibration
    left_out, calibration = results[0].left_out(), model.calibration_
    assert (calibration.held_out, calibration.n_rows) == ((True, 24) if count == 12 else (False, N))
    assert_array_equal(left_out.codes, y)
    assert (left_out.check is not None) == (count == 12)
    if left_out.check is not None:
        assert_array_equal(left_out.check.codes, y[left_out.check.numbers])
    assert calibration == Calibration.fitted(left_out)
    kernel, Z, new = model.kernel_, model.inputs_, X[:40] + 0.3
    fit = replace(ENGINE, tol=1e-9).fit(kernel(Z), kernel(X, Z), kernel.diag(X), y, model.likelihood_)
    mean, _ = model.posterior_.moments(kernel(Z, new), kernel.diag(new))
    exact_mean, exact_var = fit.moments(kernel(Z, new), kernel.diag(new))
    assert np.max(np.abs(mean - exact_mean) / np.sqrt(exact_var)) < 0.03  # the last sweep moved by at most 1e-3


def test_the_score_is_that_of_a_posterior_that_has_not_seen_the_held_out_rows(many_rows, monkeypatch):
    X, y = many_rows
    results = []
    refine = learn_inducing.refined
    monkeypatch.setattr(learn_inducing, "refined", lambda *given: results.append(refine(*given)) or results[-1])
    seen = seen_by_judge(monkeypatch)
    model = GPClassifier("matern32", inference=ENGINE, random_state=0).fit(X, y)
    run, kernel, Z = seen["run"], model.kernel_, seen["Z"][0]
    held, codes = run.held
    rest = ~np.isin(X, held).all(1)
    assert (len(held), rest.sum()) == (24, N - 24)
    assert_array_equal(results[0].unseen, np.flatnonzero(~rest))
    assert_array_equal(codes, [y[np.all(row == X, axis=1)][0] for row in held])
    fit = replace(ENGINE, tol=1e-9).fit(kernel(Z), kernel(X[rest], Z), kernel.diag(X[rest]), y[rest], model.likelihood_)
    log_p = fit.log_class_probabilities(kernel(Z, held), kernel.diag(held))
    # the last sweep moved latent values by at most 1e-2 standard deviations
    assert_allclose(seen["score"], np.mean(log_p[np.arange(24), codes]), atol=1e-2)


@pytest.mark.parametrize(("verdict", "count"), [(9.0, 48), (-9.0, 12)])
def test_rows_that_the_user_holds_out_decide_and_stay_out(many_rows, monkeypatch, verdict, count):
    X, y = many_rows
    seen = seen_by_judge(monkeypatch, verdict)
    model = GPClassifier("matern32", inference=ENGINE, calibrate="held-out", random_state=0).fit(X, y)
    assert len(model.inputs_) == count
    assert model.calibration_.held_out
    assert model.calibration_.n_rows == 24
    if count == 48:
        kernel, Z, rest = model.kernel_, model.inputs_, ~np.isin(X, seen["run"].held[0]).all(1)
        fit = replace(ENGINE, tol=1e-9).fit(kernel(Z), kernel(X[rest], Z), kernel.diag(X[rest]), y[rest], model.likelihood_)
        mean, _ = model.posterior_.moments(kernel(Z, X), kernel.diag(X))
        exact_mean, exact_var = fit.moments(kernel(Z, X), kernel.diag(X))
        assert np.max(np.abs(mean - exact_mean) / np.sqrt(exact_var)) < 0.03  # the last sweep moved by at most 1e-3
    before = model.predict_proba([[0.0, 3.0]])
    model.partial_fit(np.tile([[0.0, 3.0]], (5, 1)) + 0.01 * np.arange(5)[:, None], [0] * 5)
    assert model.predict_proba([[0.0, 3.0]])[0, 0] > before[0, 0]


def test_weights_of_held_out_rows_count(many_rows, monkeypatch):
    X, y = many_rows
    seen = seen_by_judge(monkeypatch)
    weight = np.where(y == 0, 1.0, 3.0)
    GPClassifier("matern32", inference=ENGINE, random_state=0).fit(X, y, weight)
    held, codes = seen["run"].held
    model = replace(seen["run"].model(), Z=seen["Z"], posterior=seen["fit"].posterior)
    own = model.log_class_probabilities(held)[np.arange(len(codes)), codes]
    assert_allclose(seen["score"], np.average(own, weights=np.where(codes == 0, 1.0, 3.0)))


def test_after_an_interruption_of_training_no_further_posterior_is_computed(many_rows, monkeypatch):
    monkeypatch.setattr(module, "converged", lambda *_: pytest.fail("a posterior after Ctrl-C"))
    monkeypatch.setattr(Trainer, "step", interrupt_third(Trainer.step))
    with keeping_best() as interruption:
        model = GPClassifier("matern32", inference=ENGINE, random_state=0).fit(*many_rows)
    assert interruption.happened
    assert len(model.inputs_) == 12
    assert model.inference_ == model.posterior_.engine == ENGINE


def interrupt_third(function):
    """Return `function`, which raises KeyboardInterrupt in its third call."""
    calls = []

    def wrapped(*given, **more):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return function(*given, **more)

    return wrapped


def test_if_more_points_do_not_converge_those_of_training_have_all_rows(many_rows, monkeypatch):
    converged = module.converged

    def unfinished(objective, design, sites, **more):
        fit = converged(objective, design, sites, **more)
        many = design.Z.shape[1] > 12 and len(objective.X) == N
        return replace(fit, status=replace(fit.status, converged=False)) if many else fit

    monkeypatch.setattr(module, "converged", unfinished)
    seen_by_judge(monkeypatch, 9.0)
    with pytest.warns(ConvergenceWarning, match="on 48 inducing points did not converge"):
        model = GPClassifier("matern32", inference=ENGINE, random_state=0).fit(*many_rows)
    assert len(model.inputs_) == 12
    assert model.calibration_.n_rows == N


def test_each_posterior_starts_from_sites_of_the_one_before(many_rows, monkeypatch):
    starts, converged = [], module.converged

    def recorded(objective, design, sites, **more):
        starts.append((len(objective.X), sites))
        return converged(objective, design, sites, **more)

    monkeypatch.setattr(module, "converged", recorded)
    seen = seen_by_judge(monkeypatch, 9.0)
    X, _ = many_rows
    GPClassifier("matern32", inference=ENGINE, random_state=0).fit(*many_rows)
    (first, of_run), (second, of_first) = starts
    assert (first, second) == (N - 24, N)
    run, held = seen["run"], np.isin(X, seen["run"].held[0]).all(1)
    for name, part in of_first.items():
        assert_array_equal(of_run[name], run.store.sites[name])
        assert_array_equal(np.any(part.reshape(N, -1) != 0, axis=1), ~held)
        assert_array_equal(part[~held], seen["fit"].row_sites[name])


@pytest.mark.parametrize("engine", [ENGINE, replace(ENGINE, factors="pairwise"), SVGP(n_inducing=12)])
def test_sites_of_any_inducing_inputs_are_a_start(rows, engine):
    """Sweeps end at the same point, in fewer steps than from no sites."""
    X, y = rows
    kernel, likelihood = Matern32(1.0, 4.0), MultinomialProbit(3)

    def fit(count, start=None):
        return engine.fit(kernel(X[:count]), kernel(X, X[:count]), kernel.diag(X), y, likelihood, start)

    few, many = fit(12), fit(60)
    warm = fit(60, module.proper(few.row_sites))
    assert_allclose(warm.log_evidence, many.log_evidence, atol=1e-4)  # of second order in the engine's tolerance, 1e-6
    assert warm.n_iter < many.n_iter


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("variance", [4.0, 1e8])
def test_sweeps_in_single_precision_come_first(rows, monkeypatch, variance, fails):
    """Those in double precision confirm their end. If single precision fails, they begin where it began."""
    X, y = rows
    fits, fit = [], ScalableEP.fit

    def recorded(engine, *given, **more):
        if fails and factor_dtype() == np.float32:
            raise np.linalg.LinAlgError
        fits.append(fit(engine, *given, **more))
        return fits[-1]

    monkeypatch.setattr(ScalableEP, "fit", recorded)
    kernel, likelihood, Z = Matern32(1.0, variance), MultinomialProbit(3), X[:60]
    design = InducingInputs(Z[None], np.ones(2), move=False)
    objective = Objective(X, y, kernel, likelihood, ENGINE, [])
    found = module.converged(objective, design, ENGINE.row_sites(N, likelihood))
    exact = fit(replace(ENGINE, tol=1e-9), kernel(Z), kernel(X, Z), kernel.diag(X), y, likelihood)
    assert [fit.rows.phi.dtype for fit in fits] == ([np.float64] if fails else [np.float32, np.float64])
    assert found is fits[-1]
    assert found.converged
    assert (found.n_iter <= 2) != fails
    mean, _ = found.cavity()
    exact_mean, exact_var = exact.cavity()
    assert np.max(np.abs(mean - exact_mean) / np.sqrt(exact_var)) < 0.03  # the last sweep moved by at most 1e-3
    assert_allclose(found.log_evidence, exact.log_evidence, atol=1e-2)  # of second order in the error of the sites
    fits.clear()
    judged = module.converged(objective, design, ENGINE.row_sites(N, likelihood), judged=True)
    assert [fit.rows.phi.dtype for fit in fits] == [np.float64 if fails else np.float32]
    assert judged.status.change <= module.JUDGED_TOL


def test_further_points_are_where_sites_have_large_precisions():
    """In each of many clusters of rows there is a point if the row's sites are precise; otherwise clusters share points."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.uniform(0, 1, (300, 2)), rng.uniform(5, 6, (300, 2))])
    precise = np.arange(600) >= 300
    objective = Objective(X, np.ones(600), Matern32(1.0, 1.0), Probit(), replace(ENGINE, n_inducing=40), [])
    source = Arrays(X, np.arange(600) % 2)
    plain = inducing_starts.start_design(objective, source, 0, False).Z[0]
    weighted = inducing_starts.start_design(objective, source, 0, False, weight=np.where(precise, 1.0, 1e-3)).Z[0]
    assert 15 <= np.sum(plain[:, 0] > 3) <= 25
    assert np.sum(weighted[:, 0] > 3) >= 35


def test_precisions_of_rows():
    sites = {"own_tau": np.array([[1.0, 2.0], [0.5, -3.0]]), "other_tau": np.ones((2, 2)), "own_nu": np.full((2, 2), 9.0)}
    found = module.total_precisions(sites, np.array([0, 2]), 4)
    assert_allclose(found, [5.0, 3.75, 2.5, 3.75])  # rows without sites count as the average
    assert module.total_precisions({}, np.array([0, 2]), 4) is None
    assert module.total_precisions({"tau": np.zeros((2, 1))}, np.array([0, 2]), 4) is None


def test_rows_with_negative_precision_start_without_sites():
    """Their sum may be proper with few inducing inputs only."""
    sites = {"tau": np.array([[1.0, 2.0], [3.0, -0.1]]), "nu": np.array([[0.5, 0.6], [0.7, 0.8]])}
    found = module.proper(sites)
    assert_array_equal(found["tau"], [[1.0, 2.0], [0.0, 0.0]])
    assert_array_equal(found["nu"], [[0.5, 0.6], [0.0, 0.0]])
    assert module.proper({}) is None  # engines that keep no sites of rows start without


def test_the_score_of_rows_left_out_is_their_weighted_mean_log_probability():
    log_p = np.log([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
    rows = LeftOut(log_p, np.array([1, 0, 1]), np.array([1.0, 2.0, 1.0]))
    assert_allclose(rows.score, (np.log(0.8) + 2 * np.log(0.5) + np.log(0.1)) / 4)
