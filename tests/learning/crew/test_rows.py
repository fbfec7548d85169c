"""Minibatch runs on rows that are divided among processes equal runs in one process, for any partitions."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gpclass.kernels import RBF
from gpclass.learning import Arrays, begin_training, train_inducing
from gpclass.learning.crew import CrewLost, LocalCrew, LostRowsWarning, RowsLost, Shard, divided
from gpclass.learning.crew.rows import CrewRows
from gpclass.learning.crew.store import part_of_step
from gpclass.learning.held_rows import left_out_of_run
from gpclass.learning.minibatch import packed, unpacked
from gpclass.likelihoods import MultinomialProbit, RobustMax
from gpclass.sparse import SVGP, CoupledScalableEP, ScalableEP, StochasticEP

rng = np.random.default_rng(0)
N, C = 240, 3
X = rng.normal(size=(N, 2))
Y = np.array(["red", "green", "blue"])[np.sum(X + 0.5 * rng.normal(size=(N, 2)) > [0.0, 0.5], axis=1)]
WEIGHT = rng.uniform(0.5, 3.0, N)
BY_LABEL = np.argsort(Y, kind="stable")
FEW = {"n_inducing": 8, "batch_size": 40, "epochs": 4}
ENGINES = [ScalableEP(**FEW), CoupledScalableEP(**FEW), StochasticEP(**FEW), SVGP(**FEW)]
# sizes of the partitions, and the shard of each
PARTITIONS = {
    "one": ([N], [0]),
    "one shard": ([100, 40, 60, 40], [0, 0, 0, 0]),
    "uneven and empty": ([0, 3, 200, 0, 37], [2, 0, 1, 0, 2]),
    "an empty shard": ([200, 0, 40], [2, 1, 0]),
}
named = pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: type(engine).__name__)


def train(source, engine, likelihood=None, **settings):
    likelihood = MultinomialProbit(C, learn_bias=True) if likelihood is None else likelihood
    return train_inducing(source, RBF([0.5, 0.8], 4.0), likelihood, engine, **settings)


def crew_of(partitions, weight=None):
    return CrewRows(divided(X, Y, *PARTITIONS[partitions], weight))


def assert_same(run, other, tol):
    """Sums over shards differ from sums over all rows by rounding, which training hardly increases."""
    assert_allclose(run.theta, other.theta, rtol=tol, atol=tol)
    assert_allclose(run.Z, other.Z, rtol=tol, atol=tol)
    p, q = (np.exp(each.model().log_class_probabilities(X[:20])) for each in (run, other))
    assert_allclose(p, q, atol=tol)
    assert_allclose([done.log_evidence for done in run.history], [done.log_evidence for done in other.history], rtol=tol)


@named
@pytest.mark.parametrize("partitions", PARTITIONS)
def test_the_same_run_as_in_one_process(engine, partitions):
    run = train(crew_of(partitions), engine)
    assert_same(run, train(Arrays(X, Y), engine), 1e-8)


@named
def test_weights_and_held_out_rows(engine):
    engine = replace(engine, validation=0.2)
    run = train(crew_of("uneven and empty", WEIGHT), engine)
    other = train(Arrays(X, Y, weight=WEIGHT), engine)
    assert_same(run, other, 1e-8)
    assert_allclose(run.held[0], other.held[0], rtol=0)
    assert_allclose([done.validation for done in run.history], [done.validation for done in other.history], rtol=1e-8)


def test_a_likelihood_that_is_not_log_concave():
    engine = SVGP(**FEW)
    run = train(crew_of("uneven and empty"), engine, RobustMax(C))
    assert_same(run, train(Arrays(X, Y), engine, RobustMax(C)), 1e-8)


def test_rows_sorted_by_label_make_no_difference():
    """Minibatches are parts of a random order of all rows, so the order of the partitions only renames the rows."""
    rows = CrewRows(divided(X[BY_LABEL], Y[BY_LABEL], [80, 80, 80], [0, 1, 2]))
    assert_same(train(rows, ENGINES[0]), train(Arrays(X[BY_LABEL], Y[BY_LABEL]), ENGINES[0]), 1e-8)


@named
def test_leave_one_out_probabilities(engine):
    rows, source = crew_of("uneven and empty"), Arrays(X, Y)
    found, other = (left_out_of_run(train(each, engine), each) for each in (rows, source))
    assert_array_equal(found.codes, other.codes)
    assert_allclose(found.log_p, other.log_p, atol=1e-7)  # logs of probabilities down to 1e-2


# checkpoints ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("validation", [0.0, 0.2])
@named
def test_a_run_goes_on_elsewhere(engine, validation, tmp_path):
    """One process resumes the checkpoint of a crew, and a crew that of one process."""
    engine = replace(engine, validation=validation)
    whole = train(Arrays(X, Y), engine)
    for first, then in ((crew_of("uneven and empty"), Arrays(X, Y)), (Arrays(X, Y), crew_of("an empty shard"))):
        path = tmp_path / f"{type(first).__name__}.npz"
        run, source = begin_training(first, RBF([0.5, 0.8], 4.0), MultinomialProbit(C, learn_bias=True), engine)
        size = run._size
        run.run(source, epochs=1)
        for number, batch in enumerate(list(source.batches(size, (run.seed, 1)))[:3]):
            run.step(batch, place=number + 1)
        run.save(path)
        assert_same(train(then, engine, checkpoint=path, resume="must"), whole, 1e-8)


# losses -----------------------------------------------------------------------------------------------------------------


class Unreliable(LocalCrew):
    """A crew that loses a shard at some calls of `part_of_step`, after other shards have taken the step."""

    def __init__(self, crew, at):
        super().__init__(crew.shards)
        self.at, self.calls = set(at), 0

    def sum(self, function, *arguments, meanwhile=None):
        self.calls += function is part_of_step
        if function is part_of_step and self.calls in self.at:
            self.at.remove(self.calls)
            for shard in self.shards[:-1]:
                function(shard, *arguments)
            self.shards[-1] = Shard(self.shards[-1].parts)
            raise RowsLost("worker 7 has ended")
        return super().sum(function, *arguments, meanwhile=meanwhile)


def losses(run):
    log_p = run.model().log_class_probabilities(X)
    return -np.mean(log_p[np.arange(N), np.searchsorted(run.labels, Y)])


@named
@pytest.mark.parametrize("at", [[1], [4], [9, 16]], ids=str)
def test_training_goes_on_when_rows_are_lost(engine, at):
    crew = divided(X, Y, [80, 80, 80], [0, 1, 2])
    with pytest.warns(LostRowsWarning, match=r"worker 7 has ended. The computation continues"):
        run = train(CrewRows(Unreliable(crew, at)), engine)
    whole = train(Arrays(X, Y), engine)
    if not engine.keeps_rows:
        assert_same(run, whole, 1e-8)
    assert abs(losses(run) - losses(whole)) < 0.002


def test_lost_sites_are_made_anew_near_those_that_were_lost():
    """With fixed hyperparameters, EP's sites are close to those matched to the posterior without an average factor."""
    engine = replace(ENGINES[0], epochs=30, warm_up=10**6, learn_inputs=False)
    rows = crew_of("uneven and empty")
    run = train(rows, engine)
    before = {name: np.concatenate(list(part.parts())) for name, part in run.sites.items()}
    rows.crew.shards[2] = Shard(rows.crew.shards[2].parts)
    after = {name: np.concatenate(list(part.parts())) for name, part in run.sites.items()}
    for name, part in before.items():
        assert np.mean(np.abs(after[name] - part)) < 0.1 * np.mean(np.abs(part))


def test_a_crew_that_always_loses_rows_is_given_up():
    crew = divided(X, Y, [120, 120], [0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LostRowsWarning)
        with pytest.raises(CrewLost, match="lost 10 times in a row"):
            train(CrewRows(Unreliable(crew, range(3, 100))), ENGINES[2])


def test_rows_are_added_after_training_elsewhere():
    for engine in ENGINES:
        run, whole = train(crew_of("uneven and empty"), engine), train(Arrays(X, Y), engine)
        run.leave()
        for each in (run, whole):
            each.extend(X[:50] + 0.1, Y[:50])
            each.extend(X[50:90] + 0.1, Y[50:90])
        assert_allclose(run.theta, whole.theta, rtol=1e-8, atol=1e-8)
        assert run.n_rows == N + 90


def test_symmetric_matrices_are_packed():
    for M in (1, 2, 7, 20):
        P = np.random.default_rng(M).normal(size=(3, M, M))
        P = P + np.swapaxes(P, 1, 2)
        assert packed(P).shape == (3, M * (M + 1) // 2)
        assert_array_equal(unpacked(packed(P)), P)


def test_the_sample_of_the_rows_has_their_weights():
    """Then starts and scans of streams and collections equal those of arrays."""
    for source in (crew_of("uneven and empty", WEIGHT), Arrays(X, Y, weight=WEIGHT)):
        summary = source.look((0, 1))
        assert_array_equal(summary.X, X)
        assert_array_equal(summary.row_weight, WEIGHT)
    assert Arrays(X, Y).look((0, 1)).row_weight is None


def test_the_sample_of_the_rows_has_their_numbers():
    for source in (crew_of("uneven and empty", WEIGHT), Arrays(X, Y, weight=WEIGHT)):
        summary = source.look((0, 1), sample=len(X) // 3)
        assert len(set(summary.numbers)) == len(X) // 3
        assert_array_equal(summary.X, X[summary.numbers])
        assert_array_equal(summary.row_weight, WEIGHT[summary.numbers])
