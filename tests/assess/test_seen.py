"""Training rows are recognised in any container, and scored by leave-one-out predictions."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, make_moons
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpclass
from gpclass import GPClassifier
from gpclass.assess import fair_probabilities, suspicious_labels, trained_on
from gpclass.inference import LabelRegression
from gpclass.kernels import RBF
from gpclass.learning.streams import Batches
from gpclass.sparse import IVM, SVGP

X, Y = make_moons(60, noise=0.3, random_state=0)
NEW = np.random.default_rng(0).normal(size=(40, 2))


def fitted(engine="ep", rows=X, labels=Y, **settings):
    settings = {"calibrate": None, **settings}  # leaving out a row does not change the calibration
    clf = GPClassifier(RBF(0.5, 4.0), inference=engine, optimizer=None, random_state=0, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clf.fit(rows, labels)


def refitted(engine, i, rows=X, labels=Y):
    """Class probabilities of row i from a model of the other rows."""
    keep = np.arange(len(rows)) != i
    return fitted(engine, rows[keep], labels[keep]).predict_proba(rows[i : i + 1])[0]


EXACT = LabelRegression(noise=0.8)  # the cavities equal refits here


@pytest.mark.parametrize(("engine", "atol"), [(EXACT, 1e-9), ("ep", 0.04)])  # EP is within 0.03 of refits here
def test_fair_probabilities_are_those_of_models_without_the_row(engine, atol):
    clf = fitted(engine)
    order = np.random.default_rng(1).permutation(100)[:30]
    rows = np.concatenate([X, NEW])[order]
    judged = fair_probabilities(clf, rows)
    assert_array_equal(judged.seen, order < 60)
    assert judged.fair.all()
    truth = [refitted(engine, i) if i < 60 else clf.predict_proba(NEW[i - 60 : i - 59])[0] for i in order]
    assert_allclose(judged.p, truth, atol=atol)
    assert_allclose(judged.predicted, clf.predict_proba(rows), atol=1e-14)  # rounding depends on the alignment of memory


def test_rows_of_the_same_inputs_are_matched_by_their_label():
    """Two rows have the same inputs and different labels: leaving out one keeps the other."""
    rows, labels = np.concatenate([X, X[:5]]), np.concatenate([Y, 1 - Y[:5]])
    clf = fitted(EXACT, rows, labels)
    judged = fair_probabilities(clf, rows, labels)
    assert judged.copies == 10
    assert_allclose(judged.p, [refitted(EXACT, i, rows, labels) for i in range(65)], atol=1e-9)
    # a label that no such row had: one of the rows is left out nevertheless
    assert fair_probabilities(fitted(EXACT), X, 1 - Y).seen.all()


@pytest.mark.parametrize("steps", [(StandardScaler(),), (PCA(2),), (StandardScaler(), PCA(3))])
def test_rows_are_recognised_through_a_pipeline_in_other_company(steps):
    """Rounding of matrix products depends on the number of rows, and single precision loses digits."""
    rows, y = load_iris(return_X_y=True)
    model = make_pipeline(*steps, GPClassifier(RBF(1.0), inference="laplace", optimizer=None)).fit(rows, y)
    assert trained_on(model, rows).all()
    assert all(trained_on(model, rows[i : i + 1])[0] for i in range(0, 150, 7))
    assert trained_on(model, rows[::-3]).all()
    assert not trained_on(model, rows + 1e-3).any()


WITH_LOO = ["laplace", "ep", "kl", "nested-ep", "variational-mnl", "ivm", "sparse-mnl", "mcmc"]
WITHOUT = ["scalable-ep", "svgp", "gfitc"]


def test_single_precision_is_precise_enough():
    clf = fitted()
    assert trained_on(clf, X.astype(np.float32)).all()
    assert not trained_on(clf, X * (1 + 1e-6)).any()


@pytest.mark.parametrize("engine", [*WITH_LOO, *WITHOUT])
def test_every_engine_knows_its_rows_from_a_file_too(engine, tmp_path):
    if engine == "mcmc":
        engine = gpclass.sampling.HMC(n_draws=20, n_warmup=10)
    clf = fitted(engine)
    gpclass.save(clf, tmp_path / "m")
    for model in (clf, gpclass.load(tmp_path / "m")):
        assert_array_equal(trained_on(model, np.concatenate([X, NEW])), np.arange(100) < 60)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few draws
            judged = fair_probabilities(model, np.concatenate([X, NEW]), np.concatenate([Y, np.zeros(40, int)]))
        has_loo = engine not in WITHOUT
        assert_array_equal(judged.fair, judged.seen <= has_loo)
        if has_loo:
            assert np.abs(judged.p - judged.predicted)[:60].max() > 1e-4


def test_rows_that_come_in_a_stream_or_later_are_known():
    pieces = [(X[i : i + 7], Y[i : i + 7]) for i in range(0, 60, 7)]
    quick = SVGP(epochs=1)
    clf = GPClassifier(RBF(0.5, 4.0), inference=quick, optimizer=None, random_state=0)
    clf.fit(Batches.of(pieces))
    assert_array_equal(clf.row_fingerprints_, fitted(quick).row_fingerprints_)  # in the order of the stream
    for engine in (quick, IVM(active=20)):
        clf = fitted(engine, X[:40], Y[:40]).partial_fit(X[40:], Y[40:])
        assert_array_equal(trained_on(clf, np.concatenate([X, NEW])), np.arange(100) < 60)
        assert len(clf.row_fingerprints_) == 60


def test_after_partial_fit_rows_have_the_numbers_in_which_they_came():
    clf = fitted(IVM(active=20), X[:40], Y[:40]).partial_fit(X[40:], Y[40:])
    check = suspicious_labels(clf)
    assert_array_equal(check.label, Y[check.index])
    judged = fair_probabilities(clf, X, Y)
    assert_array_equal(np.flatnonzero(judged.fair), np.sort(check.index))  # rows that the engine dropped cannot be left out
    p = dict(zip(check.index, check.probability, strict=True))
    for i in np.flatnonzero(judged.fair):
        assert judged.p[i, Y[i]] == p[i]


def test_names_of_suspicious_rows():
    """Rows of frames are named by the index, rows of arrays by their numbers."""
    wrong = Y.copy()
    wrong[9] = 1 - wrong[9]
    by_place = suspicious_labels(fitted(labels=wrong))
    assert_array_equal(np.sort(by_place.index), np.arange(60))
    assert "name" not in by_place
    frame = pd.DataFrame(X, columns=["a", "b"], index=[f"patient {i}" for i in range(60)])
    clf = fitted(rows=frame, labels=wrong)
    named = suspicious_labels(clf, frame)
    assert named["name"].tolist() == [f"patient {row}" for row in named.index]
