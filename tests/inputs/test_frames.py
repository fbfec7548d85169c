"""Data frames with columns of all kinds, given to estimators directly, against the encoder in a pipeline."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from gpclass import GPClassifier, GPRegressor
from gpclass.assess import far_rows, suspicious_labels, trained_on
from gpclass.assess.models import input_names
from gpclass.inputs.frames import as_frame
from gpclass.persist import load, save
from gpclass.sampling import HMC, audit
from gpclass.tables import TableEncoder, TableError, UnseenLevelWarning

rng = np.random.default_rng(11)
N = 60
COLOURS = rng.choice(["red", "green", "blue"], N)
FRAME = pd.DataFrame(
    {
        "age": rng.integers(20, 80, N),
        "dose": rng.normal(size=N),
        "colour": COLOURS,
        "grade": pd.Categorical(rng.choice(["low", "high"], N), categories=["low", "high", "never"]),
        "smoker": rng.random(N) < 0.5,
        "visits": pd.array(rng.integers(0, 9, N), dtype="Int64"),
    }
)
y = np.where((COLOURS == "red") | (FRAME["dose"] > 1), "ill", "well")


def with_gaps():
    frame = FRAME.copy()
    frame.loc[[3, 8], "dose"] = np.nan
    frame["visits"] = frame["visits"].mask(np.arange(N) % 10 == 0)
    frame.loc[5, "colour"] = None
    return frame


def test_a_frame_is_encoded_as_by_the_encoder():
    clf = GPClassifier().fit(FRAME, y)
    pipeline = make_pipeline(TableEncoder(), GPClassifier()).fit(FRAME, y)
    assert_allclose(clf.predict_proba(FRAME), pipeline.predict_proba(FRAME), rtol=1e-12)
    assert clf.n_features_in_ == 6
    assert clf.feature_names_in_.tolist() == list(FRAME.columns)
    assert clf.encoder_.get_feature_names_out().tolist() == [
        *("age", "dose", "colour=blue", "colour=green", "colour=red", "grade=high", "grade=low", "smoker", "visits")
    ]
    assert len(clf.kernel_.lengthscale) == clf.inputs_.shape[1] == 9


def test_regression_and_cross_validation():
    target = FRAME["dose"] + 2.0 * (FRAME["colour"] == "red")
    inputs = FRAME.drop(columns="dose")
    model = GPRegressor().fit(inputs, target)
    assert_allclose(model.predict(inputs), make_pipeline(TableEncoder(), GPRegressor()).fit(inputs, target).predict(inputs))
    assert np.mean(cross_val_score(GPClassifier(), FRAME, y, cv=3)) > 0.8


def test_numbers_are_not_encoded():
    """Frames of numbers, also of numbers as objects, give the same results as arrays."""
    numbers = FRAME[["age", "dose"]]
    expected = GPClassifier().fit(numbers.to_numpy(), y).predict_proba(numbers.to_numpy())
    for frame in (numbers, numbers.astype(object), numbers.assign(age=numbers["age"].astype("Int64"))):
        clf = GPClassifier().fit(frame, y)
        assert clf.encoder_ is None
        assert_allclose(clf.predict_proba(frame), expected, rtol=1e-12)


def test_columns_may_come_in_another_order():
    clf = GPClassifier(optimizer=None).fit(FRAME, y)
    other = FRAME[FRAME.columns[::-1]].assign(more=1)
    assert_allclose(clf.predict_proba(other), clf.predict_proba(FRAME), rtol=1e-12)


@pytest.mark.parametrize("more", [{}, {"t": np.where(np.arange(40) % 2, "a", "b")}], ids=["numbers", "text"])
def test_names_that_occur_twice_are_refused(more):
    X = pd.DataFrame({"x": np.linspace(-1, 1, 40), "z": np.linspace(2, 1, 40) ** 2, **more})
    y = X["x"] > 0
    twice = X.set_axis(["x", "x", *more], axis=1)
    with pytest.raises(TableError, match="more than one column called 'x'"):
        GPClassifier().fit(twice, y)
    model = GPClassifier(optimizer=None).fit(X, y)
    with pytest.raises(TableError, match="more than one column called 'x'"):
        model.predict(twice)


def test_unseen_levels_warn():
    clf = GPClassifier(optimizer=None).fit(FRAME, y)
    with pytest.warns(UnseenLevelWarning, match="'purple'"):
        clf.predict(FRAME.assign(colour="purple"))


def test_arrays_do_not_fit_a_model_of_frames():
    clf = GPClassifier(optimizer=None).fit(FRAME, y)
    with pytest.raises(TypeError, match="must be a pandas DataFrame"):
        clf.predict(FRAME.to_numpy())
    with pytest.raises(TableError, match="lacks column 'age'"):
        clf.predict(FRAME.drop(columns="age"))


def test_another_fit_forgets_the_encoder():
    clf = GPClassifier(optimizer=None).fit(FRAME, y)
    clf.fit(FRAME[["age", "dose"]], y)
    assert clf.encoder_ is None
    assert clf.n_features_in_ == 2


# missing values -------------------------------------------------------------------------------------------------------


def test_missing_values_are_an_error_with_advice():
    with pytest.raises(ValueError, match=r"row 0, column 'visits' is empty.*missing='indicator'"):
        GPClassifier().fit(with_gaps(), y)
    with pytest.raises(ValueError, match=r"Input X contains NaN.*missing='indicator'"):
        GPClassifier().fit(with_gaps()[["dose"]].to_numpy(), y)
    with pytest.raises(ValueError, match="missing must be one of"):
        GPClassifier(missing="drop").fit(FRAME, y)


NUMBERS = FRAME[["age", "dose"]].astype(float)


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        (np.nan, "row 4, column 'dose' is empty or NA; fill the cells, remove the rows, or fit the model again"),
        (None, "row 4, column 'dose' is empty or NA; fill the cells"),
        (np.inf, "row 4, column 'dose' is inf"),
        ("abc", "column 'dose' had numbers in the training data, but row 4 has 'abc'"),
        (pd.Timestamp("2020-01-01"), "row 4 has Timestamp"),
    ],
)
def test_cells_of_later_frames_of_numbers_are_named(cell, told):
    later = NUMBERS.astype(object)
    later.loc[4, "dose"] = cell
    for model in (GPClassifier("rbf", inference="ivm", optimizer=None), GPRegressor("rbf", optimizer=None)):
        model.fit(NUMBERS, y if isinstance(model, GPClassifier) else FRAME["dose"])
        with pytest.raises(TableError, match=told):
            model.predict(later)
    model = GPClassifier("rbf", inference="ivm", optimizer=None).fit(NUMBERS, y)
    with pytest.raises(TableError, match=told):
        model.partial_fit(later, y)


def test_other_columns_of_a_later_frame_are_told_before_its_cells():
    model = GPClassifier("rbf", optimizer=None).fit(NUMBERS, y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(NUMBERS.assign(dose=np.nan)[["dose", "age"]])
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(NUMBERS.assign(dose=np.nan)[["dose"]])


@pytest.mark.parametrize(
    ("write", "code"),
    [
        (lambda x: f"{x:.3f}".replace(".", ","), "X['dose'].str.replace(',', '.').astype(float)"),
        (lambda x: f"{2e6 + 1e4 * x:,.2f}", "X['dose'].str.replace(',', '', regex=True).astype(float)"),
        (lambda x: f"{8e4 + 1e4 * x:,.0f}", "X['dose'].str.replace(',', '', regex=True).astype(float)  # if 1,200 is 1200"),
        (
            lambda x: f"{2e6 + 1e4 * x:,.2f}".replace(",", " ").replace(".", ","),
            "X['dose'].str.replace('[ \\xa0\\u2009\\u202f]', '', regex=True).str.replace(',', '.').astype(float)",
        ),
    ],
)
def test_numbers_that_are_text_in_a_frame_have_advice_for_frames(write, code):
    """It is code that gives the numbers; there may be no file to be read in another way."""
    frame = NUMBERS.assign(dose=NUMBERS["dose"].map(write))
    with pytest.raises(TableError) as caught:
        GPClassifier().fit(frame, y)
    assert str(caught.value).endswith(f"correct the cells, or use {code}")
    read = eval(code, {"X": frame})
    assert np.corrcoef(read, NUMBERS["dose"])[0, 1] > 0.999
    model = GPClassifier("rbf", optimizer=None).fit(NUMBERS, y)
    with pytest.raises(TableError, match="correct the cells, or use X"):
        model.predict(frame)


def test_errors_are_not_their_own_causes():
    """Dask's workers follow the causes of an error to their end."""
    model, gap = GPClassifier("rbf", optimizer=None).fit(NUMBERS, y), NUMBERS.copy()
    gap.loc[4, "dose"] = np.nan
    for call in (lambda: model.predict(gap), lambda: GPClassifier().fit(gap, y)):
        with pytest.raises(TableError, match="is empty or NA") as caught:
            call()
        assert caught.value.__cause__ is not caught.value


def test_text_among_numbers_of_a_frame_has_advice_for_frames():
    frame = NUMBERS.astype(object)
    frame.loc[4, "dose"] = "abc"
    code = "X.replace({'dose': ['abc']}, numpy.nan)"
    with pytest.raises(TableError) as caught:
        GPClassifier().fit(frame, y)
    assert str(caught.value) == f"column 'dose' is mostly numbers, but row 4 has 'abc'; correct the cells, or use {code}"
    assert [problem.python for problem in caught.value.problems] == [code]
    several = frame.assign(t=[f"name {k}" for k in range(N)])
    with pytest.raises(TableError, match="has 2 problems") as caught:
        GPClassifier().fit(several, y)
    assert f"use {code}" in str(caught.value)


def test_indicators_mark_missing_values():
    frame = with_gaps()
    encoder = TableEncoder(impute="indicator").fit(frame)
    rows = pd.DataFrame(encoder.transform(frame), columns=encoder.get_feature_names_out())
    assert [name for name in rows.columns if name.endswith(" missing")] == [
        f"{c} missing" for c in ("dose", "colour", "visits")
    ]
    for name in ("dose", "colour", "visits"):
        assert_allclose(rows[f"{name} missing"], frame[name].isna())
    assert_allclose(rows["dose"], frame["dose"].fillna(frame["dose"].median()))
    assert rows.loc[5, ["colour=blue", "colour=green", "colour=red"]].sum() == 0
    assert encoder.columns_[1].width == 2


@pytest.mark.parametrize("missing", ["indicator", "median"])
def test_models_with_missing_values(missing):
    clf = GPClassifier(missing=missing).fit(with_gaps(), y)
    pipeline = make_pipeline(TableEncoder(impute=missing), GPClassifier()).fit(with_gaps(), y)
    assert_allclose(clf.predict_proba(with_gaps()), pipeline.predict_proba(with_gaps()), rtol=1e-12)


def test_a_missing_value_can_be_informative():
    gone = np.arange(N) % 2 == 0
    frame = pd.DataFrame({"x": np.where(gone, np.nan, rng.normal(size=N))})
    assert GPClassifier(missing="indicator").fit(frame, gone).score(frame, gone) == 1.0


def test_arrays_with_missing_values():
    X = with_gaps()[["age", "dose"]].to_numpy()
    clf = GPClassifier(missing="indicator").fit(X, y)
    assert clf.inputs_.shape == (N, 3)
    assert clf.n_features_in_ == 2
    assert not hasattr(clf, "feature_names_in_")
    assert clf.predict(X).shape == (N,)
    assert GPClassifier(missing="indicator").__sklearn_tags__().input_tags.allow_nan
    assert not GPClassifier().__sklearn_tags__().input_tags.allow_nan


def test_values_that_are_missing_only_later_warn():
    clf = GPClassifier(missing="indicator", optimizer=None).fit(FRAME, y)
    with pytest.warns(UnseenLevelWarning, match="'dose' is empty in 2 of 60 rows, but in none of the training"):
        clf.predict(FRAME.assign(dose=with_gaps()["dose"]))
    X, gaps = FRAME[["age", "dose"]].to_numpy(), with_gaps()[["age", "dose"]].to_numpy()
    clf = GPClassifier(missing="median", optimizer=None).fit(X, y)
    filled = np.where(np.isnan(gaps), np.median(X, axis=0), gaps)
    assert_allclose(clf.predict_proba(gaps), clf.predict_proba(filled), rtol=1e-12)


def test_columns_of_arrays_are_called_by_their_place():
    assert as_frame(np.empty((0, 2))).columns.tolist() == ["x0", "x1"]  # a partition may have no rows
    X = FRAME[["age", "dose"]].to_numpy(dtype=float)
    X[3, 1] = 1e200
    with pytest.raises(TableError, match=r"row 3, column 'x1' is 1e\+200"):
        GPClassifier(missing="median").fit(X, y)


def test_text_in_arrays_is_refused_with_advice():
    for missing in ("error", "indicator"):
        with pytest.raises(ValueError, match="pass a pandas DataFrame"):
            GPClassifier(missing=missing).fit(FRAME[["colour"]].to_numpy(), y)


# what comes after -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["error", "indicator"])
def test_models_of_frames_are_saved(missing, tmp_path):
    frame = FRAME if missing == "error" else with_gaps()
    clf = GPClassifier(missing=missing, optimizer=None).fit(frame, y)
    save(clf, tmp_path / "model")
    again = load(tmp_path / "model")
    assert_allclose(again.predict_proba(frame), clf.predict_proba(frame), rtol=1e-9)
    assert clone(again).fit(frame, y).encoder_.columns_ == clf.encoder_.columns_


def test_more_rows():
    clf = GPClassifier(inference="ivm").fit(FRAME[:40], y[:40])
    clf.partial_fit(FRAME[40:], y[40:])
    assert clf.n_samples_seen_ == N


def test_assessments_see_the_encoded_rows():
    clf = GPClassifier(optimizer=None).fit(FRAME.set_axis([f"patient {i}" for i in range(N)], axis=0), y)
    assert trained_on(clf, FRAME[:7]).all()
    assert input_names(clf) == clf.encoder_.get_feature_names_out().tolist()
    assert far_rows(clf, FRAME).shape == (N,)
    assert audit(clf, FRAME[:5], sampler=HMC(n_draws=20, n_warmup=5), n_temperatures=10).n_points == N
    assert suspicious_labels(clf)["name"].iloc[0].startswith("patient")
