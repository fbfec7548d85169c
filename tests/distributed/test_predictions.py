"""Lazy predictions and scores of Dask collections, against those of arrays and frames."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from gpclass import GPClassifier, GPRegressor
from gpclass.assess import scores
from gpclass.distributed.predictions import for_predictions
from gpclass.tables import TableError

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

rng = np.random.default_rng(2)
N = 60
X = rng.normal(size=(N, 3))
TWO = np.where(X[:, 0] + 0.5 * rng.normal(size=N) > 0, "yes", "no")
THREE = rng.integers(5, 8, N)
FRAME = pd.DataFrame(
    {"a": X[:, 0], "colour": rng.choice(["red", "blue"], N), "flag": rng.random(N) < 0.5}, index=np.arange(N) * 2 + 10
)
CLOSE = {"rtol": 1e-10, "atol": 1e-12}  # rounding of matrix products depends on the number of rows


@pytest.fixture(autouse=True)
def synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def fitted(y=TWO, inputs=X, **settings):
    return GPClassifier(**{"inference": "laplace", "optimizer": None, "calibrate": None} | settings).fit(inputs, y)


MODELS = {
    "two classes": fitted(),
    "softmax": fitted(THREE, likelihood="softmax"),
    "inducing": fitted(THREE, inference="svgp", max_iter=2),
}
METHODS = ("predict", "predict_proba", "predict_log_proba", "predict_proba_std", "latent", "decision_function", "decide")


def each(results):
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("chunks", [(N, 3), (25, 2), ((20, 0, 40), 3)])
def test_arrays_give_arrays_of_the_same_chunks(model, method, chunks):
    model = MODELS[model]
    rows = da.from_array(X, chunks)
    lazy, expected = each(getattr(model, method)(rows)), each(getattr(model, method)(X))
    assert len(lazy) == len(expected)
    for found, array in zip(lazy, expected, strict=True):
        assert isinstance(found, da.Array)
        assert found.chunks[0] == rows.chunks[0]
        assert found.shape == array.shape
        assert found.dtype == array.dtype == found._meta.dtype
        assert any(str(key).startswith(f"gpclass-{method}") for key in found.dask.layers)
        values = found.compute()
        assert type(values) is np.ndarray
        assert values.dtype == array.dtype
        if array.dtype == float:
            assert_allclose(values, array, **CLOSE)
        else:
            assert_array_equal(values, array)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("likelihood", ["auto", "softmax"])
def test_frames_give_series_and_frames_with_their_index(method, likelihood):
    model = fitted(TWO if likelihood == "auto" else THREE, FRAME, likelihood=likelihood)
    rows = dd.from_pandas(FRAME, npartitions=3)
    lazy, expected = each(getattr(model, method)(rows)), each(getattr(model, method)(FRAME))
    for found, array in zip(lazy, expected, strict=True):
        values = found.compute()
        if array.ndim == 3:
            assert_allclose(values, array, **CLOSE)
            continue
        assert found.divisions == rows.divisions
        assert values.index.equals(FRAME.index)
        if array.ndim == 1:
            assert isinstance(values, pd.Series)
            assert values.dtype == found.dtype
        else:
            assert found.columns.tolist() == values.columns.tolist() == model.classes_.tolist()
        if array.dtype == float:
            assert_allclose(values.to_numpy(), array, **CLOSE)
        else:
            assert values.tolist() == array.tolist()


def test_predictions_of_frames_can_be_joined_with_their_rows():
    model = fitted(inputs=FRAME)
    rows = dd.from_pandas(FRAME, npartitions=3)
    joined = rows.assign(p=model.predict_proba(rows)["yes"], label=model.predict(rows)).compute()
    assert_allclose(joined["p"], model.predict_proba(FRAME)[:, 1], **CLOSE)
    assert joined["label"].tolist() == model.predict(FRAME).tolist()


def test_empty_partitions_and_unknown_chunks():
    model = fitted(inputs=FRAME)
    some = dd.from_pandas(FRAME, npartitions=4)
    some = some[some["a"] > FRAME["a"].max() - 0.1]  # most partitions are empty
    assert len(model.predict_proba(some).compute()) == (FRAME["a"] > FRAME["a"].max() - 0.1).sum()
    assert len(model.predict(some[some["a"] > 1e9]).compute()) == 0
    unknown = dd.from_pandas(pd.DataFrame(X), npartitions=4).to_dask_array()
    assert_allclose(MODELS["softmax"].predict_proba(unknown).compute(), MODELS["softmax"].predict_proba(X), **CLOSE)


def test_arguments_reach_the_method():
    lazy = MODELS["two classes"].decide(da.from_array(X, (20, 3)), {("no", "yes"): 3.0}, abstain=0.3)
    expected = MODELS["two classes"].decide(X, {("no", "yes"): 3.0}, abstain=0.3)
    assert None in expected.tolist()
    assert lazy.dtype == object
    assert lazy.compute().tolist() == expected.tolist()


def test_regression_has_lazy_means_and_deviations():
    model = GPRegressor(optimizer=None).fit(X, X[:, 0])
    mean, std = model.predict(da.from_array(X, (20, 3)), return_std=True)
    for found, array in zip((mean, std), model.predict(X, return_std=True), strict=True):
        assert_allclose(found.compute(), array, **CLOSE)
    rows = dd.from_pandas(pd.DataFrame(X), npartitions=2)
    assert_allclose(model.predict(rows).compute(), model.predict(X), **CLOSE)


def test_errors_come_before_anything_is_computed():
    with pytest.raises(ValueError, match="X has 2 features, but GPClassifier is expecting 3"):
        MODELS["softmax"].predict(da.from_array(X[:, :2], (20, 2)))
    model = fitted(inputs=FRAME)
    with pytest.raises(TableError, match="lacks column 'colour'"):
        model.predict(dd.from_pandas(FRAME.drop(columns="colour"), npartitions=2))
    with pytest.raises(TypeError, match="must be a pandas DataFrame"):
        model.predict(da.from_array(X, (20, 3)))
    with pytest.raises(TypeError, match="takes a Dask array or data frame"):
        model.predict([dask.delayed(X)])
    with pytest.raises(ValueError, match="X must have the shape"):
        MODELS["softmax"].predict(da.from_array(X[:, 0], 20))


def test_the_model_is_in_the_graph_once_and_without_training_rows():
    model = MODELS["inducing"]
    slim = for_predictions(model)
    assert model._trainer is not None
    assert slim._trainer is None
    assert not hasattr(slim, "row_fingerprints_")
    lazy = model.predict_proba(da.from_array(np.repeat(X, 20, axis=0), (10, 3)))
    graph = len(pickle.dumps(dict(lazy.__dask_graph__()))) - 20 * X.nbytes
    assert graph < len(pickle.dumps(slim)) + 1200 * lazy.npartitions  # and a task for each of 120 blocks
    assert sum("gpclass-model" in str(key) for key in lazy.__dask_graph__()) == 1


# scores -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("chunks", [N, 7, (20, 0, 40)])
def test_scores_of_any_partitioning_are_those_of_arrays(ordered, chunks):
    model = MODELS["softmax"]
    chunks = (chunks,) if isinstance(chunks, tuple) else chunks
    p = model.predict_proba(X)
    rows, y = da.from_array(p, (chunks[0] if isinstance(chunks, tuple) else chunks, 3)), da.from_array(THREE, 11)
    train = THREE[:40]
    for y_train in (None, train, da.from_array(train, 9)):
        found = scores(y, rows, y_train, model.classes_, 7, ordered)
        expected = scores(THREE, p, None if y_train is None else train, model.classes_, 7, ordered)
        assert list(found.keys()) == list(expected.keys())
        assert_allclose(found, expected, rtol=1e-12)


def test_scores_of_frames_take_classes_from_their_columns():
    model = fitted(inputs=FRAME)
    rows = dd.from_pandas(FRAME.assign(y=TWO), npartitions=3)
    p = model.predict_proba(rows[["a", "colour", "flag"]])
    found, expected = scores(rows["y"], p), scores(TWO, model.predict_proba(FRAME))
    assert_allclose(found, expected, rtol=1e-12)
    second = scores(rows["y"], p["yes"], classes=model.classes_)
    assert_allclose(second, expected, rtol=1e-9)  # 1 - p rounds


def test_scores_refuse_what_has_no_classes_and_name_the_partition():
    p = da.from_array(MODELS["two classes"].predict_proba(X), (20, 2))
    y = da.from_array(TWO, 20)
    with pytest.raises(ValueError, match="pass classes="):
        scores(y, p)
    with pytest.raises(ValueError, match=r"partition \d: y has labels .* classes \['maybe', 'yes'\]: no"):
        scores(y, p, classes=["maybe", "yes"])
    certain = np.array([[1.0, 0.0], [0.0, 1.0]])
    found = scores(da.from_array(np.array([0, 0]), 1), da.from_array(certain, (1, 2)), classes=[0, 1])
    assert found["nlpd"] == np.inf
    assert found["information_score"] == -np.inf


def test_accuracy_of_collections():
    weight = np.random.default_rng(0).uniform(size=N)
    model = MODELS["two classes"]
    rows, labels, weights = (da.from_array(part, chunks=25) for part in (X, TWO, weight))
    assert_allclose(model.score(rows.rechunk((25, 3)), labels), model.score(X, TWO), rtol=1e-12)
    assert_allclose(model.score(rows.rechunk((25, 3)), labels, weights), model.score(X, TWO, weight), rtol=1e-12)
    frame = dd.from_pandas(FRAME.assign(y=TWO, w=weight), npartitions=3)
    model = fitted(TWO, FRAME)
    assert_allclose(model.score(frame[list(FRAME)], frame["y"], frame["w"]), model.score(FRAME, TWO, weight), rtol=1e-12)
