"""The computations behind the pages of Chai, Seeger et al. and Villacampa-Calvo, at tiny size."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))

import chai_cases  # noqa: E402
import inducing  # noqa: E402
import ivm  # noqa: E402
from gpclass.kernels import RBF  # noqa: E402
from papers import figures  # noqa: E402


@pytest.fixture
def few_rows(monkeypatch):
    """24 rows of three overlapping classes in the plane, 12 for testing."""
    rng = np.random.default_rng(0)
    y = np.arange(36) % 3
    X = rng.normal(size=(36, 2)) + 1.5 * np.array([[0, 1], [1, -1], [-1, -1]])[y]
    monkeypatch.setattr(chai_cases.chai, "prepare", lambda name, split: (X[:24], y[:24], X[24:], y[24:]))
    monkeypatch.setattr(chai_cases.chai, "DATA", {"iris": 3})


def test_table_3_has_all_columns_and_its_bounds_are_bounds(few_rows):
    columns = chai_cases.table_3("iris", 0, samples=400)
    for column, bound in (("MC-MNL", "KL-MNL"), ("MC-MNL at MF", "KL-MNL at MF"), ("MC-MNP", "MF-MNP")):
        assert columns[column]["log_Z"] > columns[bound]["log_Z"]  # 3.09 standard errors above the estimate
        assert abs(columns[column]["errors"] - columns[bound]["errors"]) <= 2
    at = columns["KL-MNL"]
    assert at["log_p_24"] < at["log_p"] < 0  # (24) is a lower bound of (25)
    # hyperparameters learned for logit have a larger bound than those learned by mean field
    assert at["log_Z"] >= columns["KL-MNL at MF"]["log_Z"]
    # section 9.2.1: correlations as under probit
    assert_allclose(columns["MC-MNL, variance π²/6"]["log_Z"], columns["MC-MNP"]["log_Z"], rtol=0.1)


def test_figure_1_orders_the_bounds(few_rows, monkeypatch):
    monkeypatch.setattr(chai_cases, "VARIANCES", (1.0, 20.0))
    points = chai_cases.figure_1("iris", 0, samples=400)
    assert all(p["log_Z"] > p["log_Z_B"] > p["log_Z_h"] for p in points)
    gaps = [p["log_Z"] - p["log_Z_B"] for p in points]
    assert gaps[1] > gaps[0]


@pytest.mark.slow
def test_richer_models_of_figure_2_have_larger_bounds(few_rows):
    models = chai_cases.figure_2("iris", 0)
    Z = [models[f"M{k}"]["log_Z_h"] for k in range(1, 6)]
    # M2 contains M1; M4 contains M3 (searches end within 0.01 of their maxima)
    assert Z[1] > Z[0] - 0.01
    assert Z[3] > Z[2] - 0.01
    for model in models.values():
        assert_allclose(np.trace(model["covariance"]), 3, atol=1e-3)  # rounded to 5 decimals


def test_features_of_a_kernel_have_its_inner_products():
    X = np.random.default_rng(0).normal(size=(20, 3))
    K = RBF(2.0, 1.0)(X)
    Z, other = chai_cases.features(K[:15, :15], K[15:, :15])
    assert_allclose(Z @ Z.T, K[:15, :15], atol=1e-8)
    assert_allclose(other @ Z.T, K[15:, :15], atol=1e-5)  # directions of eigenvalues below 1e-10 are left out


@pytest.mark.parametrize("kind", list(chai_cases.SVM))
def test_support_vector_machines_choose_from_the_grid(few_rows, monkeypatch, kind):
    monkeypatch.setattr(chai_cases, "SVM_C", (0.1, 10.0))
    monkeypatch.setattr(chai_cases, "SVM_WIDTHS", (0.01, 2.0))
    found = chai_cases.svm("iris", 0, kind)
    assert found["width"] == 2.0  # with a lengthscale of 0.01 the rows are independent
    assert found["errors"] <= 6


def blobs(n=160, C=3):
    rng = np.random.default_rng(1)
    y = np.arange(n) % C
    X = rng.normal(size=(n, 2)) + 2 * np.array([[0, 1], [1, -1], [-1, -1]])[y]
    return X[: n // 2], y[: n // 2], X[n // 2 :], y[n // 2 :], C


@pytest.mark.parametrize("name", ["EP", "VI"])
def test_curves_end_at_their_last_mark(name):
    steps = iter(np.arange(1000.0))
    training = inducing.Training(n_inducing=5, batch_size=None, inputs="random", learning_rate=0.05)
    points = list(inducing.curve_points(blobs(), name, training, [2, 7], clock=lambda: next(steps)))
    assert [p["steps"] for p in points] == [2, 7]  # with this clock each step takes a second, and the start takes none
    assert all(p["expected"] > p["loss"] for p in points)  # Jensen: -E[log p] > -log E[p]
    assert points[-1]["error"] < 0.4


def test_rows_of_a_generator_are_learned_from(monkeypatch):
    monkeypatch.setattr(inducing, "STREAM", (8, 3, 500))
    training = inducing.Training(n_inducing=20, batch_size=100, inputs="random", learning_rate=0.05)
    found = inducing.stream_points("SEP", 2000, 1.0, training)
    last = found["points"][-1]
    assert last["seconds"] >= 1.0
    assert last["passes"] > 1
    assert found["bayes"] < last["loss"] < np.log(3)  # the true probabilities have the best score, guessing a worse one
    assert found["bayes"] < found["linear"] < np.log(3)


def test_outer_curves_climb():
    points = inducing.outer_points(blobs(), "GFITC", 4, np.inf, iterations=2)
    assert next(points)["log_Z"] < next(points)["log_Z"]


@pytest.mark.parametrize("name", ["EP", "GFITC"])
def test_inducing_points_of_figure_6_1_move(monkeypatch, name):
    monkeypatch.setattr(inducing, "GRID", 5)
    found = inducing.places(name, 4, 10)
    assert np.shape(found["began"]) == np.shape(found["ended"]) == (4, 2)
    assert np.max(np.abs(found["began"] - found["ended"])) > 0.01
    assert len(found["classes"]) == 25
    assert set(found["classes"]) <= set("012")


def test_learning_curve_of_figure_1_ends_with_what_a_search_finds(monkeypatch):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(120, 3))
    labels = np.where(X[:, 0] + 0.3 * rng.normal(size=120) > 0.5, "2", "7")
    data = SimpleNamespace(X_train=X[:80], X_test=X[80:], y_train=labels[:80], y_test=labels[80:])
    monkeypatch.setattr(ivm.datasets, "load", lambda name: data)
    points = ivm.learning_curve(2, 10, "constant", 1, bias=-2.0)
    assert points[0]["major"]
    assert not points[1]["major"]
    # with its own sites at its own hyperparameters the first evaluation of the minor steps is the choice of rows again
    for name in ("criterion", "error", "log_likelihood"):
        assert_allclose(points[1][name], points[0][name], rtol=1e-8)
    case = ivm.usps_case(2, 10, "constant", ((None, -2.0),), 1)
    best = min((p for p in points if p["major"]), key=lambda p: p["criterion"])
    assert_allclose(best["log_likelihood"], case["log_likelihood"], rtol=1e-8)
    assert_allclose(best["error"], case["error"])


def test_virtual_vectors_of_table_4(monkeypatch):
    # digits whose bars are shifted in the test rows: with the shifts as virtual rows the machine finds them
    rng = np.random.default_rng(0)
    labels = np.arange(160) % 10
    X = 0.3 * rng.normal(size=(160, 16, 16)) - 1
    for image, c in zip(X, labels, strict=True):
        image[:, 2 + c] += 2
    data = SimpleNamespace(
        X_train=X[:80].reshape(80, -1),
        X_test=X[80:].reshape(80, -1),
        y_train=labels[:80].astype(str),
        y_test=labels[80:].astype(str),
    )
    monkeypatch.setattr(ivm.datasets, "load", lambda name: data)
    case = ivm.virtual_case(3, 12, 1, more=30)
    assert 0 < case["copies"] < 1
    assert min(case["with"]["log_p"]) > ivm.LEAST
    errors = ivm.virtual_errors({3: case})
    assert errors["with"][0] <= 10  # nine in ten are of other digits
    sure = {c: {"with": {"rows": np.flatnonzero(labels[80:] == c), "log_p": -0.1}} for c in range(10)}
    sure = {c: {**case, "without": case["with"]} for c, case in sure.items()}
    assert ivm.virtual_errors(sure)["with"] == [0.0] * 11


ONES = {"chai": "chai-figure-1", "seeger": "seeger-table-1", "villacampa": "villacampa-power"}


@pytest.mark.parametrize(("paper", "one"), ONES.items())
def test_figures_of_a_page_are_drawn_from_what_is_stored(paper, one, tmp_path):
    page = (ROOT / "docs" / "papers" / f"{paper}.md").read_text(encoding="utf-8")
    shown = [line.split("} ")[1] for line in page.splitlines() if line.startswith("```{paper-figure} ")]
    assert sorted(shown) == sorted(figures.figures_of(paper))
    figures.draw(one, tmp_path / "drawn.png")
    assert (tmp_path / "drawn.png").stat().st_size > 5000
    with pytest.raises(KeyError):  # nothing is stored there
        figures.draw(one, tmp_path / "other.png", tmp_path)
