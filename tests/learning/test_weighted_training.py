"""Weighted rows in sources, in training on minibatches and in checkpoints."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gpclass.engines.observations import Observed
from gpclass.kernels import RBF
from gpclass.learning import Arrays, begin_training
from gpclass.learning.checkpoint import CheckpointError
from gpclass.learning.held_rows import left_out_of_run
from gpclass.learning.streams import Batch, Stream
from gpclass.likelihoods import MultinomialProbit, Probit, Softmax
from gpclass.sparse import SVGP, ScalableEP, StochasticEP, Training

rng = np.random.default_rng(2)
X, Z = rng.normal(size=(24, 2)), rng.normal(size=(5, 2))
SIGNS = np.sign(X[:, 0] + 0.6 * rng.normal(size=24))
LABELS = np.argmax(X @ rng.normal(size=(2, 3)) + 0.6 * rng.normal(size=(24, 3)), axis=1)
COUNTS = rng.integers(1, 4, 24)
REPEATED = np.repeat(np.arange(24), COUNTS)
PARTS = rng.uniform(0.2, 3.0, 24)
TRAINING = Training(batch_size=None, epochs=6, learn_inputs=False)
RUNS = [
    (ScalableEP(), Probit(learn_bias=True), SIGNS), (ScalableEP(), MultinomialProbit(3), LABELS),
    (StochasticEP(), Probit(), SIGNS), (SVGP(), Softmax(3), LABELS),
]  # fmt: skip


class Pieces(Stream):
    """Rows with weights in pieces of five."""

    n_rows, n_columns, buffer = 24, 2, 9

    def pieces(self, rng):
        for i in rng.permutation(5):
            rows = np.arange(5 * i, min(5 * i + 5, 24))
            yield Batch(X[rows], LABELS[rows], rows, PARTS[rows])


def begun(source, engine, likelihood, training=TRAINING, **more):
    return begin_training(source, RBF(1.0, 3.0), likelihood, engine, training, Z=Z, **more)


@pytest.mark.parametrize(("engine", "likelihood", "y"), RUNS, ids=lambda x: type(x).__name__)
def test_training_with_whole_weights_is_that_of_repeated_rows(engine, likelihood, y):
    """Six steps on all rows, with the same inducing inputs: only rounding differs."""
    ends = []
    for source in (Arrays(X, y, weight=COUNTS), Arrays(X[REPEATED], y[REPEATED])):
        run, rows = begun(source, engine, likelihood)
        ends.append(run.run(rows))
    weighted, repeated = ends
    assert weighted.weight == COUNTS.sum()
    assert repeated.weight is None
    assert_allclose(weighted.theta, repeated.theta, rtol=0, atol=1e-8)
    assert_allclose(weighted.log_evidence, repeated.log_evidence, rtol=0, atol=1e-7)
    p, q = (run.model().log_class_probabilities(X) for run in ends)
    assert_allclose(p, q, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("engine", "likelihood", "y"), RUNS, ids=lambda x: type(x).__name__)
def test_further_rows_with_weights(engine, likelihood, y):
    """Rows of weight two equal every row twice, with the same fractions of the steps."""
    ends = []
    for copies in (1, 2):
        first, more = (np.repeat(np.arange(a, b), copies) for a, b in ((0, 16), (16, 24)))
        weight = None if copies == 2 else np.full(8, 2.0)
        source = Arrays(X[first], y[first], weight=None if copies == 2 else np.full(16, 2.0))
        run, rows = begun(source, engine, likelihood)
        run.run(rows, epochs=2)
        run.extend(X[more], y[more], weight)
        ends.append(run)
    assert ends[0].weight == 48
    assert_allclose(ends[0].theta, ends[1].theta, rtol=0, atol=1e-8)
    assert_allclose(*(run.model().log_class_probabilities(X) for run in ends), rtol=0, atol=1e-8)


def test_rows_keep_their_weights():
    whole = Arrays(X, Observed(LABELS, PARTS))
    held = np.array([2, 3, 11])
    for source in (whole, Arrays(X, LABELS, weight=PARTS), Pieces(), whole.some(np.arange(24))):
        rest, batch = source.without(held, (0, 0))
        assert_array_equal(batch.weight, PARTS[held])
        kept = np.delete(np.arange(24), held)
        for each, numbers in ((source, np.arange(24)), (rest, kept)):
            batches = list(each.batches(6, (0, 3)))
            rows, weight = (np.concatenate([getattr(b, name) for b in batches]) for name in ("rows", "weight"))
            assert_array_equal(np.sort(rows), np.arange(len(numbers)))
            assert_array_equal(weight, PARTS[numbers][rows])
            assert_allclose(each.look((0, 0)).weight, PARTS[numbers].sum())
    assert Arrays(X, LABELS).look((0, 0)).weight is None
    with pytest.raises(ValueError, match="positive finite"):
        Arrays(X, LABELS, weight=-PARTS)


def test_held_out_rows_count_by_weight():
    training = replace(TRAINING, validation=0.25)
    run, source = begun(Arrays(X, LABELS, weight=PARTS), ScalableEP(), MultinomialProbit(3), training)
    assert_allclose(run.weight + run.held_weight.sum(), PARTS.sum())
    run.run(source, epochs=1)
    X_held, y_held = run.held
    own = run.current().log_class_probabilities(X_held)[np.arange(6), y_held]
    assert_allclose(run.history[0].validation, -(run.held_weight @ own) / run.held_weight.sum())
    assert_array_equal(left_out_of_run(run, source).weight, run.held_weight)


def test_left_out_rows_of_a_run():
    """One copy is left out: whole weights give the probabilities of repeated rows."""
    for engine, likelihood, y in RUNS:
        run, source = begun(Arrays(X, y, weight=COUNTS), engine, likelihood)
        again, rows = begun(Arrays(X[REPEATED], y[REPEATED]), engine, likelihood)
        ours, theirs = left_out_of_run(run.run(source), source), left_out_of_run(again.run(rows), rows)
        batch, other = (next(s.batches(s.n_rows, (0, 2**32 - 3))) for s in (source, rows))
        assert_array_equal(ours.weight, COUNTS[batch.rows])
        one, two = np.empty((24, ours.log_p.shape[1])), np.empty(theirs.log_p.shape)
        one[batch.rows], two[other.rows] = ours.log_p, theirs.log_p
        assert_allclose(one, two[np.searchsorted(REPEATED, np.arange(24))], rtol=0, atol=1e-8)


def test_checkpoints_know_the_weights(tmp_path):
    path, args = tmp_path / "run.npz", (ScalableEP(), MultinomialProbit(3), replace(TRAINING, batch_size=8))
    weighted = Arrays(X, LABELS, weight=PARTS)
    whole, source = begun(weighted, *args)
    whole.run(source)
    run, source = begun(weighted, *args)
    run.run(source, epochs=2, checkpoint=path)
    again, source = begun(weighted, *args)
    again.resume(path).run(source)
    assert_array_equal(again.theta, whole.theta)
    assert_array_equal(again.state.P, whole.state.P)
    for other in (Arrays(X, LABELS), Arrays(X, LABELS, weight=PARTS[::-1])):
        with pytest.raises(CheckpointError, match="weights"):
            begun(other, *args)[0].resume(path)
