"""Active sets of divided rows: the same rows, sites, evidence and predictions as in one process, for any partitions.

Tolerances: one process and shards compute the same numbers in another order. Covariances differ by rounding (each shard
centres its own rows), about 1e-15, and each of some tens of inclusions passes errors on: 1e-8 is ample.
"""

import pickle
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gpclass import GPClassifier
from gpclass.engines.active.candidates import TIE_TOL, best_of, first_rows, lowest_rows
from gpclass.engines.fit import NotAvailable, restored
from gpclass.engines.observations import Observed
from gpclass.kernels import RBF, PerClass, White
from gpclass.learning import Normal, Objective, learn
from gpclass.learning.crew import LocalCrew, LostRowsWarning, RowsLost, Shard, divided
from gpclass.learning.crew.active_rows import DividedRows, learn_active
from gpclass.learning.crew.shard_candidates import offered, others
from gpclass.learning.members import left_out
from gpclass.likelihoods import Logit, MultinomialProbit, Ordinal, Probit, Softmax
from gpclass.sparse import IVM

N = 300
rng = np.random.default_rng(3)
X = rng.normal(size=(N, 2))
X[200:220] = X[:20]  # equal rows in other partitions still are different rows
SIGNAL = np.sin(2 * X[:, 0]) + X[:, 1] + 0.4 * rng.normal(size=N)
TWO, THREE = (SIGNAL > 0).astype(int), np.digitize(SIGNAL, [-0.8, 0.6])
WEIGHT = np.where(rng.random(N) < 0.5, 1.0, rng.uniform(0.3, 3, N))
XS = rng.normal(size=(20, 2))
KERNEL = RBF(variance=2.0, lengthscale=1.0)

PARTITIONS = {
    "one": ([N], [0]),
    "pieces": ([120, 0, 100, 80], [0, 0, 0, 0]),
    "uneven": ([5, 200, 0, 60, 35], [1, 0, 1, 2, 0]),
    "empty": ([0, 150, 150, 0], [0, 1, 3, 3]),  # shard 0 has no rows, shard 2 no partition
}


def objective(kernel, likelihood, engine, labels=TWO, weight=None, priors=False):
    y = likelihood.class_targets[labels]
    y = y if weight is None else Observed(y, weight)
    names = [*kernel.names, *likelihood.names]
    return Objective(X, y, kernel, likelihood, engine, [] if not priors else [Normal(0.0, 1.0)] * len(names))


def sample(problem):
    """The objective with divided rows: its own rows are a sample."""
    y = problem.y.at(np.arange(40)) if isinstance(problem.y, Observed) else problem.y[:40]
    return replace(problem, X=X[:40], y=y)


def on_crew(problem, labels, partition, starts=(), weight=None, crew=divided):
    rows = crew(X, labels, *PARTITIONS[partition], weight)
    return learn_active(rows, sample(problem), np.unique(labels), list(starts))


def predictions(learned):
    K = learned.kernel(learned.inputs, XS)
    K = K if isinstance(K, np.ndarray) else np.asarray(K)
    return learned.posterior.log_class_probabilities(K, learned.kernel.diag(XS))


def assert_same(found, expected, tol=1e-8):
    assert_array_equal(found.rows, expected.rows)
    assert_array_equal(found.inputs, expected.inputs)
    a, b = found.posterior, expected.posterior
    assert_array_equal(found.rows[a.at.rows], b.at.rows)
    assert_array_equal(a.at.latents, b.at.latents)
    assert_allclose(a.sites.tau, b.sites.tau, rtol=tol, atol=tol)
    assert_allclose(a.sites.nu, b.sites.nu, rtol=tol, atol=tol)
    assert_allclose(a.scores, b.scores, rtol=tol, atol=tol)
    assert_allclose(a.log_evidence, b.log_evidence, rtol=tol)
    assert_allclose(predictions(found), predictions(expected), atol=tol)


CASES = {
    "two classes": (KERNEL, Probit(), IVM(active=25), TWO, None),
    "white noise": (KERNEL + White(0.5), Logit(), IVM(active=25), TWO, None),
    "entropy": (KERNEL, Probit(), IVM(active=25, score="entropy", sweeps=20), TWO, None),
    "weights": (KERNEL, Probit(bias=0.2, learn_bias=True), IVM(active=15), TWO, WEIGHT),
    "three classes": (KERNEL, MultinomialProbit(3), IVM(active=24), THREE, None),
    "exact scores": (KERNEL, MultinomialProbit(3), IVM(active=12, drift=0), THREE, None),
    "kernels of classes": (PerClass(KERNEL, KERNEL + White(0.1), KERNEL), Softmax(3), IVM(active=(4, 5, 6)), THREE, None),
    "weights of three": (KERNEL, Softmax(3), IVM(active=8, sweeps=5), THREE, np.round(WEIGHT) + 1),
    "ordinal": (KERNEL, Ordinal((-0.8, 0.6)), IVM(active=20), THREE, None),
}


@pytest.mark.parametrize("case", CASES)
def test_any_partitions_give_the_same_active_set(case):
    kernel, likelihood, engine, labels, weight = CASES[case]
    problem = objective(kernel, likelihood, engine, labels, weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few sweeps
        expected = learn(problem, [], 0)
        found = {name: on_crew(problem, labels, name, weight=weight) for name in PARTITIONS}
    for one in found.values():
        assert_same(one, expected)


@pytest.mark.parametrize("case", ["two classes", "three classes", "weights"])
def test_any_partitions_give_the_same_hyperparameters(case):
    """A search magnifies rounding errors, so tolerances are larger than for one fit; the steps are the same."""
    kernel, likelihood, engine, labels, weight = CASES[case]
    shorter = replace(engine, active=12 if weight is None else 6, major=2 if weight is None else 1, minor=2)
    problem = objective(kernel, likelihood, shorter, labels, weight, True)
    start = problem.theta + 0.3
    expected = learn(problem, [start], 0, scan=False)
    found = on_crew(problem, labels, "uneven", [start], weight)
    assert_allclose(found.theta, expected.theta, atol=1e-6)
    assert [step[:2] for step in found.history] == [step[:2] for step in expected.history]
    assert_same(found, expected, 1e-6)
    assert_allclose(found.slopes, expected.slopes, atol=1e-4)


@pytest.mark.parametrize("strategy", ["hybrid", "exact"])
def test_strategies(strategy):
    engine = IVM(active=12, major=1, minor=2, strategy=strategy)
    problem = objective(KERNEL + White(0.1), Probit(), engine, priors=True)
    expected = learn(problem, [problem.theta], 0, scan=False)
    assert_allclose(on_crew(problem, TWO, "uneven", [problem.theta]).theta, expected.theta, atol=1e-6)


class Sending(LocalCrew):
    """Sends functions, arguments and results as other processes receive them."""

    def each(self, function, *arguments):
        function, arguments = pickle.loads(pickle.dumps((function, arguments)))
        return pickle.loads(pickle.dumps(super().each(function, *arguments)))


def test_everything_can_be_sent_to_other_processes():
    kernel, likelihood, engine, labels, _ = CASES["weights"]
    weight = np.round(WEIGHT) + 1
    problem = objective(kernel, likelihood, replace(engine, active=3, major=1, minor=1), labels, weight)
    expected = on_crew(problem, labels, "uneven", [problem.theta], weight)
    found = on_crew(problem, labels, "uneven", [problem.theta], weight, lambda *given: Sending(divided(*given).shards))
    assert_array_equal(found.theta, expected.theta)
    assert_array_equal(found.left_out().log_p, expected.left_out().log_p)


# memory ---------------------------------------------------------------------------------------------------------------

MEMORY = dict(active=30, memory=0.075, block=10)


def test_limited_memory_in_one_shard_is_that_of_one_process():
    problem = objective(KERNEL, Probit(), IVM(**MEMORY, major=1, minor=2), priors=True)
    expected = learn(problem, [], 0)
    assert len(expected.posterior.candidates) < N - 30
    assert_same(on_crew(problem, TWO, "pieces"), expected)
    expected = learn(problem, [problem.theta], 0, scan=False)
    found = on_crew(problem, TWO, "pieces", [problem.theta])
    assert_allclose(found.theta, expected.theta, atol=1e-6)
    assert [step.message for step in found.history] == [step.message for step in expected.history]
    assert any("over" in step.message for step in found.history)


def test_shards_keep_their_share_of_candidates():
    problem = objective(KERNEL, Probit(), IVM(**MEMORY))
    crew = divided(X, TWO, *PARTITIONS["uneven"])
    rows = DividedRows(crew, np.unique(TWO))
    fit = rows.fit(sample(problem), problem.theta)[0]
    whole = learn(problem, [], 0).posterior
    assert len(whole.candidates) <= fit.n_candidates <= len(whole.candidates) + 3  # rounded up in each shard
    assert fit.log_evidence > whole.log_evidence - 10  # other candidates, similar results
    with pytest.raises(MemoryError, match="give at least"):
        on_crew(objective(KERNEL, Probit(), IVM(active=200, memory=0.05)), TWO, "uneven")


# ties -----------------------------------------------------------------------------------------------------------------


def test_ties_are_those_of_all_rows():
    """Scores that are equal up to TIE_TOL; many are just within or beyond it."""
    for seed in range(50):
        draw = np.random.default_rng(seed)
        value = -2.0 + TIE_TOL * draw.integers(0, 5, size=(40, 2)) * draw.random((40, 2))
        _, i, c = best_of(value)
        edges = [0, *np.sort(draw.integers(0, 41, 3)), 40]
        offered_rows = np.concatenate([a + first_rows(value[a:b]) for a, b in pairwise(edges)])
        _, k, latent = best_of(value[offered_rows])
        assert (offered_rows[k], latent) == (i, c)


def test_screening_takes_the_first_of_equal_rows():
    values = np.array([np.inf, -1.0, -3.0, -1.0 - 1e-15, -1.0 + 1e-15, -2.0])
    assert_array_equal(lowest_rows(values, 3), [1, 2, 5])
    assert_array_equal(lowest_rows(values, 9), [1, 2, 3, 4, 5])


# lost rows ------------------------------------------------------------------------------------------------------------


class Losing(LocalCrew):
    """Loses one shard during certain calls of a function, before or after the others have executed it."""

    function, when = None, ()

    def each(self, function, *arguments):
        if function is self.function:
            self.calls = getattr(self, "calls", 0) + 1
            if self.calls in self.when:
                if self.calls % 2:  # the others have executed it
                    super().each(function, *arguments)
                self.shards[0] = Shard(self.shards[0].parts)
                raise RowsLost("a process has ended")
        return super().each(function, *arguments)


def losing(function, when):
    def made(*arguments):
        crew = Losing(divided(*arguments).shards)
        crew.function, crew.when = function, when
        return crew

    return made


@pytest.mark.parametrize("case", ["two classes", "three classes"])
def test_a_selection_goes_on_after_rows_were_lost(case):
    kernel, likelihood, engine, labels, weight = CASES[case]
    problem = objective(kernel, likelihood, engine, labels, weight)
    expected = learn(problem, [], 0)
    with pytest.warns(LostRowsWarning, match="process has ended. The computation continues"):
        found = on_crew(problem, labels, "uneven", crew=losing(offered, (7, 8, 15)))
    assert_same(found, expected)


def test_a_search_goes_on_after_rows_were_lost():
    for engine in (IVM(active=12, major=1, minor=2), IVM(**MEMORY, major=1, minor=2)):
        problem = objective(KERNEL, Probit(), engine, priors=True)
        expected = on_crew(problem, TWO, "uneven", [problem.theta])
        with pytest.warns(LostRowsWarning, match="process has ended"):
            found = on_crew(problem, TWO, "uneven", [problem.theta], crew=losing(others, (2,)))
        # with limited memory, a new shard takes other candidates into account
        assert_allclose(found.theta, expected.theta, atol=1e-6 if engine.memory is None else 0.5)


# the fit that is kept -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["two classes", "weights of three"])
def test_the_fit_has_no_rows_and_is_restored(case):
    kernel, likelihood, engine, labels, weight = CASES[case]
    problem = objective(kernel, likelihood, engine, labels, weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learned = on_crew(problem, labels, "uneven", weight=weight)
        whole = learn(problem, [], 0).posterior
    fit, u = learned.posterior, len(learned.rows)
    state = fit.state()
    assert all(np.size(part) <= engine.active for part in state.values() if isinstance(part, np.ndarray))
    assert len(fit.y) == u
    for question in ("mean", "var", "cov"):
        with pytest.raises(NotAvailable, match="active rows only"):
            getattr(fit, question)
    for method in (fit.cavity, fit.loo, fit.jensen_bound):
        with pytest.raises(NotAvailable):
            method()
    again = restored(engine, kernel(learned.inputs), fit.y, likelihood, state)
    given = kernel(learned.inputs, XS), kernel.diag(XS)
    assert_allclose(again.log_class_probabilities(*given), fit.log_class_probabilities(*given), atol=1e-12)
    dropped = whole.without_rows()
    assert_allclose(dropped.log_class_probabilities(*given), fit.log_class_probabilities(*given), atol=1e-8)
    assert_array_equal(np.asarray(dropped.y), np.asarray(fit.y))


def test_a_fit_without_rows_is_updated_and_saved(tmp_path):
    import gpclass

    # estimators merge equal rows and sort the others; there are no equal rows here
    model, other = (GPClassifier(KERNEL, inference=IVM(active=20), optimizer=None).fit(X[:200], TWO[:200]) for _ in "12")
    problem = objective(model.kernel_, model.likelihood_, model.inference_)
    learned = learn_active(divided(X[:200], TWO[:200], [90, 110], [1, 0]), sample(problem), np.unique(TWO), [])
    assert_array_equal(learned.rows, model.active_indices_)
    other.posterior_, other.inputs_ = learned.posterior, learned.inputs
    gpclass.save(other, tmp_path / "model.gpclass")
    again = gpclass.load(tmp_path / "model.gpclass")
    assert_allclose(again.predict_proba(XS), model.predict_proba(XS), atol=1e-8)
    for one in (model, again):
        one.partial_fit(XS, (XS[:, 1] > 0).astype(int))
    assert_allclose(again.predict_proba(X[:30]), model.predict_proba(X[:30]), atol=1e-7)


@pytest.mark.parametrize("case", ["white noise", "weights of three"])
def test_rows_left_out_are_those_of_all_rows(case):
    kernel, likelihood, engine, labels, weight = CASES[case]
    problem = objective(kernel, likelihood, engine, labels, weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = left_out(learn(problem, [], 0).posterior)
        found = on_crew(problem, labels, "uneven", weight=weight).left_out()
    assert_allclose(found.log_p, expected.log_p, atol=1e-7)  # fewer rows than the size of a sample, so all are used
    assert_array_equal(found.codes, expected.codes)
    assert_array_equal(found.weights, expected.weights)


def test_what_is_refused():
    with pytest.raises(TypeError, match="augment"):
        on_crew(objective(KERNEL, Probit(), IVM(augment=lambda A: A[None])), TWO, "one")
    with pytest.raises(ValueError, match="no row is informative"):
        on_crew(objective(RBF(variance=1e-30), Probit(), IVM(active=5)), TWO, "uneven")
    with pytest.raises(ValueError, match="unknown"):
        learn_active(divided(X, TWO, [N]), objective(KERNEL, Probit(), IVM()), np.array([0, 7]), [])
