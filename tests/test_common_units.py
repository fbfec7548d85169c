"""Many columns with one lengthscale: units of each column, or one unit for all, whichever has the larger evidence."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gpclass import GPClassifier, GPRegressor
from gpclass.assess import nlpd
from gpclass.expressions import MOST_COLUMNS, default_kernel
from gpclass.inference import EP
from gpclass.kernels import RBF, Linear, Matern32, Standardized
from gpclass.learning import Objective, learn
from gpclass.learning.scan import best_objective
from gpclass.likelihoods import Probit
from gpclass.numerics.columns import column_units, common_units
from gpclass.progress import keeping_best
from gpclass.sparse import ScalableEP
from gpclass.units import COMMON_MARGIN, SMOOTH_MARGIN, Start, start_kernels

N_COLUMNS = MOST_COLUMNS + 20
SIGNAL = 6  # columns that labels depend on


def pixels(n=150, seed=0, loud=True):
    """Columns of two sizes: labels depend on a few of them, those of the larger spread if `loud`."""
    rng = np.random.default_rng(seed)
    spread = np.full(N_COLUMNS, 1.0 if loud else 20.0)
    spread[:SIGNAL] = 20.0 if loud else 1.0
    U = rng.normal(size=(n, N_COLUMNS))
    return spread * U, (U[:, :SIGNAL].sum(1) + 0.3 * rng.normal(size=n) > 0).astype(int)


def in_units(units, shape=Matern32):
    return Standardized(shape(15.0, 4.0), *units, 3.0)


@pytest.mark.parametrize("loud", [True, False])
def test_spreads_that_mean_something_are_kept(loud):
    """The chosen units have the better test score as well: pixels near the border of an image hardly vary."""
    (X, y), (test, labels) = pixels(loud=loud), pixels(400, 1, loud)
    units = column_units(X)
    chosen = GPClassifier().fit(X, y)
    own, common = (GPClassifier(in_units(each)).fit(X, y) for each in (units, common_units(units, X)))
    assert chosen.kernel_.common_units == loud
    scores = {model: nlpd(labels, model.predict_proba(test)) for model in (chosen, own, common)}
    better, worse = (common, own) if loud else (own, common)
    assert scores[better] < scores[worse] - 0.02
    assert_allclose(scores[chosen], scores[better], atol=1e-3)  # searches from different starts


def test_the_choice_is_that_of_complete_searches_on_all_rows():
    for loud in (True, False):
        X, y = pixels(100, loud=loud)
        units = column_units(X)
        kernels = [in_units(units), in_units(common_units(units, X))]
        targets = Probit().class_targets[y]
        objectives = [Objective(X, targets, kernel, Probit(), EP(), []) for kernel in kernels]
        ends = [learn(each, [each.theta], 100).posterior.log_evidence for each in objectives]
        gain = ends[1] - ends[0]
        assert abs(gain) > 1  # clear enough for a short search
        assert best_objective(objectives, [0.0, 0.0]) == int(gain > 0)
        assert best_objective(objectives, [0.0, gain + 1]) == 0
        assert best_objective(objectives, [1 - gain, 0.0]) == 1


def test_equal_evidence_keeps_the_first():
    X, y = pixels(60)
    objective = Objective(X, Probit().class_targets[y], in_units(column_units(X)), Probit(), EP(), [])
    assert best_objective([objective] * 3, [0.0, COMMON_MARGIN, SMOOTH_MARGIN]) == 0


def test_columns_of_very_different_units_do_not_matter():
    X, y = pixels(loud=False)
    factor = 10.0 ** np.random.default_rng(3).uniform(-4, 4, N_COLUMNS)
    test = pixels(50, 1, loud=False)[0]
    one, two = GPClassifier().fit(X, y), GPClassifier().fit(factor * X, y)
    assert not one.kernel_.common_units
    assert not two.kernel_.common_units
    assert_allclose(two.predict_proba(factor * test), one.predict_proba(test), atol=1e-6)  # rounding in the last steps


def test_choices_for_the_default_kernel():
    X, _ = pixels(50)
    starts = start_kernels(None, X, np.random.default_rng(0), smooth=True)
    found = [(type(s.kernel.kernel), s.kernel.common_units, s.margin) for s in starts]
    both = COMMON_MARGIN + SMOOTH_MARGIN
    assert found == [(Matern32, False, 0), (Matern32, True, COMMON_MARGIN), (RBF, False, SMOOTH_MARGIN), (RBF, True, both)]
    for start in starts:  # the typical distance is that of the start
        assert_allclose(start.kernel.lengthscale, start.distance)
        inner = start.kernel.seen(X)
        assert_allclose(start.distance, np.median(np.linalg.norm(inner[:, None] - inner, axis=2)[np.triu_indices(50, 1)]))


@pytest.mark.parametrize(
    ("given", "n_columns", "expected"),
    [
        (None, MOST_COLUMNS, 1),
        (None, MOST_COLUMNS + 1, 2),
        ("rbf", MOST_COLUMNS + 1, 2),
        ("rbf", MOST_COLUMNS, 1),
        ("rbf-ard", MOST_COLUMNS + 1, 1),  # lengthscales follow the units of their columns
        ("rbf-ard + linear", MOST_COLUMNS + 1, 1),
        ("rbf + linear", MOST_COLUMNS + 1, 2),
        ("rbf + tanimoto", MOST_COLUMNS + 1, 1),  # a term that is not in units of the columns
        (RBF(3.0), MOST_COLUMNS + 1, 1),
    ],
)
def test_which_kernels_have_choices(given, n_columns, expected):
    X = np.random.default_rng(0).integers(0, 2, (30, n_columns)).astype(float)
    assert len(start_kernels(given, X, np.random.default_rng(0))) == expected
    assert len(start_kernels(given, X, np.random.default_rng(0), choices=False)) == 1


def test_a_smooth_kernel_is_a_choice_with_inducing_points_only():
    """Labels that are a smooth function of rows near a plane: the evidence prefers RBF by far."""
    rng = np.random.default_rng(0)
    U = rng.normal(size=(400, 2))
    X = 10 * U @ rng.normal(size=(2, N_COLUMNS)) + 0.01 * rng.normal(size=(400, N_COLUMNS))
    y = (np.sin(3 * U[:, 0]) + np.sin(3 * U[:, 1]) > 0).astype(int)
    dense = GPClassifier(random_state=0).fit(X[:200], y[:200])
    assert isinstance(dense.kernel_.kernel, Matern32)
    engine = ScalableEP(n_inducing=30, search="minibatches", batch_size=100, epochs=5)
    models = [GPClassifier(kernel, inference=engine, random_state=0).fit(X, y) for kernel in (None, "matern32")]
    assert [type(model.kernel_.kernel) for model in models] == [RBF, Matern32]
    stream = [(X[i : i + 100], y[i : i + 100]) for i in range(0, 400, 100)]
    assert isinstance(GPClassifier(inference=engine, random_state=0).fit(stream).kernel_.kernel, RBF)


def test_no_search_means_units_of_each_column():
    X, y = pixels(60)
    assert not GPClassifier(optimizer=None).fit(X, y).kernel_.common_units


def test_a_search_that_continues_keeps_its_units():
    """The second table would choose other units, but lengthscales of the first fit are in those of the first."""
    model = GPClassifier(warm_start=True).fit(*pixels())
    assert model.kernel_.common_units
    X, y = pixels(loud=False)
    again = model.fit(X, y).kernel_
    assert again.common_units
    assert not GPClassifier().fit(X, y).kernel_.common_units
    assert_array_equal(again.spread, common_units(column_units(X), X).spread)


def test_several_kernels_choose_their_units():
    X, y = pixels(80)
    members = GPClassifier("auto", random_state=0).fit(X, y).members_
    assert all(member.kernel.common_units for member in members)


def test_a_regression_chooses_its_units():
    X, _ = pixels()
    for columns, common in ((slice(0, SIGNAL), True), (slice(0, N_COLUMNS), False)):
        y = (X / X.std(0))[:, columns].sum(1)
        assert GPRegressor(random_state=0).fit(X, y).kernel_.common_units == common


def test_common_units():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)) * [1.0, 2.0, 0.0, 7.0] + [0.0, 1.0, 5.0, -3.0]
    units = column_units(X)
    common = common_units(units, X)
    assert_array_equal(common.centre, units.centre)
    assert_allclose(common.spread, np.sqrt(np.mean(X[:, [0, 1, 3]].var(0))))  # the constant column does not count
    for factor in (1e-200, 1e200):
        assert_allclose(common_units(column_units(factor * X), factor * X).spread, factor * common.spread, rtol=1e-12)
    assert_array_equal(common_units(column_units(X[:1]), X[:1]).spread, np.ones(4))


def test_common_units_of_kernels():
    own, common = in_units(([0.0, 0.0], [1.0, 2.0])), in_units(([0.0, 0.0], [2.0, 2.0]))
    assert (own.common_units, common.common_units) == (False, True)
    assert not any(kernel.common_units for kernel in (RBF(), RBF() + Linear()))


def test_the_first_choice_is_the_documented_default():
    start = start_kernels(None, np.random.default_rng(0).normal(size=(20, N_COLUMNS)), np.random.default_rng(0))[0]
    assert isinstance(start, Start)
    assert default_kernel(N_COLUMNS) == "matern32"
    assert isinstance(start.kernel.kernel, Matern32)


def test_an_interruption_of_the_comparison_ends_the_fit(monkeypatch):
    """Nothing that could be a result has been learned by then."""
    X = np.random.default_rng(0).normal(size=(60, 110))
    model = GPClassifier(random_state=0)
    fit, calls = Objective.fit, []

    def interrupted_once(self, *given, **settings):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return fit(self, *given, **settings)

    monkeypatch.setattr(Objective, "fit", interrupted_once)
    with keeping_best(), pytest.raises(KeyboardInterrupt):
        model.fit(X, X[:, 0] > 0)
    assert not hasattr(model, "kernel_")
