"""Assessments are returned as small pandas tables that print well, also in notebooks."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, make_moons
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier
from gpclass.assess import brier, compare, nlpd, scores, suggest, summary, suspicious_labels
from gpclass.assess.folds import missing_classes, splits
from gpclass.inference import Laplace
from gpclass.kernels import RBF
from gpclass.likelihoods import Logit
from gpclass.progress import Listener, listening
from gpclass.sampling import HMC, audit

X, Y = make_moons(60, noise=0.25, random_state=0)


@pytest.fixture(scope="module")
def clf():
    return GPClassifier(kernel=RBF(0.5, 4.0), optimizer=None).fit(X[:40], Y[:40])


@pytest.fixture(scope="module")
def found(clf):
    return scores(Y[40:], clf.predict_proba(X[40:]))


def test_scores_are_numbers_by_name(clf, found):
    p = clf.predict_proba(X[40:])
    assert found["nlpd"] == found.nlpd == nlpd(Y[40:], p)
    assert isinstance(found["brier"], float)
    assert found.to_dict()["brier"] == {**found}["brier"] == brier(Y[40:], p)
    assert "error_rate" in found


def test_scores_explain_themselves(found):
    lines = str(found).splitlines()
    assert [line.split()[0] for line in lines] == list(found.index)
    assert repr(found) == str(found)
    assert f"nlpd                          {found.nlpd:.4f}  (smaller is better)  mean negative log probability" in lines[1]
    assert len({line.index("is better)") for line in lines if "smaller" in line}) == 1  # aligned
    assert found._repr_html_().count("<tr") == 1 + len(found)
    assert f"<td>{found.nlpd:.4f}</td>" in found._repr_html_()
    assert not (found.table[["better", "about"]] == "").any(axis=None)  # each score has an explanation
    ordered = scores([0, 1, 2], np.eye(3), ordered=True)
    assert "cumulative" in ordered.table.loc["ranked_probability_score", "about"]


def test_scores_combine_like_other_series(found):
    assert type(found - found) is pd.Series
    assert_allclose(found - found, 0)
    side_by_side = pd.DataFrame({"one": found, "other": found})
    assert side_by_side.loc["nlpd", "other"] == found.nlpd
    for again in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found), found.copy()):
        assert again.to_dict() == found.to_dict()


def test_suggested_rows_have_their_score_and_prediction(clf):
    table = suggest(clf, X[40:], 5, "entropy")
    p = clf.predict_proba(X[40:][table.index])
    assert list(table.columns) == ["score", "predicted", "probability"]
    assert table.index.name == "row"
    assert_allclose(table["score"], -np.sum(p * np.log(p), axis=1))
    assert_allclose(table["probability"], p.max(axis=1))
    assert_array_equal(table["predicted"], clf.predict(X[40:][table.index]))
    frame = pd.DataFrame(X[40:], columns=["a", "b"], index=[f"row {i}" for i in range(20)])
    with pytest.warns(UserWarning, match="feature names"):
        named = suggest(clf, frame, 5, "entropy")
    assert_array_equal(named["name"], frame.iloc[table.index].index)
    assert_array_equal(frame.loc[named["name"]], frame.iloc[named.index])


def test_suspicious_labels_print_as_a_table(clf):
    shown = suspicious_labels(clf).head(3)
    assert len(str(shown).splitlines()) == 5  # header, name of the index and three rows
    assert "suggested_probability" in shown._repr_html_()


class Phases(Listener):
    """Record the names of the fits."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def enter(self, name, *settings, **more):
        super().enter(name, *settings, **more)
        self.seen += [name] if name.startswith("fit ") else []


def test_compare_is_cross_validation_of_each_engine():
    model = make_pipeline(StandardScaler(), GPClassifier(kernel=RBF(1.0, 4.0), optimizer=None))
    told = Phases()
    with listening(told):
        table = compare(model, X, Y, ["laplace", "ep", "vb"], folds=3, random_state=1)
    assert told.seen[0] == "fit 1 of 12, laplace on all rows"
    assert told.seen[-1] == "fit 12 of 12, vb, fold 3 of 3"
    assert table["kfold_nlpd"].is_monotonic_increasing
    assert table.index.name == "engine"
    own = make_pipeline(StandardScaler(), GPClassifier(kernel=RBF(1.0, 4.0), optimizer=None, inference="laplace"))
    p = cross_val_predict(own, X, Y, cv=splits(Y, 3, 1), method="predict_proba")
    assert_allclose(table.loc["laplace", "kfold_nlpd"], nlpd(Y, p), rtol=1e-10)
    whole = own.fit(X, Y)
    assert_allclose(table.loc["laplace", "log_evidence"], whole[-1].log_evidence_, rtol=1e-10)
    assert_allclose(table.loc["laplace", "loo_nlpd"], nlpd(Y, whole[-1].loo()), rtol=1e-10)
    assert (table["seconds"] > 0).all()


class Grumbling(GPClassifier):
    """Warns of its engine, and of classes with one row, as all classifiers do."""

    def fit(self, X, y):
        super().fit(X, y)
        if self.inference == "nested-ep":
            for text in ("too hot", "too cold"):
                warnings.warn(text, UserWarning, stacklevel=1)
        return self


def test_warnings_of_all_engines_are_given_once_with_the_folds_that_they_concern():
    """The notes are left to warnings of single engines."""
    rows, y = np.array([*X[:40], [3, 3], [3, 4]]), np.array([*Y[:40], 2, 2])
    model = Grumbling(kernel=RBF(1.0, 16.0), optimizer=None)
    with pytest.warns(UserWarning, match="in 2 of 4 folds: class 2 has only one row") as caught:
        table = compare(model, rows, y, ["laplace", "nested-ep"], folds=4, random_state=2)
    assert sum("only one row" in str(one.message) for one in caught) == 1
    assert table.loc["laplace", "note"] == ""
    assert table.loc["nested-ep", "note"] == "too hot (1 other warning)"
    alone = compare(model, rows, y, ["laplace"], folds=4, random_state=2)
    assert alone.loc["laplace", "note"].startswith("in 2 of 4 folds: class 2 has only one row")


def test_classes_that_some_fold_does_not_train_on():
    y = np.array(["a"] * 10 + ["b"] + ["c"] * 9)
    assert missing_classes(y, 5, 0) == ["b"]
    assert missing_classes(np.repeat([0, 1], 10), 5, 0) == []


def test_compare_names_what_failed_and_chooses_engines():
    iris, kinds = load_iris(return_X_y=True)
    rows = slice(None, None, 5)
    quick = GPClassifier(kernel=RBF(2.0, 9.0), optimizer=None)
    table = compare(quick, pd.DataFrame(iris[rows]), kinds[rows], ["ep", "laplace"], folds=2)
    assert list(table.index) == ["laplace", "ep"]
    assert table.loc["ep", "note"].startswith("failed: Only binary classification")
    assert table.loc["ep"].drop("note").isna().all()
    default = compare(quick, iris[rows], kinds[rows], folds=2)
    assert {"laplace", "nested-ep"} <= set(default.index)
    with pytest.raises(ValueError, match="at least two folds and two rows; there are 1 and"):
        compare(quick, iris[rows], kinds[rows], ["laplace"], folds=1)


def test_an_audit_is_text_table_and_page(clf):
    K = clf.kernel_(X[:15])
    fit = Laplace().fit(K, np.where(Y[:15] == 1, 1.0, -1.0), Logit())
    result = audit(fit, sampler=HMC(n_draws=50, n_warmup=50, random_state=0), n_temperatures=50)
    assert result.table.equals(result.to_frame())
    assert result.table.loc["log evidence", "value"] == fit.log_evidence
    page = result._repr_html_()
    assert page.startswith(f"<p>{repr(result).splitlines()[0]}</p>")
    assert page.count("<tr") == 2 + len(result.table)  # two lines of header
    assert "nan" not in page.lower()


def test_a_summary_has_what_was_learned(clf):
    told = summary(make_pipeline(StandardScaler(), GPClassifier()).fit(X[:40], Y[:40]))
    assert (told["engine"], told["likelihood"], told["kernels"]) == ("EP", "Probit", {})
    assert set(told["calibration"]) == {"temperature", "noise", "loo_nlpd_before", "loo_nlpd_after"}
    known = summary(clf)
    assert known["log_evidence"] == clf.log_evidence_
    assert_allclose(known["loo_nlpd"], nlpd(Y[:40], clf.loo()))
    stacked = GPClassifier(kernel="auto", max_iter=3).fit(X[:40], Y[:40])
    assert_allclose(sum(summary(stacked)["kernels"].values()), 1)
