"""Dates and units: encoded columns by hand, model files, and later data in another form."""

import datetime
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import gpclass
from gpclass import GPClassifier
from gpclass.tables import Part, TableEncoder, TableError, alone
from gpclass.tables.dates import fitting_formats

N = 30
RNG = np.random.default_rng(0)
X = RNG.normal(size=N)
START = datetime.datetime(2019, 12, 28)
MOMENTS = [START + datetime.timedelta(days=3 * i, hours=5 * i % 24) for i in range(N)]
TEXTS = [m.strftime("%d.%m.%Y %H:%M") for m in MOMENTS]
FRAME = pd.DataFrame({"x": X, "when": TEXTS, "width": [f"{9 + x:.2f} cm" for x in X]})
Y = np.where(X > 0, "a", "b")


def by_hand(moment, first):
    """Days since the first date; sine and cosine of the parts of year, week and day that have passed."""
    day = moment.hour / 24 + moment.minute / 1440
    start = datetime.datetime(moment.year, 1, 1)
    year = (moment - start) / (datetime.datetime(moment.year + 1, 1, 1) - start)
    week = (moment.weekday() + day) / 7
    waves = [wave(2 * math.pi * part) for part in (year, week, day) for wave in (math.sin, math.cos)]
    return [(moment - first) / datetime.timedelta(days=1), *waves]


def encoder(**settings):
    return TableEncoder(**{"dates": ["when"], "units": ["width"]} | settings)


def test_dates_are_numbers_by_hand():
    encoded = encoder().fit_transform(FRAME)
    names = encoder().fit(FRAME).get_feature_names_out().tolist()
    cycles = [f"when ({wave} of {cycle})" for cycle in ("year", "week", "day") for wave in ("sine", "cosine")]
    assert names == ["x", "when (days)", *cycles, "width"]
    truth = np.array([by_hand(moment, MOMENTS[0]) for moment in MOMENTS])
    assert_allclose(encoded[:, 1:8], truth, atol=1e-9)  # rounding of days since 1970, times 2π
    assert_allclose(encoded[:, 8], [float(text.removesuffix(" cm")) for text in FRAME["width"]])


@pytest.mark.parametrize("form", ["%Y-%m-%d %H:%M:%S", "%m/%d/%Y %H:%M", "%d.%m.%y %H:%M", "%d-%b-%Y %I:%M %p", None])
def test_the_format_does_not_matter(form):
    moments = pd.Series(MOMENTS)
    frame = FRAME.assign(when=moments if form is None else moments.dt.strftime(form))
    assert_allclose(encoder().fit_transform(frame), encoder().fit_transform(FRAME), atol=1e-9)


def test_dates_without_times_have_no_day():
    frame = FRAME.assign(when=[m.strftime("%Y-%m-%d") for m in MOMENTS])
    names = encoder().fit(frame).get_feature_names_out().tolist()
    assert not [name for name in names if "of day" in name]


def test_times_of_the_day_and_differences():
    frame = pd.DataFrame({"t": ["06:00", "12:30", "23:00"], "d": pd.to_timedelta([1, 2.5, 4], unit="D")})
    encoder = TableEncoder(dates=["t", "d"]).fit(frame)
    encoded = encoder.transform(frame)
    assert list(encoder.get_feature_names_out()) == ["t (hours)", "t (sine of day)", "t (cosine of day)", "d (days)"]
    assert_allclose(encoded[:, 0], [6, 12.5, 23])
    assert_allclose(encoded[:, 1], np.sin(2 * np.pi * encoded[:, 0] / 24))
    assert_allclose(encoded[:, -1], [1, 2.5, 4])


def test_zones_are_converted():
    frame = pd.DataFrame({"t": ["2020-01-01T12:00:00+02:00", "2020-01-01T10:00:00Z"]})
    encoded = TableEncoder(dates=["t"]).fit_transform(frame)
    assert_allclose(encoded[0], encoded[1], atol=1e-9)


def test_dates_that_may_be_two_things_need_a_format():
    frame = FRAME.assign(when=["03/04/2021", "05/07/2021"] * (N // 2))
    with pytest.raises(TableError, match=r"may be %m/%d/%Y or %d/%m/%Y; say which: --dates when=%m/%d/%Y"):
        encoder().fit(frame)
    days = {form: encoder(dates={"when": form}).fit_transform(frame)[1, 1] for form in ("%m/%d/%Y", "%d/%m/%Y")}
    assert days == {"%m/%d/%Y": 64.0, "%d/%m/%Y": 93.0}  # from 4 March to 7 May, and from 3 April to 5 July
    frame.loc[3, "when"] = "13/06/2021"
    assert encoder().fit(frame).columns_[1].form == "%d/%m/%Y"


def test_marks_among_dates_are_missing_values():
    frame = FRAME.assign(when=["unknown", *FRAME["when"][1:]])
    with pytest.raises(TableError, match="column 'when' has dates, but also 'unknown'") as caught:
        encoder().fit(frame)
    assert caught.value.problems[0].options == (("--missing-values", "unknown", ""),)


def test_later_data_need_the_same_form():
    fitted = encoder().fit(FRAME)
    with pytest.raises(TableError, match=r"dates in the format %d.%m.%Y %H:%M, but row 2 has '2020-01-01'"):
        fitted.transform(FRAME.assign(when=[*FRAME["when"][:2], "2020-01-01", *FRAME["when"][3:]]))
    with pytest.raises(TableError, match=r"numbers in 'cm', but row 0 has '9 mm', in 'mm'"):
        fitted.transform(FRAME.assign(width="9 mm"))
    with pytest.raises(TableError, match=r"numbers in 'cm', but row 0 has '9.0', without a unit"):
        fitted.transform(FRAME.assign(width=9.0))
    with pytest.raises(TableError, match="2 problems") as caught:
        fitted.transform(FRAME.assign(width="9 mm", when="?"))
    assert [p.kind for p in caught.value.problems] == ["dates", "units"]


@pytest.mark.parametrize(
    ("train", "later", "told"),
    [
        (["06:00", "12:30"], pd.to_datetime(["2020-01-01"]), "had times without a date in the training data, but has dates"),
        (pd.to_timedelta([1, 2], unit="D"), pd.to_datetime(["2020-01-01"]), "had times without a date"),
        (["2020-01-01"], pd.to_timedelta([1], unit="D"), "had dates in the training data, but has differences of times"),
        (pd.to_datetime(["2020-01-01"]), ["soon"], "has dates in the format ISO8601, but row 0 has 'soon'"),
    ],
)
def test_later_dates_need_the_same_kind(train, later, told):
    fitted = TableEncoder(dates=["t"]).fit(pd.DataFrame({"t": train}))
    with pytest.raises(TableError, match=told):
        fitted.transform(pd.DataFrame({"t": later}))


def test_typed_dates_and_iso_text_are_the_same():
    text = pd.DataFrame({"t": ["2020-01-31", "2020-02-03"]})
    typed = text.assign(t=pd.to_datetime(text["t"]))
    zone = text.assign(t=typed["t"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
    fitted = TableEncoder(dates=["t"]).fit(text)
    for other in (text, typed, zone):
        assert fitted.transform(other)[:, 0].tolist() == [0, 3]
        assert TableEncoder(dates=["t"]).fit(other).transform(typed)[:, 0].tolist() == [0, 3]


@pytest.mark.parametrize(
    ("cell", "form"),
    [
        ("20210301 5:30 PM", "%Y%m%d %I:%M %p"),
        ("01-Mar-2021", "%d-%b-%Y"),
        ("1.3.21", "%d.%m.%y"),
        ("03/13/21 5:30 PM", "%m/%d/%y %I:%M %p"),
        ("13:30:10.5", "%H:%M:%S.%f"),
    ],
)
def test_formats(cell, form):
    assert fitting_formats([cell]) == [form]


def test_all_dates_must_fit_the_format():
    """The first 50, on which formats are tried first, may be of more formats."""
    ambiguous = [f"{month:02d}/{day:02d}/2020" for month in range(1, 8) for day in range(1, 9)]
    assert fitting_formats(ambiguous) == ["%m/%d/%Y", "%d/%m/%Y"]
    assert fitting_formats([*ambiguous, "13/01/2020"]) == ["%d/%m/%Y"]
    assert fitting_formats([*ambiguous, "2020-01-01"]) == []


def test_units_must_be_one():
    mixed = FRAME.assign(width=[*FRAME["width"][:-1], "3 in"])
    with pytest.raises(TableError, match=f"numbers in 'cm', but row {N - 1} has '3 in', in 'in'"):
        encoder().fit(mixed)


def test_empty_cells_are_filled_with_the_middle_date_and_number():
    frame = FRAME.copy()
    frame.loc[4, "when"] = frame.loc[5, "width"] = None
    with pytest.raises(TableError, match=r"row 4, column 'when' is empty or NA, and 1 more cell in columns 'when', 'width'"):
        encoder().fit(frame)
    encoded = encoder(impute="median").fit_transform(frame)
    assert_allclose(encoded[4, 1], np.median(np.delete(encoded[:, 1], 4)))
    assert_allclose(encoded[5, 8], np.median(np.delete(encoded[:, 8], 5)))
    marked = encoder(impute="indicator").fit(frame)
    assert marked.get_feature_names_out().tolist().count("when missing") == 1
    assert np.flatnonzero(marked.transform(frame)[:, 8]).tolist() == [4]


def test_parts_of_a_table_give_the_same_encoder():
    parts = [Part(FRAME.iloc[:11], "one"), Part(FRAME.iloc[11:12], "two"), Part(FRAME.iloc[12:], "three")]

    def total(function, *arguments):
        first, *others = (function(part, *arguments) for part in parts)
        for other in others:
            first = first + other
        return first

    assert encoder().fit_parts(total).columns_ == encoder().fit_parts(alone(Part(FRAME))).columns_


def test_models_remember_dates_and_units(tmp_path):
    model = make_pipeline(encoder(dates={"when": "%d.%m.%Y %H:%M"}), GPClassifier("rbf", inference="laplace"))
    model.fit(FRAME, Y)
    gpclass.save(model, tmp_path / "m")
    loaded = gpclass.load(tmp_path / "m")
    assert loaded[0].columns_ == model[0].columns_
    assert loaded[0].get_params() == model[0].get_params()
    later = FRAME.assign(when="31.12.2023 23:30")
    np.testing.assert_allclose(loaded.predict_proba(later), model.predict_proba(later), rtol=1e-12)  # rebuilt from its sites
    with pytest.raises(TableError, match="in 'mm'"):
        loaded.predict_proba(later.assign(width="9 mm"))
    assert clone(encoder()).get_params() == encoder().get_params()
    assert encoder().fit(FRAME).transform(encoder().fit(FRAME).example()).shape == (1, 9)


# all problems of a frame --------------------------------------------------------------------------------------------------


def test_a_frame_is_refused_with_all_problems():
    frame = FRAME.assign(hole=[np.nan, *X[1:]], name=[f"somebody {i}" for i in range(N)])
    frame = frame.assign(much=[np.inf, *X[1:]], nothing=np.nan)
    with pytest.raises(TableError, match="the table has 6 problems") as caught:
        GPClassifier().fit(frame, Y)
    found = {problem.kind: problem for problem in caught.value.problems}
    assert {kind: p.column for kind, p in found.items()} == {
        "nothing": "nothing",
        "empty": "hole",
        "dates": "when",
        "units": "width",
        "names": "name",
        "infinite": "much",
    }
    assert found["dates"].python == "TableEncoder(dates=['when'])"
    assert "missing='indicator'" in found["empty"].python
    assert found["units"].options[0] == ("--units", "width", "")
    for problem in caught.value.problems:
        assert problem.text in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.problems == caught.value.problems


def test_columns_that_are_declared_but_not_there():
    with pytest.raises(TableError, match=r"no column 'wen' of dates \(did you mean 'when'\?\)"):
        encoder(dates=["wen"], units=["width"]).fit(FRAME.drop(columns="when").assign(when=X))
