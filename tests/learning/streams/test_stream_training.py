"""Training on streams: as good as on arrays for any pieces and any order of rows; held-out rows; resuming."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gpclass import GPClassifier
from gpclass.kernels import RBF
from gpclass.learning import (
    Arrays,
    Batches,
    SortedStreamWarning,
    Training,
    begin_training,
    csv_file,
    train_inducing,
)
from gpclass.learning.begin import MOST_VALIDATED
from gpclass.likelihoods import MultinomialProbit, Probit
from gpclass.sparse import SVGP, ScalableEP, StochasticEP

N, TEST = 4000, 6000


def two_classes(n, seed):
    """Overlapping classes: the best possible loss is about 0.56."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    f = 1.5 * np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1]
    return X, np.where(rng.random(n) < 1 / (1 + np.exp(-f)), 1, -1)


X, Y = two_classes(N, 0)
X_TEST, Y_TEST = two_classes(TEST, 1)
BY_LABEL = np.argsort(Y, kind="stable")


def pieces(order, length):
    return [(X[order[i : i + length]], Y[order[i : i + length]]) for i in range(0, N, length)]


def write_csv(path, X, y):
    lines = [",".join(map(repr, row)) + f",{label}" for row, label in zip(X.tolist(), y, strict=True)]
    path.write_text("\n".join([",".join([*(f"x{j}" for j in range(X.shape[1])), "y"]), *lines]), encoding="utf-8")
    return path


def loss(source, engine, seed=0):
    training = Training(n_inducing=15, batch_size=100, epochs=5)
    run = train_inducing(source, RBF(1.0, 4.0), Probit(), engine, training, random_state=seed)
    log_p = run.model().log_class_probabilities(X_TEST)
    return -np.mean(log_p[np.arange(TEST), (Y_TEST > 0).astype(int)])


@pytest.mark.quick_cases("SVGP")
@pytest.mark.parametrize("engine", [ScalableEP(), StochasticEP(), SVGP()], ids=lambda engine: type(engine).__name__)
def test_neither_pieces_nor_the_order_of_labels_matter(engine, tmp_path):
    """Within 0.005 of arrays, with a buffer of a quarter or an eighth of the rows; chance alone makes up to 0.002."""
    arrays = loss(Arrays(X, Y), engine)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SortedStreamWarning)
        for source in (
            Batches.of(pieces(np.arange(N), 20), buffer=500),
            Batches.of(lambda: pieces(np.arange(N), 20), buffer=500),
            Batches.of(pieces(BY_LABEL, 20), buffer=500),
            csv_file(write_csv(tmp_path / "t.csv", X[BY_LABEL], Y[BY_LABEL]), chunk=8, buffer=1000),
        ):
            assert abs(loss(source, engine) - arrays) < 0.005


def test_a_sorted_stream_that_cannot_be_mixed_is_worse_and_says_so():
    with pytest.warns(SortedStreamWarning, match="uneven order"):
        worse = loss(Batches.of(lambda: pieces(BY_LABEL, 20), buffer=100), SVGP())
    assert worse > loss(Arrays(X, Y), SVGP()) + 0.01


def test_small_pieces_train_bit_for_bit_as_arrays():
    whole = loss(Arrays(X[BY_LABEL], Y[BY_LABEL]), SVGP())
    assert loss(Batches.of(pieces(BY_LABEL, 20)), SVGP()) == whole
    assert loss(Batches.of(lambda: pieces(BY_LABEL, 999)), SVGP()) == whole


# held-out rows ------------------------------------------------------------------------------------------------------------


class Recorded:
    """A source as a user may write it, which records the rows that it gave."""

    def __init__(self, source):
        self.source, self.given = source, []

    n_rows = property(lambda self: self.source.n_rows)
    n_columns = property(lambda self: self.source.n_columns)

    def batches(self, size, seed):
        for batch in self.source.batches(size, seed):
            self.given.append(batch.X)
            yield batch


def some_streams(tmp_path):
    few = np.arange(600)
    path = write_csv(tmp_path / "t.csv", X[few], Y[few])
    parts = [(X[i : i + 50], Y[i : i + 50]) for i in range(0, 600, 50)]
    return {
        "arrays": Arrays(X[few], Y[few]),
        "list": Batches.of(parts),
        "small buffer": Batches.of(lambda: parts, buffer=100),
        "csv": csv_file(path, chunk=10, buffer=160),
        "own": Recorded(Batches.of(parts, buffer=100)),
    }


def settings(**given):
    return Training(**{"n_inducing": 10, "batch_size": 40, "epochs": 3, "validation": 0.25, **given})


@pytest.mark.parametrize("kind", ["arrays", "list", "small buffer", "csv", "own"])
def test_rows_are_held_out_of_any_source(kind, tmp_path):
    source = some_streams(tmp_path)[kind]
    run, rest = begin_training(source, RBF(1.0, 4.0), Probit(), ScalableEP(), settings())
    held = run.held[0]
    assert len(held) == 150
    assert rest.n_rows == run.n_rows == 450
    recorded = Recorded(rest)
    run.run(recorded)
    # together they are all rows; held-out rows are never trained on
    trained = np.unique(np.concatenate(recorded.given), axis=0)
    assert_array_equal(np.unique(np.concatenate([held, trained]), axis=0), np.unique(X[:600], axis=0))
    assert len(trained) == 450
    labels = dict(zip(map(bytes, X[:600]), Y[:600], strict=True))
    assert [labels[bytes(x)] for x in held] == run.labels[run.held[1]].tolist()
    log_p = run.current().log_class_probabilities(held)
    score = -np.mean(log_p[np.arange(150), (run.held[1] > 0).astype(int)])
    assert_allclose(run.history[-1].validation, score, rtol=1e-12)
    assert [len(x) for x in recorded.given] == 3 * [*11 * [40], 10]


@pytest.mark.parametrize("validation", [0.0, 0.2])
def test_a_classifier_learns_the_same_from_a_small_stream_as_from_arrays(validation):
    """The first sample of the stream uses its own random numbers, and held-out rows do not change minibatches."""

    def probabilities(*data):
        engine = SVGP(search="minibatches", n_inducing=8, batch_size=64, epochs=2, validation=validation)
        return GPClassifier(inference=engine, random_state=0).fit(*data).predict_proba(X_TEST[:50])

    stream = Batches.of([(X[i : i + 7], Y[i : i + 7]) for i in range(0, 196, 7)])
    n = stream.n_rows
    # starting values are from the same rows in another order; the scan of lengthscales uses all rows, as there are few
    assert_allclose(probabilities(stream), probabilities(X[:n], Y[:n]), atol=1e-9)


def test_numbers_that_are_no_labels_are_refused_in_streams_too():
    with pytest.raises(ValueError, match="continuous"):
        GPClassifier(inference="svgp").fit(Batches.of([(X[:50], X[:50, 0])]))


def test_the_same_rows_are_held_out_of_streams_and_arrays(tmp_path):
    held = [
        begin_training(source, RBF(1.0, 4.0), Probit(), SVGP(), settings(), random_state=3)[0].held
        for source in some_streams(tmp_path).values()
    ]
    for X_held, y_held in held[1:]:
        assert_array_equal(X_held, held[0][0])
        assert_array_equal(y_held, held[0][1])


def test_a_stream_stops_early():
    """Labels without any relation to X: the first pass is best, or nearly so, and later ones fit noise."""
    rng = np.random.default_rng(0)
    stream = [(rng.normal(size=(40, 2)), rng.integers(0, 2, 40)) for _ in range(5)]
    engine = SVGP(n_inducing=30, batch_size=40, epochs=200, learning_rate=0.1, validation=0.3, patience=2)
    clf = GPClassifier(inference=engine, random_state=0).fit(stream)
    scores = [step.validation for step in clf.history_]
    assert len(scores) == np.argmin(scores) + 3 < 200
    assert np.all(np.isfinite(scores))


def test_too_few_rows_to_hold_some_out():
    with pytest.raises(ValueError, match="leaves no row to train on"):
        begin_training(Batches.of([(X[:2], Y[:2])]), RBF(), Probit(), SVGP(), settings(n_inducing=1, validation=0.9))
    assert MOST_VALIDATED < 10_000  # so that memory is bounded for any stream


# resumption ---------------------------------------------------------------------------------------------------------------


@pytest.mark.quick_cases("ScalableEP-csv", "SVGP-small buffer")
@pytest.mark.parametrize("kind", ["small buffer", "csv"])
@pytest.mark.parametrize("engine", [ScalableEP(), SVGP()], ids=lambda engine: type(engine).__name__)
def test_a_stream_is_resumed_in_the_middle_of_a_pass(kind, engine, tmp_path):
    class Killed(Exception):
        pass

    class Mortal(Recorded):
        def batches(self, size, seed):
            for number, batch in enumerate(super().batches(size, seed)):
                if seed[1] == 1 and number == 5:
                    raise Killed
                yield batch

    source, path = some_streams(tmp_path)[kind], tmp_path / "run.npz"
    args = RBF(1.0, 4.0), MultinomialProbit(2), engine, settings()
    labels = np.array([-1, 1])
    undisturbed = train_inducing(source, *args, labels=labels)
    run, rest = begin_training(source, *args, labels=labels)
    with pytest.raises(Killed):
        run.run(Mortal(rest), checkpoint=path)
    resumed = train_inducing(source, *args, labels=labels, checkpoint=path)
    assert_array_equal(resumed.Z, undisturbed.Z)
    assert_array_equal(resumed.state.P, undisturbed.state.P)
    assert_array_equal(resumed.kernel.theta, undisturbed.kernel.theta)
    for name, part in undisturbed.sites.items():  # sites of each row
        assert_array_equal(resumed.sites[name], part)
