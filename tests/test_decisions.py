"""Scores, decisions under costs, importances of columns, and parallel processes."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.feature_selection import SelectFromModel
from sklearn.metrics import accuracy_score, roc_auc_score

from gpclass import GPClassifier
from gpclass.kernels import Linear
from gpclass.numerics.columns import column_spread

X, Y = load_breast_cancer(return_X_y=True)
FEW = np.arange(80)
CLF = GPClassifier(kernel="rbf", random_state=0).fit(X[FEW, :5], Y[FEW])
FLOWERS, SPECIES = load_iris(return_X_y=True)
NAMED = np.array(["a", "b", "c"])[SPECIES]
SEVERAL = GPClassifier(kernel="rbf", random_state=0).fit(FLOWERS[::3], NAMED[::3])


def test_decision_function_is_the_log_odds():
    scores, p = CLF.decision_function(X[:, :5]), CLF.predict_proba(X[:, :5])
    np.testing.assert_allclose(scores, np.log(p[:, 1]) - np.log(p[:, 0]), rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(CLF.classes_[(scores > 0).astype(int)], CLF.predict(X[:, :5]))
    np.testing.assert_allclose(roc_auc_score(Y, scores), roc_auc_score(Y, p[:, 1]), atol=1e-12)
    assert SEVERAL.decision_function(FLOWERS).shape == (150, 3)
    np.testing.assert_array_equal(SEVERAL.classes_[SEVERAL.decision_function(FLOWERS).argmax(1)], SEVERAL.predict(FLOWERS))


def test_decisions_minimise_the_expected_cost():
    """By hand: the expected cost of each decision, and of none."""
    p = SEVERAL.predict_proba(FLOWERS)
    cost = np.array([[0.0, 1.0, 5.0], [2.0, 0.0, 1.0], [1.0, 8.0, 0.0]])
    best = [min(range(3), key=lambda j, row=row: sum(row[i] * cost[i, j] for i in range(3))) for row in p]
    decided = SEVERAL.decide(FLOWERS, cost)
    np.testing.assert_array_equal(decided, SEVERAL.classes_[best])
    np.testing.assert_array_equal(SEVERAL.decide(FLOWERS), SEVERAL.predict(FLOWERS))
    sure = SEVERAL.decide(FLOWERS, cost, abstain=0.3)
    for row, j, label in zip(p, best, sure, strict=True):
        assert label == (None if row @ cost[:, j] > 0.3 else SEVERAL.classes_[j])
    assert 0 < sum(label is None for label in sure) < 150
    cost = 1 - np.eye(3)
    cost[2, 1] = 8.0
    np.testing.assert_array_equal(SEVERAL.decide(FLOWERS, {("c", "b"): 8.0}), SEVERAL.decide(FLOWERS, cost))


@pytest.mark.parametrize(
    ("cost", "abstain", "words"),
    [
        (np.ones((2, 2)), None, r"shape \(3, 3\)"), ({("a", "x"): 1}, None, "not a pair"), ({"a": 1}, None, "not a pair"),
        (np.full((3, 3), np.nan), None, "finite"), (None, -1.0, "not negative"), (None, np.nan, "not negative"),
        (None, "a", "finite number that is not negative, but is 'a'"),
    ],
)  # fmt: skip
def test_bad_costs(cost, abstain, words):
    with pytest.raises(ValueError, match=words):
        SEVERAL.decide(FLOWERS, cost, abstain)


def test_importances_find_the_columns_that_matter():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(120, 5)) * np.array([1.0, 100.0, 1.0, 1e-3, 1.0])
    inputs[:, 4] = 3.0
    labels = inputs[:, 0] + inputs[:, 1] / 100 > 0
    for kernel in (None, "rbf", "linear"):
        values = GPClassifier(kernel, random_state=0).fit(inputs, labels).feature_importances_
        np.testing.assert_allclose(values.sum(), 1.0)
        assert values[:2].min() > 2 * values[2:].max()
        assert values[4] == 0
    chosen = SelectFromModel(GPClassifier("rbf-ard", random_state=0)).fit(inputs, labels).get_support()
    assert chosen.tolist() == [True, True, False, False, False]


def test_importances_of_a_linear_model_are_its_slopes():
    """With a linear kernel the latent mean is linear: the importance is |weight| times the spread of the column."""
    clf = GPClassifier(Linear(), optimizer=None).fit(X[FEW, :4], Y[FEW])
    weights = np.array([clf.latent(X[:1, :4] + e)[0] - clf.latent(X[:1, :4])[0] for e in np.eye(4)])[:, 0]
    wanted = np.abs(weights) * column_spread(clf.inputs_)
    np.testing.assert_allclose(clf.feature_importances_, wanted / wanted.sum(), rtol=1e-6)


def test_importances_of_a_frame_are_by_column():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"colour": rng.choice(["red", "green", "blue"], 90), "size": rng.normal(size=90)})
    clf = GPClassifier(random_state=0).fit(frame, frame["colour"] == "red")
    assert clf.feature_importances_.shape == (2,)
    assert clf.feature_importances_[0] > 0.8
    with pytest.raises(AttributeError, match="columns of numbers"):
        _ = GPClassifier("precomputed").fit(np.eye(10) + 0.1, np.arange(10) % 2).feature_importances_


def test_score_takes_weights():
    weight = np.arange(80)
    assert CLF.score(X[FEW, :5], Y[FEW], weight) == accuracy_score(Y[FEW], CLF.predict(X[FEW, :5]), sample_weight=weight)


def test_processes_do_not_change_the_result():
    some = FEW[::2]
    for settings in ({"kernel": "auto"}, {"kernel": "rbf", "n_restarts": 1}):
        one = GPClassifier(random_state=0, **settings)
        two = clone(one).set_params(n_jobs=2)
        a, b = (clf.fit(X[some, :3], Y[some]).predict_proba(X[:, :3]) for clf in (one, two))
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
