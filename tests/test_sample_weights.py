"""GPClassifier with weights, repeated rows and soft labels."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier
from sklearn.model_selection import cross_validate

import gpclass
from gpclass import GPClassifier
from gpclass.assess import suspicious_labels
from gpclass.learning.rows import RowMap, distinct, merged
from gpclass.persist import load, save

rng = np.random.default_rng(11)
CANCER = load_breast_cancer()
X, Y = CANCER.data[:60, :4], np.array(["benign", "malignant"])[CANCER.target[:60]]
IRIS = load_iris()
FLOWERS, SPECIES = IRIS.data[::4], IRIS.target[::4]
SETTINGS = {"kernel": "rbf", "random_state": 0}
BINARY = ["laplace", "ep", "tap", "tap-naive", "kl", "vb", "fv", "lr"]
SEVERAL = ["laplace", "nested-ep", "independent-ep", "quadrature-ep", "mean-field-probit", "variational-mnl"]
EVERY = [(name, X, Y) for name in BINARY] + [(name, FLOWERS, SPECIES) for name in SEVERAL]
NAMES = [f"{name}-{len(np.unique(y))}" for name, _, y in EVERY]


def agree(a, b, X, tol=1e-7):
    """Equal up to the convergence of the search; the objective is the same up to rounding."""
    np.testing.assert_allclose(a.log_evidence_, b.log_evidence_, rtol=0, atol=tol)
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), rtol=0, atol=tol)


@pytest.mark.parametrize(("name", "X", "y"), EVERY, ids=NAMES)
def test_weights_are_repeated_rows(name, X, y):
    weight = rng.integers(0, 4, len(y))
    order = rng.permutation(weight.sum())
    rows = np.repeat(np.arange(len(y)), weight)[order]
    weighted = GPClassifier(inference=name, **SETTINGS).fit(X, y, sample_weight=weight)
    repeated = GPClassifier(inference=name, **SETTINGS).fit(X[rows], y[rows])
    agree(weighted, repeated, X)
    np.testing.assert_allclose(weighted.loo()[rows], repeated.loo(), rtol=0, atol=1e-7)
    # rows of weight zero are predicted from all others
    np.testing.assert_allclose(weighted.loo()[weight == 0], weighted.predict_proba(X[weight == 0]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["ep", "laplace", "kl"])
def test_equal_rows_are_merged(name):
    """Rows with equal inputs and different labels share a latent value: the same result as separate equal rows."""
    rows = np.concatenate([np.arange(40), np.arange(20)])
    labels = np.where(rng.random(60) < 0.2, np.flip(np.unique(Y))[(Y[rows] == "malignant").astype(int)], Y[rows])
    clf = GPClassifier(inference=name, optimizer=None, **SETTINGS).fit(X[rows], labels)
    assert clf.inputs_.shape == (40, 4)
    signs = np.where(labels == clf.classes_[1], 1.0, -1.0)
    apart = clf.inference_.fit(clf.kernel_(X[rows]), signs, clf.likelihood_)
    np.testing.assert_allclose(clf.log_evidence_, apart.log_evidence, rtol=0, atol=1e-8)
    loo = clf.calibration_.log_probabilities(apart.loo_log_class_probabilities())
    np.testing.assert_allclose(clf.loo(), np.exp(loo), rtol=0, atol=1e-7)


@pytest.mark.parametrize(("name", "X", "y"), [("ep", X, Y), ("nested-ep", FLOWERS, SPECIES)])
def test_one_hot_labels_are_labels(name, X, y):
    votes = pd.get_dummies(y)
    hard, soft = (GPClassifier(inference=name, **SETTINGS).fit(X, labels) for labels in (y, votes))
    np.testing.assert_array_equal(hard.classes_, soft.classes_)
    np.testing.assert_array_equal(hard.predict_proba(X), soft.predict_proba(X))
    np.testing.assert_array_equal(hard.loo(), soft.loo())


@pytest.mark.parametrize("y", [Y, SPECIES], ids=["two", "three"])
def test_votes_are_repeated_rows(y):
    X = CANCER.data[:60, :4] if len(y) == 60 else FLOWERS
    classes, codes = np.unique(y, return_inverse=True)
    votes = np.eye(len(classes), dtype=int)[codes] + rng.integers(0, 2, (len(y), len(classes)))
    rows, labels = (np.repeat(part, votes.ravel()) for part in np.indices(votes.shape).reshape(2, -1))
    name = "ep" if len(classes) == 2 else "laplace"
    soft = GPClassifier(inference=name, **SETTINGS).fit(X, votes)
    repeated = GPClassifier(inference=name, **SETTINGS).fit(X[rows], labels)
    agree(soft, repeated, X)
    assert soft.inputs_.shape == X.shape
    # the average over the votes of a row, each left out in turn
    average = np.array([repeated.loo()[rows == i].mean(0) for i in range(len(y))])
    np.testing.assert_allclose(soft.loo(), average, rtol=0, atol=1e-7)


def test_probabilities_as_labels_pull_predictions_towards_them():
    certain = np.eye(3)[SPECIES]
    doubtful = 0.6 * certain + 0.4 / 3
    sure, unsure = (GPClassifier(**SETTINGS).fit(FLOWERS, y).predict_proba(FLOWERS) for y in (certain, doubtful))
    assert np.max(sure, axis=1).mean() > np.max(unsure, axis=1).mean() + 0.1
    assert np.max(unsure, axis=1).mean() < 0.75  # the labels have 0.73


def test_class_weight():
    counts = np.array([np.sum(label == Y) for label in np.unique(Y)])
    balanced = GPClassifier(class_weight="balanced", **SETTINGS).fit(X, Y)
    factor = dict(zip(np.unique(Y).tolist(), len(Y) / (2 * counts), strict=True))
    by_dict = GPClassifier(class_weight=factor, **SETTINGS).fit(X, Y)
    by_row = GPClassifier(**SETTINGS).fit(X, Y, sample_weight=np.array([factor[label] for label in Y]))
    for other in (by_dict, by_row):
        agree(balanced, other, X)
    rare = np.unique(Y)[np.argmin(counts)]
    column = balanced.classes_.tolist().index(rare)
    plain = GPClassifier(**SETTINGS).fit(X, Y)
    assert balanced.predict_proba(X)[:, column].mean() > plain.predict_proba(X)[:, column].mean()
    # zero for a class leaves its rows out, and soft labels have factors by column
    only = GPClassifier(class_weight={1: 2.0}, **SETTINGS).fit(FLOWERS, SPECIES)
    soft = GPClassifier(class_weight={1: 2.0}, **SETTINGS).fit(FLOWERS, np.eye(3)[SPECIES])
    agree(only, soft, FLOWERS)


def test_all_weights_one_change_nothing():
    plain, weighted = GPClassifier(**SETTINGS).fit(X, Y), GPClassifier(**SETTINGS).fit(X, Y, sample_weight=np.ones(60))
    agree(plain, weighted, X)
    np.testing.assert_allclose(plain.loo(), weighted.loo(), atol=1e-7)


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        (-np.ones(60), "row 1 .* is -1"), (np.where(np.arange(60) == 3, np.nan, 1.0), "row 4 .* is nan"),
        (np.zeros(60), "all weights are zero"),
        (np.ones(59), r"expected \(60,\)"), (np.ones((60, 2)), "1D"), (["a"] * 60, "must be numbers"),
        (np.full(60, np.inf), "finite"),
    ],
)  # fmt: skip
def test_bad_weights(weight, words):
    with pytest.raises(ValueError, match=words):
        GPClassifier(**SETTINGS).fit(X, Y, sample_weight=weight)


@pytest.mark.parametrize(
    ("votes", "words"),
    [
        (np.eye(2)[np.arange(60) % 2] - 0.1, "row 1, column 2"), (np.zeros((60, 2)), "row 1 of y .* no votes"),
        (np.column_stack([np.ones(60), np.zeros(60)]), "class 1 has no votes"),
        (np.full((60, 2), np.nan), "row 1, column 1"),
        (np.full((60, 2), "a"), "must be numbers"), (np.ones((59, 2)), "inconsistent numbers of samples"),
    ],
)  # fmt: skip
def test_bad_soft_labels(votes, words):
    with pytest.raises(ValueError, match=words):
        GPClassifier(**SETTINGS).fit(X, votes)


def test_weights_that_sum_to_one_warn():
    with pytest.warns(UserWarning, match="60 rows sum to 1, .* count as 1 observations") as caught:
        GPClassifier(optimizer=None, **SETTINGS).fit(X, Y, sample_weight=np.full(60, 1 / 60))
    assert caught[0].filename == __file__


def test_bad_class_weights():
    for given, words in (
        ("equal", "'balanced' or a dict"),
        ({"b": 1}, "'b', which is not a label"),
        ({"benign": -1}, "not negative"),
    ):
        with pytest.raises(ValueError, match=words):
            GPClassifier(class_weight=given).fit(X, Y)


def test_stacks_and_integration_use_weights():
    weight = rng.integers(1, 3, 60)
    rows = np.repeat(np.arange(60), weight)
    for settings in ({"kernel": "auto"}, {"kernel": "rbf", "hyper": "integrate"}):
        weighted = GPClassifier(random_state=0, **settings).fit(X, Y, sample_weight=weight)
        repeated = GPClassifier(random_state=0, **settings).fit(X[rows], Y[rows])
        np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)
        np.testing.assert_allclose(weighted.loo()[rows], repeated.loo(), atol=1e-6)


@pytest.mark.filterwarnings("ignore:the weights of")  # AdaBoost's sum to one
def test_metadata_routing_and_ensembles():
    clf = GPClassifier(optimizer=None, **SETTINGS)
    boosted = AdaBoostClassifier(clf, n_estimators=3, random_state=0).fit(X, Y)
    assert boosted.score(X, Y) > 0.8
    assert BaggingClassifier(clf, 3, random_state=0).fit(X, Y, sample_weight=np.ones(60)).score(X, Y) > 0.8
    import sklearn

    with sklearn.config_context(enable_metadata_routing=True):
        routed = clone(clf).set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scores = cross_validate(routed, X, Y, params={"sample_weight": np.ones(60)}, cv=3)
    assert np.all(scores["test_score"] > 0.7)


def test_files_and_label_checks(tmp_path):
    weight = rng.integers(0, 3, 60)
    votes = np.column_stack([Y == "benign", Y == "malignant"]) + 0.25
    for clf in (GPClassifier(**SETTINGS).fit(X, Y, sample_weight=weight), GPClassifier(**SETTINGS).fit(X, votes)):
        save(clf, tmp_path / "model")
        back = load(tmp_path / "model")
        np.testing.assert_allclose(back.predict_proba(X), clf.predict_proba(X), rtol=0, atol=1e-12)
        np.testing.assert_allclose(back.loo(), clf.loo(), rtol=0, atol=1e-12)
        np.testing.assert_allclose(
            back.log_evidence(eval_gradient=True)[1], clf.log_evidence(eval_gradient=True)[1], atol=1e-6
        )
        assert suspicious_labels(clf).index.max() < 60


def test_rows_and_observations():
    inputs = np.array([[1.0, 0.0], [2.0, 1.0], [1.0, -0.0], [2.0, 1.0], [3.0, 0.0]])
    number, first = distinct(inputs)
    assert np.array_equal(inputs[first][number], inputs)
    assert sorted(first.tolist()) == [0, 1, 4]
    data = merged(inputs, np.array([1, 0, 1, 1, 0]), np.array([1.0, 2.0, 0.5, 1.0, 0.0]))
    found = {(*data.X[p].tolist(), c): w for p, c, w in zip(data.place, data.codes, data.weight, strict=True)}
    assert found == {(1.0, 0.0, 1): 1.5, (2.0, 1.0, 0): 2.0, (2.0, 1.0, 1): 1.0}
    rows = data.rows
    assert isinstance(rows, RowMap)
    main = rows.main
    assert main[0] == main[2]
    assert main[4] == -1
    assert len({main[0], main[1], main[3]}) == 3
    assert sorted(rows.first_rows().tolist()) == [0, 1, 3]
    assert rows.unused.tolist() == [[3.0, 0.0]]
    separate = data.separate()
    assert separate.place is None
    np.testing.assert_array_equal(separate.X[main[[0, 1, 2, 3]]], inputs[:4])
    assert merged(inputs[[0, 1, 4]], np.array([1, 0, 1]), None).weight is None


def test_weights_are_refused_by_engines_without_them():
    class Plain(gpclass.inference.EP):
        weights = "none"

    with pytest.raises(ValueError, match=r"Plain does not support weights.*ep"):
        GPClassifier(inference=Plain()).fit(X, Y, sample_weight=np.ones(60))
    assert GPClassifier(inference=Plain(), optimizer=None).fit(np.repeat(X, 2, axis=0), np.repeat(Y, 2)).inputs_.shape == (
        120,
        4,
    )


@pytest.mark.parametrize("name", ["ivm", "scalable-ep", "svgp"])
def test_more_rows_with_weights(name):
    """Whole weights of further rows equal repeated rows, for the same first call and one step."""
    engine = gpclass.sparse.IVM(active=30) if name == "ivm" else name
    settings = {"kernel": "rbf", "optimizer": None, "random_state": 0, "inference": engine}
    first, more = slice(0, 40), np.arange(40, 60)
    weight = np.where(np.arange(20) % 5 == 0, 0.0, 1.0)
    a = GPClassifier(**settings).partial_fit(X[first], Y[first])
    b = GPClassifier(**settings).partial_fit(X[first], Y[first])
    a.partial_fit(X[more], Y[more], sample_weight=weight)
    b.partial_fit(X[more][weight > 0], Y[more][weight > 0])
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), rtol=0, atol=1e-8)
    heavy = GPClassifier(**settings).partial_fit(X[first], Y[first])
    heavy.partial_fit(X[more], Y[more], sample_weight=np.full(20, 3.0))
    assert np.abs(heavy.predict_proba(X) - a.predict_proba(X)).max() > 1e-3
    with pytest.raises(ValueError, match="balanced"):
        clone(a).set_params(class_weight="balanced").partial_fit(X[first], Y[first]).partial_fit(X[more], Y[more])


def test_class_weights_of_streams():
    """A stream with class weights equals arrays with them: the same rows in the same order of batches."""
    engine = gpclass.sparse.SVGP(n_inducing=10, batch_size=20, epochs=2)
    pairs = [(X[i : i + 20], Y[i : i + 20]) for i in range(0, 60, 20)]
    settings = {"kernel": "rbf", "inference": engine, "random_state": 0, "optimizer": None}
    plain, by_dict, balanced = (
        GPClassifier(class_weight=given, **settings).fit(pairs).predict_proba(X)[:, 1].mean()
        for given in (None, {"malignant": 5.0}, "balanced")
    )
    assert by_dict > plain + 0.05
    assert balanced != plain
    with pytest.raises(ValueError, match="needs arrays"):
        GPClassifier(**settings).fit(pairs, sample_weight=np.ones(60))
