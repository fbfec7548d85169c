"""Converged sites of rows that are divided among shards: results equal those of one process, for any partitions."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from gpclass.engines.inducing import sweep, swept_rows
from gpclass.engines.observations import Observed
from gpclass.gaussian.low_rank import LowRankPosterior, LowRankPrior
from gpclass.kernels import RBF, Linear, PerClass
from gpclass.learning.calibration import LeftOut
from gpclass.learning.crew import CrewLost, LocalCrew, LostRowsWarning, RowsLost, Shard, divided, settled_rows, shard_sweeps
from gpclass.learning.crew.learn_settled import CrewInputs, learn_settled
from gpclass.learning.crew.settled_rows import SettledRows
from gpclass.learning.crew.shard_sweeps import sites_on
from gpclass.learning.inducing import InducingInputs, maximise_low_rank
from gpclass.learning.inducing_starts import start_inputs
from gpclass.learning.learn import learn
from gpclass.learning.members import left_out
from gpclass.learning.objective import Objective
from gpclass.learning.streams import Arrays, Order
from gpclass.likelihoods import Logit, MultinomialProbit, Probit, RobustMax, Softmax
from gpclass.numerics import NotPositiveDefinite
from gpclass.sparse import GFITC, SVGP, CoupledScalableEP, InducingFit, ScalableEP, StochasticEP

N, M = 50, 5
rng = np.random.default_rng(3)
X = rng.normal(size=(N, 2))
F = np.stack([X[:, 0], X[:, 1] ** 2 - 1, -X.sum(1)], axis=1) + 0.3 * rng.normal(size=(N, 3))
NAMES = np.array(["b", "a", "c"])  # class labels that are not in sorted order
Z = X[None, rng.choice(N, M, replace=False)]
UNIT = np.array([1.0, 2.0])
WEIGHT = np.where(np.arange(N) < 20, rng.uniform(1, 2.5, N), rng.uniform(0.4, 2.5, N))  # some shards have none below one
EVEN = [20, 15, 15], [0, 1, 2]  # sizes of the partitions, and the numbers of their shards
UNEVEN = [0, 1, 30, 0, 19], [0, 2, 1, 3, 2]  # with empty partitions, and shards without rows


class Sent(LocalCrew):
    """A crew whose functions, arguments and results are pickled, as if its shards were in other processes."""

    calls = 0

    def each(self, function, *arguments):
        self.calls += 1
        return [self._result(pickle.dumps((function, arguments)), shard) for shard in self.shards]

    @staticmethod
    def _result(sent, shard):
        function, arguments = pickle.loads(sent)
        return pickle.loads(pickle.dumps(function(shard, *arguments)))


class Losing(Sent):
    """A crew that loses the last shard with rows in some of its calls, after other shards have computed."""

    losses = ()  # numbers of the calls

    def each(self, function, *arguments):
        if self.calls + 1 in self.losses:
            lost = max(i for i, shard in enumerate(self.shards) if shard.n_rows)
            super(Losing, replace_shards(self, self.shards[:lost])).each(function, *arguments)
            self.calls += 1
            self.shards[lost] = Shard(self.shards[lost].parts)
            raise RowsLost("a process has ended")
        return super().each(function, *arguments)


def replace_shards(crew, shards):
    other = type(crew)(shards)
    other.calls, other.losses = 0, ()
    return other


def places_of(likelihood):
    return (F[:, 0] > 0).astype(int) if likelihood.n_latents == 1 else F.argmax(1)


def labels_of(likelihood):
    return NAMES[: max(2, likelihood.n_latents)]


def crew_of(likelihood, parts, weight=None, kind=Sent):
    return kind(divided(X, labels_of(likelihood)[places_of(likelihood)], *parts, weight).shards)


def objectives(likelihood, engine, parts, weight=None, kernel=RBF(0.9, 2.0), inputs=Z, kind=Sent):  # noqa: B008
    """The objective in one process and on a crew. The latter's own rows are only a few."""
    y = likelihood.check_targets(likelihood.class_targets[places_of(likelihood)])
    one = Objective(X, y if weight is None else Observed(y, weight), kernel, likelihood, engine, [])
    rows = SettledRows(crew_of(likelihood, parts, weight, kind), labels_of(likelihood))
    few = replace(one, X=X[:9], y=y[:9], design=CrewInputs(inputs, UNIT, True, rows))
    return replace(one, design=InducingInputs(inputs, UNIT)), few


def assert_same(a, b, atol=1e-8):
    """Evaluations agree. Sites move by the engine's tolerance; gradients are sums over N rows."""
    assert a.fit.converged
    assert b.fit.converged
    assert_allclose(b.value, a.value, atol=atol, rtol=0)
    assert_allclose(b.fit.posterior.mu, a.fit.posterior.mu, atol=atol)
    assert_allclose(b.fit.posterior.A_inv, a.fit.posterior.A_inv, atol=atol)
    assert_allclose(b.gradient, a.gradient, atol=10 * atol)


def evaluated(*objectives):
    return [objective.evaluate(objective.theta, tol=0.0) for objective in objectives]


CASES = [
    (GFITC(tol=1e-9), Probit(), UNEVEN, False),
    (GFITC(tol=1e-9), MultinomialProbit(3), EVEN, True),
    (ScalableEP(tol=1e-9), MultinomialProbit(3), UNEVEN, False),
    (ScalableEP(tol=1e-9), MultinomialProbit(3, bias=[0.1, 0.0, -0.1]), EVEN, True),
    (ScalableEP(tol=1e-9), Probit(bias=0.3), EVEN, True),
    (ScalableEP("joint", tol=1e-9), Softmax(3), EVEN, False),
    (CoupledScalableEP(tol=1e-9), MultinomialProbit(3, bias=[0.1, 0.0, -0.1]), UNEVEN, True),
    (StochasticEP(tol=1e-9), MultinomialProbit(3), UNEVEN, True),
    (StochasticEP(tol=1e-9), Logit(), EVEN, False),
    (SVGP(tol=1e-9), Logit(), UNEVEN, True),
    (SVGP(tol=1e-9), Softmax(3), EVEN, False),
    (SVGP(tol=1e-10), RobustMax(3, epsilon=0.1), EVEN, True),  # begins with sweeps of EP
]


@pytest.mark.parametrize(("engine", "likelihood", "parts", "weighted"), CASES)
def test_fits_and_gradients_do_not_depend_on_the_partitions(engine, likelihood, parts, weighted):
    one, many = objectives(likelihood, engine, parts, WEIGHT if weighted else None)
    a, b = evaluated(one, many)
    assert_same(a, b)
    if likelihood.log_concave:  # otherwise 200 sweeps amplify rounding
        assert b.fit.n_iter == a.fit.n_iter


@pytest.mark.parametrize(
    ("engine", "likelihood", "kernel", "kept"),
    [
        (ScalableEP(), RobustMax(3, epsilon=0.01), RBF(1.0, 500.0), "last"),  # moves grow: past sweeps are forgotten
        (SVGP(), Probit(), RBF(0.5, 50.0), "previous"),  # the objective falls: the step is undone
    ],
)
def test_failed_steps_are_followed_by_the_same_steps(engine, likelihood, kernel, kept, monkeypatch):
    steps, after = [], sweep.Mixer._after

    def recorded(*arguments):
        steps.append(after(*arguments))
        return steps[-1]

    monkeypatch.setattr(sweep.Mixer, "_after", recorded)
    one, many = objectives(likelihood, engine, EVEN, None, kernel)
    a, b = one.fit(one.theta), many.fit(many.theta)
    taken = [step.kept for step in steps]
    assert kept in taken
    assert taken[: len(taken) // 2] == taken[len(taken) // 2 :]
    assert_allclose(b.fit.posterior.mu, a.fit.posterior.mu, atol=1e-8)


def test_improper_posteriors_shorten_the_step(monkeypatch):
    """Here the third to fifth posteriors of a fit are declared improper."""
    made = []

    def posterior(*arguments):
        made.append(arguments)
        if len(made) in (3, 4, 5):
            raise NotPositiveDefinite("not proper")
        return LowRankPosterior(*arguments)

    monkeypatch.setattr(LowRankPrior, "posterior", posterior)
    one, many = objectives(Probit(), GFITC(tol=1e-9), EVEN)
    a = one.fit(one.theta)
    first, made[:] = len(made), []
    b = many.fit(many.theta)
    assert len(made) == first == b.fit.n_iter + 3
    assert_allclose(b.fit.posterior.mu, a.fit.posterior.mu, atol=1e-8)


def test_weights_of_some_partitions_only():
    """Rows of partitions without weights have weight one."""
    weight = np.where(np.arange(N) < 20, 1.0, WEIGHT)
    one, many = objectives(Probit(), GFITC(tol=1e-9), EVEN, weight)
    first = many.design.rows.crew.shards[0]
    first.parts = [replace(part, weight=None) for part in first.parts]
    assert_same(*evaluated(one, many))


def test_kernels_and_inputs_of_each_class():
    each = PerClass(RBF(0.7, 1.0), RBF(0.9, 2.0), RBF(1.2, 3.0))
    inputs = X[rng.choice(N, (3, M))]
    assert_same(*evaluated(*objectives(MultinomialProbit(3), ScalableEP(tol=1e-9), UNEVEN, None, each, inputs)))
    assert_same(*evaluated(*objectives(MultinomialProbit(3), GFITC(tol=1e-9), UNEVEN, None, RBF(0.9, 2.0), inputs)))


def test_features_need_not_be_kept(monkeypatch):
    one, many = objectives(MultinomialProbit(3), GFITC(tol=1e-9), UNEVEN, WEIGHT)
    monkeypatch.setattr(shard_sweeps, "KEPT_FEATURES", 0)
    assert_same(*evaluated(one, many))
    shards = many.design.rows.crew.shards
    assert all(sites_on(shard).now.rows.kept is None for shard in shards if shard.n_rows)


def test_fewer_past_sweeps_lead_to_the_same_sites(monkeypatch):
    one, many = objectives(Probit(), ScalableEP(tol=1e-9), EVEN)
    # of the 9 sweeps that are usual, 4 fit into it
    monkeypatch.setattr(settled_rows, "HISTORY_NUMBERS", 1 + 2 * 4 * N * 2 // 3)
    assert_same(*evaluated(one, many))
    assert {len(sites_on(shard).now.points) for shard in many.design.rows.crew.shards} == {4}


def test_coordinates_in_several_blocks(monkeypatch):
    """Sites of a shard are mixed block by block; here a block is a few coordinates."""
    one, many = objectives(Probit(), ScalableEP(tol=1e-9), EVEN)
    a = one.evaluate(one.theta, tol=0.0)
    monkeypatch.setattr(swept_rows, "blocks", lambda n, width: (slice(i, i + 7) for i in range(0, n, 7)))
    assert_same(a, many.evaluate(many.theta, tol=0.0))


def test_a_gradient_of_an_earlier_fit():
    one, many = objectives(MultinomialProbit(3), ScalableEP(tol=1e-9), EVEN, WEIGHT)
    a, b = (objective.fit(objective.theta) for objective in (one, many))
    many.fit(many.theta + 0.1, b.fit, 1e-3)
    assert_same(*(objective.with_gradient(found) for objective, found in ((one, a), (many, b))))


def test_runs_that_do_not_converge_warn():
    one, many = objectives(Probit(), ScalableEP(max_iter=3), EVEN)
    with pytest.warns(ConvergenceWarning, match="stopped after 3 sweeps") as here:
        a = one.fit(one.theta)
    with pytest.warns(ConvergenceWarning, match="stopped after 3 sweeps") as there:
        b = many.fit(many.theta)
    assert str(here[0].message) == str(there[0].message)
    assert_allclose(b.value, a.value, rtol=1e-12)


# learning -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "likelihood", "parts", "weight"),
    [
        (GFITC(), Probit(bias=0.1), UNEVEN, None),
        (ScalableEP(search="settled"), MultinomialProbit(3), EVEN, WEIGHT + 1),
        (SVGP(search="settled"), Softmax(3), UNEVEN, None),
    ],
)
def test_learning_takes_the_same_steps(engine, likelihood, parts, weight):
    """Steps of L-BFGS amplify rounding, here to less than 1e-6 after a few iterations."""
    one, many = objectives(likelihood, engine, parts, weight)
    start, crew = one.theta[: one.n_hyper], many.design.rows.crew
    model, search = maximise_low_rank(one, 3, [start])
    found = learn_settled(crew, many, labels_of(likelihood), Z, UNIT, [start], 3)
    assert_allclose(np.append(found.kernel.theta, found.likelihood.theta), search.best.theta[: one.n_hyper], atol=1e-6)
    assert_allclose(found.inputs, model.Z[0] if len(model.Z) == 1 else model.Z, atol=1e-6)
    assert_allclose(found.posterior.posterior.mu, model.posterior.mu, atol=1e-5)
    assert_allclose([step.objective for step in found.history], [step.objective for step in search.history], atol=1e-6)
    # warm starts are the same
    assert [step.sweeps for step in found.history] == [step.sweeps for step in search.history]
    assert type(found.posterior) is InducingFit  # it has no reference to the crew
    # shards keep only the sites of the best fit and of the last one
    assert all(sites_on(shard).now is None and len(sites_on(shard).kept) <= 2 for shard in crew.shards)
    assert isinstance(found.left_out(), LeftOut)  # the sites of the best fit are there


def test_terms_of_a_sum_compete_on_the_crew():
    kernel = RBF(1.0, 1.0) + Linear()
    one, many = objectives(Probit(), GFITC(), EVEN, None, kernel)
    start = one.theta[: one.n_hyper]
    same_rows = replace(many, X=one.X, y=one.y)  # rivals are scanned on the sample
    found = learn_settled(many.design.rows.crew, same_rows, labels_of(Probit()), Z, UNIT, [start], 3)
    search = maximise_low_rank(one, 3, [start])[1]
    assert_allclose(found.kernel.theta, search.best.theta[: one.n_hyper], atol=1e-5)
    assert max(step.run for step in found.history) == max(step.run for step in search.history)


def test_learn_on_a_crew_is_learning_in_one_process():
    likelihood, engine = MultinomialProbit(3), GFITC(n_inducing=M)
    one, many = objectives(likelihood, engine, UNEVEN)
    crew, start = many.design.rows.crew, one.theta[: one.n_hyper]
    summary = Arrays(X, one.y).look((0, 0))
    a = learn(one, [start], 3, scan=False)
    inputs = start_inputs(summary, engine, N, 3, np.random.default_rng(0))
    given = crew, many, labels_of(likelihood), inputs, summary.units.spread
    b = learn_settled(*given, [start], 3)
    assert_allclose(b.theta, a.theta, atol=1e-6)
    assert_allclose(b.inputs, a.inputs, atol=1e-6)
    assert_allclose(b.slopes, a.slopes, atol=1e-4)
    assert_allclose(b.left_out().log_p, a.left_out().log_p, atol=1e-5)
    held = learn_settled(*given, [], 3)
    assert_allclose(held.posterior.log_evidence, learn(one, [], 3).posterior.log_evidence, rtol=1e-8)


# rows left out ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [CASES[1], CASES[3], CASES[6], CASES[8]])
def test_rows_without_their_own_sites(case):
    engine, likelihood, parts, _ = case
    one, many = objectives(likelihood, engine, parts, WEIGHT)
    a, b = (objective.fit(objective.theta).fit for objective in (one, many))
    rows, every = many.design.rows, left_out(a)
    found = rows.left_out(b, seed=4)
    assert_allclose(found.log_p, every.log_p, atol=1e-8)
    assert_array_equal(found.codes, every.codes)
    assert_array_equal(found.weight, WEIGHT)
    some = np.sort(Order.of(N, (4, 2**32 - 3)).part(0, 20))
    assert_array_equal(rows.left_out(b, 4, most=20).codes, every.codes[some])
    assert_allclose(rows.left_out(b, 4, most=20).log_p, every.log_p[some], atol=1e-8)


# faults -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [1, 2, 9])
def test_a_fit_begins_again_when_rows_are_lost(call):
    one, many = objectives(MultinomialProbit(3), GFITC(tol=1e-9), EVEN, WEIGHT, kind=Losing)
    many.design.rows.crew.losses = (call,)
    with pytest.warns(LostRowsWarning, match="a process has ended. The computation continues"):
        b = many.evaluate(many.theta, tol=0.0)
    assert_same(one.evaluate(one.theta, tol=0.0), b)
    assert many.evaluate(many.theta, b.fit, tol=0.0).fit.n_iter <= 2  # the new sites are a start


def test_rows_lost_between_a_fit_and_its_gradient_or_after_learning():
    one, many = objectives(MultinomialProbit(3), ScalableEP(tol=1e-9), EVEN, kind=Losing)
    a, b = (objective.fit(objective.theta) for objective in (one, many))
    crew = many.design.rows.crew
    crew.losses = (crew.calls + 1,)
    with pytest.warns(LostRowsWarning):
        assert_same(one.with_gradient(a), many.with_gradient(b))
    crew.losses = (crew.calls + 1, crew.calls + 5)  # also in the repeated fit
    with pytest.warns(LostRowsWarning):
        found = many.design.rows.left_out(b.fit, 0)
    assert_allclose(found.log_p, left_out(a.fit).log_p, atol=1e-8)


def test_an_earlier_fit_that_is_lost_is_no_start():
    _, many = objectives(Probit(), ScalableEP(tol=1e-9), EVEN, kind=Losing)
    crew = many.design.rows.crew
    first = many.fit(many.theta).fit
    crew.losses = (crew.calls + 1,)
    with pytest.warns(LostRowsWarning):
        again = many.fit(many.theta, first).fit
    assert first.held.lost
    assert again.n_iter == first.n_iter
    assert many.fit(many.theta, again).fit.n_iter == 1
    assert_allclose(many.fit(many.theta, first).fit.posterior.mu, again.posterior.mu, atol=1e-8)


def test_learning_goes_on_when_rows_are_lost():
    one, many = objectives(Probit(), GFITC(learn_inputs=False), EVEN, kind=Losing)
    one = replace(one, design=InducingInputs(Z, UNIT, move=False))
    start, crew = one.theta, many.design.rows.crew
    crew.losses = (20, 60)
    with pytest.warns(LostRowsWarning):
        found = learn_settled(crew, many, labels_of(Probit()), Z, UNIT, [start])
    best = maximise_low_rank(one, 100, [start])[1].best
    # evaluations without a warm start change the steps on the way; searches end within 1e-5 nats or so of the maximum
    assert_allclose(found.posterior.log_evidence, best.value, atol=1e-4)
    assert_allclose(found.kernel.theta, best.theta, atol=0.02)
    assert isinstance(found.left_out(), LeftOut)


def test_a_crew_that_always_loses_rows_is_an_error():
    _, many = objectives(Probit(), GFITC(), EVEN, kind=Losing)
    many.design.rows.crew.losses = range(3, 10_000)
    with pytest.warns(LostRowsWarning), pytest.raises(CrewLost, match="lost 10 times in a row"):
        many.fit(many.theta)


# errors -------------------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:overflow")
def test_errors():
    _, many = objectives(Probit(), GFITC(), EVEN)
    _, other = objectives(Probit(), ScalableEP(), EVEN)
    fit, rows = many.fit(many.theta).fit, many.design.rows
    with pytest.raises(TypeError, match="start must be an earlier fit of ScalableEP to the same rows and classes"):
        other.fit(other.theta, fit)
    K = many.design.matrices(many.kernel, X)
    with pytest.raises(ValueError, match="unknown"):
        SettledRows(rows.crew, np.array(["x", "y"])).fit(GFITC(), K, Probit())
    rows = many.design.rows
    fit = rows.fit(GFITC(), K, Probit())
    huge = replace(many.design.matrices(RBF(0.9, 1e308), X), K_uu=K.K_uu)
    with pytest.raises(ValueError, match="NaN or infinite"):
        rows.fit(GFITC(), huge, Probit())
    assert rows.fit(GFITC(), K, Probit(), fit).n_iter == 1  # failed fits leave earlier ones usable
    with pytest.raises(AttributeError, match="keeps no training rows"):
        fit.loo()


def test_memory_is_freed():
    _, many = objectives(Probit(), GFITC(), EVEN)
    rows = many.design.rows
    first = many.fit(many.theta).fit
    second = many.fit(many.theta + 0.1, first).fit
    third = many.fit(many.theta + 0.2, second).fit
    del second
    fourth = many.fit(many.theta + 0.3, third).fit
    numbers = {first.held.number, third.held.number}
    assert all(set(sites_on(shard).kept) == numbers for shard in rows.crew.shards)
    rows.rest()
    assert all(set(sites_on(shard).kept) == {*numbers, fourth.held.number} for shard in rows.crew.shards)
    rows.clear()
    assert not any(shard.memory for shard in rows.crew.shards)
    assert fourth.held.lost
