"""The command line, as a user meets it: embedded data, real files, every complaint in one line and with its exit code."""

import importlib.util
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import gpclass
from gpclass.cli import app
from gpclass.cli.compare import OWN_SCALE, chosen_engines, default_engines, splits
from gpclass.cli.models import latent_variances
from gpclass.tables import read_table

SHARED = Path(__file__).parents[2] / "shared" / "data"


def run(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output + str(result.exception)
    assert "Traceback" not in result.output
    return result


def refused(*words):
    """The one line on stderr that a bad input gets."""
    result = run(*words, code=2)
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("gpclass: ")
    return lines[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """iris as a table, halves of it, and a model of one half."""
    folder = tmp_path_factory.mktemp("cli")
    run("datasets", "iris", "-o", folder / "iris.csv")
    iris = read_table(folder / "iris.csv")
    iris.iloc[::2].to_csv(folder / "train.csv", index=False)
    iris.iloc[1::2].to_csv(folder / "test.csv", index=False)
    iris.iloc[1::2].drop(columns="class").to_csv(folder / "new.csv", index=False)
    run("fit", folder / "train.csv", "--target", "class", "-o", folder / "iris.gpclass")
    return folder


def test_fit_tells_what_was_learned(folder, tmp_path):
    out = run("fit", folder / "train.csv", "-t", "class", "-o", tmp_path / "m", "-e", "laplace", "--json").stdout
    told = json.loads(out)
    assert told["rows"] == 75
    assert told["classes"] == {"setosa": 25, "versicolor": 25, "virginica": 25}
    assert told["engine"] == "Laplace"
    assert told["evidence_is_comparable"]
    model = gpclass.load(tmp_path / "m")
    assert model[-1].log_evidence_ == told["log_evidence"]
    assert 0 < told["loo_nlpd"] < 0.5
    shown = run("fit", folder / "train.csv", "-t", "class", "-o", tmp_path / "m", "-e", "laplace").stdout
    assert "75 rows, 4 columns, 4 inputs" in shown
    assert run("fit", folder / "train.csv", "-t", "class", "-o", tmp_path / "m", "-e", "laplace", "-q").output == ""


def test_predict_writes_what_python_predicts(folder, tmp_path):
    told = run("predict", folder / "iris.gpclass", folder / "test.csv", "-o", tmp_path / "out.csv").stdout
    assert "class is in the table: error" in told
    out, test = read_table(tmp_path / "out.csv"), read_table(folder / "test.csv")
    model = gpclass.load(folder / "iris.gpclass")
    p = model.predict_proba(test)
    assert out.columns.tolist() == [
        "prediction",
        "p(setosa)",
        "p(versicolor)",
        "p(virginica)",
        "latent_variance",
        "variance_left",
        "far",
    ]
    np.testing.assert_array_equal(out.filter(like="p(").to_numpy(), p)  # CSV keeps all digits
    assert out["prediction"].tolist() == model.predict(test).tolist()
    assert np.mean(out["prediction"] == test["class"]) > 0.9
    assert run("predict", folder / "iris.gpclass", folder / "new.csv").stdout == (tmp_path / "out.csv").read_text()
    kept = run("predict", folder / "iris.gpclass", folder / "new.csv", "--keep").stdout.splitlines()[0]
    assert kept.startswith("sepal length (cm),sepal width (cm)")
    told = json.loads(run("predict", folder / "iris.gpclass", folder / "new.csv", "--json").stdout)
    assert told["predictions"][0]["prediction"] == out["prediction"][0]


def test_rows_far_from_the_training_data_are_flagged(folder, tmp_path):
    test = read_table(folder / "new.csv")
    pd.concat([test, test + 100]).to_csv(tmp_path / "far.csv", index=False)
    run("predict", folder / "iris.gpclass", tmp_path / "far.csv", "-o", tmp_path / "out.csv")
    out = read_table(tmp_path / "out.csv")
    far = out["far"].to_numpy()
    assert np.mean(far[: len(test)]) < 0.1  # one in a hundred training rows is as far from all others
    assert np.all(far[len(test) :])
    assert np.allclose(out["variance_left"][len(test) :], 1)


def test_variances_of_two_and_of_more_classes_mean_the_same():
    """Far away all of the prior variance is left, by the measure of both."""
    rng = np.random.default_rng(0)
    X, far = rng.normal(size=(30, 2)), np.full((3, 2), 1e3)
    for engine, n_classes in [("ep", 2), ("nested-ep", 2), ("nested-ep", 3), ("ivm", 3), ("svgp", 3)]:
        y = np.arange(30) % n_classes
        model = gpclass.GPClassifier(gpclass.kernels.RBF(1.0, 3.0), inference=engine, optimizer=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X, y)
        variance, prior = latent_variances(model, far)
        np.testing.assert_allclose(prior, 3.0)
        np.testing.assert_allclose(variance, 3.0, rtol=1e-5)  # inducing variables have noise of 1e-6
        variance, prior = latent_variances(model, X)
        assert np.all(variance < prior)


def test_compare_sorts_by_kfold_nlpd(folder):
    two = read_table(folder / "train.csv").query("`class` != 'setosa'")
    two.to_csv(folder / "two.csv", index=False)
    words = ("compare", folder / "two.csv", "-t", "class", "--engines", "laplace,ep,lr", "--folds", 3)
    told = json.loads(run(*words, "--json").stdout)
    rows = told["engines"]
    scores = [row["kfold_nlpd"] for row in rows]
    assert scores == sorted(scores)
    by_name = {row["engine"]: row for row in rows}
    assert by_name["lr"]["log_evidence"] is None
    assert by_name["laplace"]["log_evidence"] < 0
    assert by_name["ep"]["kfold_nlpd"] < by_name["laplace"]["kfold_nlpd"]  # Laplace is too shy
    assert all(row["seconds"] > 0 and 0 <= row["kfold_error"] < 0.2 for row in rows)
    shown = run(*words).stdout
    assert "no log evidence that could be compared" in shown
    assert "–" in shown


def test_compare_is_cross_validation(folder):
    """The k-fold figure by hand."""
    train = read_table(folder / "train.csv")
    words = ("compare", folder / "train.csv", "-t", "class", "--engines", "laplace", "--folds", 3, "--seed", 4, "--json")
    row = json.loads(run(*words).stdout)["engines"][0]
    y, logs = train["class"].to_numpy(dtype=str), []
    for fit_rows, test_rows in splits(y, 3, seed=4):
        train.iloc[fit_rows].to_csv(folder / "part.csv", index=False)
        train.iloc[test_rows].to_csv(folder / "rest.csv", index=False)
        run("fit", folder / "part.csv", "-t", "class", "-e", "laplace", "--seed", 4, "-o", folder / "part.gpclass")
        told = json.loads(run("predict", folder / "part.gpclass", folder / "rest.csv", "--json").stdout)
        logs.append(told["nlpd"])
    assert row["kfold_nlpd"] == pytest.approx(np.mean(logs), rel=1e-6)  # floats of a CSV file come back as they were


def test_default_engines_fit_the_data():
    assert "ep" in default_engines(200, 2)
    assert set(default_engines(10**5, 2)) <= set(OWN_SCALE)
    assert "nested-ep" in default_engines(100, 3)
    assert set(default_engines(10**5, 10)) <= set(OWN_SCALE)
    assert chosen_engines("EP, laplace,ep", 10, 2) == ("ep", "laplace")
    with pytest.raises(ValueError, match="no engine 'epp'"):
        chosen_engines("epp", 10, 2)
    with pytest.raises(ValueError, match="two classes apart, but there are 3"):
        chosen_engines("ep", 10, 3)


def test_an_engine_that_fails_is_shown(folder):
    words = ("compare", folder / "train.csv", "-t", "class", "--engines", "laplace,nested-ep", "--likelihood", "softmax")
    told = json.loads(run(*words, "--json").stdout)["engines"]
    assert told[-1]["engine"] == "nested-ep"
    assert told[-1]["note"].startswith("failed: ")
    line = run("compare", folder / "train.csv", "-t", "class", "--engines", "nested-ep", "--likelihood", "softmax", code=2)
    assert "all engines failed" in line.stderr


def test_audit(tmp_path):
    run("datasets", "wdbc", "-o", tmp_path / "wdbc.csv")
    read_table(tmp_path / "wdbc.csv").iloc[:60].to_csv(tmp_path / "few.csv", index=False)
    run("fit", tmp_path / "few.csv", "-t", "class", "-o", tmp_path / "m")
    told = json.loads(run("audit", tmp_path / "m", "--json").stdout)
    figures = {row["quantity"]: row["value"] for row in told["quantities"]}
    assert abs(figures["evidence error"]) < 0.5  # EP is close on so few rows
    assert "trusted" in told["verdict"]
    run("fit", tmp_path / "few.csv", "-t", "class", "-o", tmp_path / "ivm", "-e", "ivm")
    assert "IVM" in refused("audit", tmp_path / "ivm")


@pytest.mark.skipif(importlib.util.find_spec("gpclass.assess.report") is None, reason="no reports yet")
def test_report(folder, tmp_path):
    words = ("report", folder / "iris.gpclass", folder / "test.csv", "-o", tmp_path / "r.html", "--engines", "laplace")
    assert "--engines needs --train" in refused(*words)
    words = (*words, "--train", folder / "train.csv")
    run(*words, "--title", "Flowers of three kinds")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "Flowers of three kinds" in page
    assert "has no column 'class'" in refused("report", folder / "iris.gpclass", folder / "new.csv", "-o", tmp_path / "r")


def test_datasets():
    told = json.loads(run("datasets", "--json").stdout)["datasets"]
    assert {"name": "iris", "source": "comes along"}.items() <= told[1].items()
    assert "wdbc" in run("datasets").stdout
    lines = run("datasets", "wine").stdout.splitlines()
    assert len(lines) == 179
    assert lines[0].endswith(",class")
    assert "Did you mean 'iris'" in refused("datasets", "irsi")
    assert "which data set" in refused("datasets", "-o", "x.csv")


def test_demo(tmp_path):
    shown = run("demo", "--folder", tmp_path / "demo").stdout
    assert "$ gpclass fit" in shown
    assert sorted(p.name for p in (tmp_path / "demo").iterdir()) == ["new.csv", "out.csv", "wine.csv", "wine.gpclass"]
    gpclass.load(tmp_path / "demo" / "wine.gpclass")


# kinds of columns -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A table with text, booleans, holes, and a model of it that fills them."""
    folder = tmp_path_factory.mktemp("mixed")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(size=60).round(3), "shape": rng.choice(["round", "flat"], 60), "zip": "01"})
    frame["old"] = rng.random(60) < 0.5
    frame["y"] = np.where(frame["size"] + (frame["shape"] == "flat") > 0.5, 1, 0)
    frame.loc[::9, "size"] = np.nan
    frame.loc[4, "shape"] = None
    frame.to_csv(folder / "mixed.csv", index=False)
    words = ("fit", folder / "mixed.csv", "-t", "y", "--impute", "median", "--kernel", "rbf-ard + linear")
    run(*words, "--drop", "zip", "-o", folder / "m.gpclass")
    return folder


def test_holes_are_filled_only_when_asked(mixed, tmp_path):
    line = refused("fit", mixed / "mixed.csv", "-t", "y", "-o", tmp_path / "m")
    assert "row 1, column 'size' is empty or NA, and 7 more cells in columns 'size', 'shape'" in line
    assert "--impute median" in line
    run("predict", mixed / "m.gpclass", mixed / "mixed.csv", "-o", tmp_path / "out.csv")
    out, y = read_table(tmp_path / "out.csv"), read_table(mixed / "mixed.csv")["y"]
    assert out["prediction"].dtype.kind == "i"
    assert np.mean(out["prediction"] == y) > 0.85


def test_unseen_levels_are_told_and_survived(mixed, tmp_path):
    read_table(mixed / "mixed.csv").assign(shape="square").to_csv(tmp_path / "new.csv", index=False)
    result = run("predict", mixed / "m.gpclass", tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    assert "warning: column 'shape' has 'square' in 60 of 60 rows" in result.stderr
    assert run("predict", mixed / "m.gpclass", tmp_path / "new.csv", "-o", tmp_path / "out.csv", "-q").output == ""


def test_a_model_of_the_command_line_works_in_python(mixed):
    model = gpclass.load(mixed / "m.gpclass")
    frame = pd.DataFrame({"shape": ["flat"], "size": [0.1], "old": [True]})
    assert model.predict_proba(frame).shape == (1, 2)
    assert model["table"].impute == "median"
    assert len(model[-1].kernel_.names) == 6  # four inputs have lengthscales of their own


# complaints -------------------------------------------------------------------------------------------------------------


def test_complaints_are_one_line(folder, tmp_path):
    train, model = folder / "train.csv", folder / "iris.gpclass"
    assert "there is no file" in refused("fit", tmp_path / "none.csv", "-t", "y")
    assert "did you mean 'class'" in refused("fit", train, "-t", "clas")
    assert "no kernel 'rfb'" in refused("fit", train, "-t", "class", "-k", "rfb")
    assert "'epp' is not known" in refused("fit", train, "-t", "class", "-e", "epp")
    assert "Only binary" in refused("fit", train, "-t", "class", "-e", "kl", "-o", tmp_path / "m")
    assert "no column 'x' to drop" in refused("fit", train, "-t", "class", "--drop", "x")
    assert "cannot be dropped" in refused("fit", train, "-t", "class", "--drop", "class")
    assert "no folder" in refused("fit", train, "-t", "class", "-o", tmp_path / "none" / "m")
    assert "measurements, not labels" in refused("fit", train, "-t", "petal width (cm)")
    assert "no model of gpclass" in refused("predict", train, train)
    assert "No such file" in refused("predict", tmp_path / "none", train)
    assert "tables are read from and written to" in refused("predict", model, train, "-o", tmp_path / "out.pdf")
    assert "no folder" in refused("predict", model, train, "-o", tmp_path / "none" / "out.csv")
    pd.DataFrame({"a": [1]}).to_csv(tmp_path / "a.csv", index=False)
    assert "lacks columns 'sepal length (cm)'" in refused("predict", model, tmp_path / "a.csv")
    assert "only column" in refused("compare", tmp_path / "a.csv", "-t", "a")
    pd.DataFrame({"a": [1, 2], "y": ["k", "k"]}).to_csv(tmp_path / "a.csv", index=False)
    assert "one class only, 'k'" in refused("fit", tmp_path / "a.csv", "-t", "y")
    gpclass.save(gpclass.GPClassifier(optimizer=None).fit([[0.0], [1.0]], [0, 1]), tmp_path / "m")
    assert "takes arrays" in refused("predict", tmp_path / "m", train)


def test_wrong_options_end_with_2(folder):
    assert "Missing option" in run("fit", folder / "train.csv", code=2).stderr
    assert run("fit", folder / "train.csv", "-t", "class", "--impute", "mean", code=2).stdout == ""
    assert run("nothing", code=2).stdout == ""


def test_unexpected_failures_end_with_1(folder, monkeypatch):
    def broken(*args, **kwargs):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("gpclass.cli.commands.predictions", broken)
    stderr = run("predict", folder / "iris.gpclass", folder / "new.csv", code=1).stderr
    assert stderr == "gpclass: unexpected failure: ZeroDivisionError: a bug (GPCLASS_DEBUG=1 shows where)\n"
    monkeypatch.setenv("GPCLASS_DEBUG", "1")
    result = CliRunner().invoke(app, ["predict", str(folder / "iris.gpclass"), str(folder / "new.csv")])
    assert isinstance(result.exception, ZeroDivisionError)


def test_help_tells_of_exit_codes():
    for words in (["--help"], *([name, "--help"] for name in ("fit", "predict", "compare", "audit", "report", "demo"))):
        assert "Exit codes" in run(*words).stdout
    assert gpclass.__version__ in run("--version").stdout


def test_python_m_gpclass(folder):
    """In a process of its own, into a pipe that is closed early."""
    words = [sys.executable, "-m", "gpclass", "predict", folder / "iris.gpclass", folder / "new.csv"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, check=True)
    assert done.stdout.startswith("prediction,p(setosa)")
    assert done.stderr == ""


# real files -------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not SHARED.exists(), reason="the papers' data are not here")
@pytest.mark.parametrize(("name", "most"), [("crabs", 0.1), ("new_thyroid", 0.08), ("pima", 0.3)])
def test_real_files(name, most, tmp_path):
    """Written out as CSV: text labels; in pima zeros that stand for missing measurements become empty cells."""
    with np.load(SHARED / f"{name}.npz", allow_pickle=False) as stored:
        frame = pd.DataFrame(stored["X"], columns=stored["feature_names"].astype(str))
        frame["label"] = stored["class_names"].astype(str)[stored["y"]]
    more = ()
    if name == "pima":
        measured = [c for c in frame.columns[1:6]]
        frame[measured] = frame[measured].where(frame[measured] != 0)
        assert frame.isna().any().any()
        more = ("--impute", "median")
    if name == "crabs":
        species = frame.columns[[frame[c].nunique() == 2 for c in frame.columns]][0]
        frame[species] = np.where(frame[species] > 0, "orange", "blue")
    order = np.random.default_rng(0).permutation(len(frame))
    half = min(len(frame) // 2, 200)
    frame.iloc[order[:half]].to_csv(tmp_path / "train.csv", index=False)
    frame.iloc[order[half:]].to_csv(tmp_path / "test.csv.gz", index=False)
    if more:
        assert "is empty" in refused("fit", tmp_path / "train.csv", "-t", "label", "-o", tmp_path / "m")
    run("fit", tmp_path / "train.csv", "-t", "label", "-o", tmp_path / "m", *more)
    told = json.loads(run("predict", tmp_path / "m", tmp_path / "test.csv.gz", "-o", tmp_path / "o.csv", "--json").stdout)
    assert told["rows"] == len(frame) - half
    assert told["error"] < most  # near what the papers have for these sets
    rows = json.loads(
        run("compare", tmp_path / "train.csv", "-t", "label", "--engines", "laplace", "--folds", 2, *more, "--json").stdout
    )["engines"]
    assert rows[0]["kfold_error"] < most + 0.05
