"""Columns of every kind become numbers; errors name the row, the column and the remedy."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpclass import GPClassifier
from gpclass.tables import (
    Part,
    TableEncoder,
    TableError,
    UnseenLevelWarning,
    alone,
    row_names,
    with_ids,
)

from .patients import FRAME

# inputs -----------------------------------------------------------------------------------------------------------------


def test_columns_become_numbers():
    encoder = TableEncoder(target="class").fit(FRAME)
    assert encoder.get_feature_names_out().tolist() == ["age", "dose", "colour=blue", "colour=green", "colour=red", "smoker"]
    by_hand = np.column_stack(
        [FRAME.age, FRAME.dose, FRAME.colour == "blue", FRAME.colour == "green", FRAME.colour == "red", FRAME.smoker]
    )
    assert np.array_equal(encoder.transform(FRAME), by_hand.astype(float))
    shuffled = FRAME[["smoker", "colour", "class", "dose", "age"]].assign(more=1)
    assert np.array_equal(encoder.transform(shuffled), by_hand.astype(float))
    assert np.array_equal(clone(encoder).fit_transform(FRAME), by_hand.astype(float))
    assert [part.tolist() for part in encoder.parts()] == [[0], [1], [2, 3, 4], [5]]


def test_categories_of_pandas_are_text():
    frame = pd.DataFrame({"size": pd.Categorical([1, 2, 1]), "x": [1.0, 2.0, 3.0]})
    assert TableEncoder().fit(frame).columns_[0].levels == ("1", "2")


def test_unseen_levels_are_zeros_with_a_warning():
    encoder = TableEncoder(target="class").fit(FRAME)
    new = FRAME.assign(colour=["red", "pink", "red", "violet", "pink", "blue"])
    with pytest.warns(UnseenLevelWarning, match=r"'colour' has 'pink', 'violet' in 3 of 6 rows; .* 'blue', 'green', 'red'"):
        encoded = encoder.transform(new)
    assert np.array_equal(encoded[:, 2:5].sum(axis=1), [1, 0, 1, 0, 0, 1])


def test_empty_cells_are_refused_by_row_and_column():
    holes = FRAME.drop(columns="class").astype({"age": float})
    holes.loc[3, "dose"] = np.nan
    with pytest.raises(TableError, match="row 3, column 'dose' is empty or NA; fill"):
        TableEncoder().fit(holes)
    holes.loc[4, "colour"] = None
    with pytest.raises(
        TableError, match=r"row 3, column 'dose' is empty or NA, and 1 more cell in columns 'dose', 'colour'"
    ):
        TableEncoder().fit(holes)
    encoder = TableEncoder().fit(FRAME.drop(columns="class"))
    with pytest.raises(TableError, match=r"column 'dose' is empty or NA.*or fit the model again with medians") as told:
        encoder.transform(holes)
    assert not told.value.problems[0].options  # --impute belongs to the fit


def test_empty_cells_get_what_training_data_had():
    train = FRAME.drop(columns="class").astype({"smoker": object})
    train.loc[0, "dose"] = np.nan
    train.loc[1, "colour"] = None
    train.loc[2, "smoker"] = None
    encoder = TableEncoder(impute="median").fit(train)
    encoded = encoder.transform(train)
    assert encoded[0, 1] == np.median(FRAME.dose[1:])
    assert encoded[1, 2:5].tolist() == [0, 0, 1]  # red is the most frequent
    assert encoded[2, 5] == 1.0  # three of five others smoke
    nothing = pd.DataFrame({c: [np.nan] for c in train.columns})
    assert encoder.transform(nothing).tolist() == [[40.5, 1.25, 0, 0, 1, 1]]


def test_empty_cells_may_have_columns_of_their_own():
    train = FRAME[["dose", "age"]].astype(float)
    train.loc[0, "dose"] = np.nan
    encoder = TableEncoder(impute="indicator").fit(train)
    assert np.array_equal(encoder.transform(train)[:, 1], [1, 0, 0, 0, 0, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # dose was empty in the training data too
        encoder.transform(train.assign(dose=np.nan))
        TableEncoder(impute="median").fit(train).transform(train.assign(age=np.nan))  # there is no indicator column
    with pytest.warns(UnseenLevelWarning, match="'age' is empty in 6 of 6 rows, but in none of the training .*; 40.5"):
        assert np.all(encoder.transform(train.assign(age=np.nan))[:, 2] == 40.5)


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (pd.to_datetime(["2020-01-01"] * 6), "dates or times, such as '2020-01-01"),
        (["2020-01-01", "2020-02-01"] * 3, "contains dates or times, such as '2020-01-01'.*--drop x"),
        (["1.2.2020", "30.11.2021"] * 3, "contains dates"),
        (["12:30", "13:00"] * 3, "contains dates or times"),
        (["1", "2", "?", "4", "5", "6"], r"mostly numbers, but row 2 has '\?'; if that means a missing value"),
        (["1,5", "2,5", "3,5"] * 2, "decimal commas"),
        (["unknown", "2,5", "3,5"] * 2, "decimal commas, such as '2,5'"),
        ([np.nan] * 6, "'x' is empty in every row"),
        ([1.0, 2.0, np.inf, 4.0, 5.0, 6.0], "row 2, column 'x' is inf"),
        ([1.0, 2.0, 1e200, 4.0, 5.0, 6.0], r"row 2, column 'x' is 1e\+200"),
        ([[1], [2], [3], [4], [5], [6]], "row 0, column 'x' is a list"),
        ([1j] * 6, "row 0, column 'x' is a complex"),
    ],
)
def test_columns_that_are_no_inputs_are_refused(column, told):
    for impute in (None, "median"):
        with pytest.raises(TableError, match=told):
            TableEncoder(impute=impute).fit(FRAME.assign(x=column))


def test_names_are_no_categories():
    frame = pd.DataFrame({"name": [f"somebody {i}" for i in range(80)], "x": range(80)})
    with pytest.raises(TableError, match=r"80 different texts in 80 rows.*--drop name"):
        TableEncoder().fit(frame)


@pytest.mark.parametrize(("levels", "rows", "names"), [(51, 100, True), (51, 102, False), (21, 21, True), (20, 20, False)])
def test_how_many_texts_are_names(levels, rows, names):
    """More than 50 that are more than half as many as rows, or more than 20 that are all different."""
    frame = pd.DataFrame({"name": [f"somebody {i % levels}" for i in range(rows)], "x": range(rows)})
    if names:
        with pytest.raises(TableError, match=f"{levels} different texts in {rows} rows"):
            TableEncoder().fit(frame)
    else:
        assert len(TableEncoder().fit(frame).columns_[0].levels) == levels


@pytest.mark.parametrize("known", [None, "row"])
def test_at_most_one_column_is_advised_as_names_of_rows(known):
    texts = [f"number {i}" for i in range(80)]
    frame = pd.DataFrame({"name": texts, "other": texts, "row": texts, "x": range(80)})
    with pytest.raises(TableError) as error:
        TableEncoder(id=known).fit(frame)
    advised = [(option.name, option.value) for problem in error.value.problems for option in problem.options]
    first = ("--drop" if known else "--id", "name")
    assert advised == [first, ("--drop", "other"), *([] if known else [("--drop", "row")])]


def test_an_id_column_names_the_rows_in_errors():
    frame = FRAME.drop(columns="class").assign(who=list("uvwxyz"))
    encoder = TableEncoder(id="who").fit(frame)
    assert "who" not in encoder.feature_names_in_
    holes = frame.astype({"age": float})
    holes.loc[3, "age"] = np.nan
    with pytest.raises(TableError, match=r"row 3 \(x\), column 'age' is empty"):
        encoder.transform(holes)
    with pytest.raises(TableError, match="row 3, column 'age' is empty"):
        encoder.transform(holes.drop(columns="who"))
    with pytest.raises(TableError, match=r"no id column 'hwo' \(did you mean 'who'\?\)"):
        with_ids(frame, "hwo")


def test_tables_of_other_columns_are_refused():
    encoder = TableEncoder(target="class").fit(FRAME)
    with pytest.raises(TableError, match="lacks columns 'age', 'smoker' of the training data; it has 'dose', 'colour'"):
        encoder.transform(FRAME[["dose", "colour"]])
    with pytest.raises(TableError, match=r"lacks column 'age' .*\. Is 'age' called 'Age' here\?"):
        encoder.transform(FRAME.rename(columns={"age": "Age"}))
    with pytest.raises(TableError, match=r"row 0 has '31 years'; remove the unit, or fit the model again .*--units age"):
        encoder.transform(FRAME.assign(age=[f"{age} years" for age in FRAME.age]))
    with pytest.raises(TableError, match="'age' had numbers in the training data, but row 1 has 'old'"):
        encoder.transform(FRAME.assign(age=["1", "old", "2", "3", "4", "5"]))
    with pytest.raises(TableError, match="'smoker' had true and false in the training data, but row 0 has 'often'"):
        encoder.transform(FRAME.assign(smoker="often"))
    with pytest.raises(TypeError, match="X must be a pandas DataFrame"):
        encoder.transform(np.zeros((2, 4)))
    with pytest.raises(TableError, match="more than one column called 'age'"):
        encoder.transform(pd.concat([FRAME, FRAME[["age"]]], axis=1))


def test_settings_and_tables_that_are_refused():
    with pytest.raises(ValueError, match="impute must be None, 'median' or 'indicator'; got 'mean'"):
        TableEncoder(impute="mean").fit(FRAME)
    with pytest.raises(TableError, match="the table has no rows"):
        TableEncoder().fit(FRAME.iloc[:0])
    with pytest.raises(TableError, match="the table has no input columns"):
        TableEncoder(target="class").fit(FRAME[["class"]])
    with pytest.raises(TableError, match="more than one column called '1'"):
        TableEncoder().fit(pd.DataFrame([[1, 2]], columns=[1, "1"]))
    with pytest.raises(TableError, match=r"^column 'x' is empty in every row"):
        TableEncoder().fit(pd.DataFrame({"x": [None, None]}))
    for ask in (lambda e: e.transform(FRAME), lambda e: e.get_feature_names_out(), lambda e: e.parts()):
        with pytest.raises(NotFittedError):
            ask(TableEncoder())


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        ({"dates": ["Age"]}, ("--dates", "age", "Age")),
        ({"units": ["Age"]}, ("--units", "age", "Age")),
        ({"dates": {"zzz": "%Y"}}, None),
    ],
)
def test_declared_columns_that_are_not_there(settings, option):
    with pytest.raises(TableError, match="there is no column") as caught:
        TableEncoder(target="class", **settings).fit(FRAME)
    (problem,) = caught.value.problems
    assert problem.kind == "column"
    assert problem.options == (() if option is None else (option,))


def test_an_id_column_that_is_not_there():
    with pytest.raises(TableError, match=r"no id column 'agee' \(did you mean 'age'\?\)") as caught:
        with_ids(FRAME, "agee")
    assert caught.value.problems[0].options == (("--id", "age", "agee"),)
    with pytest.raises(TableError, match="no id column 'zzz'; there are 'age'") as caught:
        with_ids(FRAME, "zzz")
    assert caught.value.problems[0].options == ()


def test_names_of_rows():
    assert row_names(FRAME).tolist() == [0, 1, 2, 3, 4, 5]
    assert row_names(FRAME).dtype == np.int64
    assert row_names(FRAME.set_axis([0.5, 1, 2, 3, 4, 5], axis=0)).tolist() == ["0.5", "1.0", "2.0", "3.0", "4.0", "5.0"]
    encoder = TableEncoder(target="class").fit(FRAME)
    assert encoder.row_names_.tolist() == [0, 1, 2, 3, 4, 5]
    encoder.fit_parts(alone(Part(FRAME)))
    assert not hasattr(encoder, "row_names_")  # parts have none


def test_an_encoder_of_numbers_passes_them_on():
    encoder = TableEncoder.of_numbers(["a", "b"])
    assert encoder.transform(pd.DataFrame({"b": [3, 4], "a": [1.5, 2.5]})).tolist() == [[1.5, 3], [2.5, 4]]
    assert encoder.get_feature_names_out().tolist() == encoder.feature_names_in_.tolist() == ["a", "b"]
    assert encoder.n_features_in_ == 2
    with pytest.raises(TableError, match="column 'a' is empty"):
        encoder.transform(pd.DataFrame({"a": [None], "b": [1]}))


def test_indicators_of_levels():
    """Empty text has no level; the warning about a column that is empty only later says what is used."""
    train = pd.DataFrame({"colour": ["red", None, "blue", "red"], "size": ["s", "l", "l", "l"]})
    encoder = TableEncoder(impute="indicator").fit(train)
    assert encoder.get_feature_names_out().tolist() == ["colour=blue", "colour=red", "colour missing", "size=l", "size=s"]
    assert encoder.transform(train)[:, :3].tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0]]
    with pytest.warns(UnseenLevelWarning, match="'size' is empty in 1 of 4 rows, but in none of the training data; 'l' is"):
        assert encoder.transform(train.assign(size=["s", None, "l", "l"]))[:, 3:].tolist() == [
            [0, 1],
            [1, 0],
            [1, 0],
            [1, 0],
        ]


def test_constant_columns_are_harmless():
    frame = FRAME.assign(unit="mg", one=1)
    model = make_pipeline(TableEncoder(target="class"), StandardScaler(), GPClassifier(optimizer=None))
    plain = clone(model).fit(FRAME, FRAME["class"]).predict_proba(FRAME)
    # the same up to rounding: sums over more columns are taken in another order
    assert_allclose(model.fit(frame, frame["class"]).predict_proba(frame), plain, rtol=1e-12)
