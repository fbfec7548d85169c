"""The command line: embedded data, real files, and errors as one line with an exit code."""

import csv
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import gpclass
from gpclass import sampling
from gpclass.assess import suspicious_labels
from gpclass.assess.folds import splits
from gpclass.choose import engine_named
from gpclass.cli import app, console
from gpclass.cli.compare import chosen_engines, default_engines
from gpclass.cli.models import latent_variances
from gpclass.progress import display
from gpclass.sampling import HMC
from gpclass.tables import read_table

pytestmark = pytest.mark.usefixtures("quick_reports")

SHARED = Path(__file__).parents[3] / "shared" / "data"


def run(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output + str(result.exception)
    assert "Traceback" not in result.output
    return result


def refused(*words):
    """Return the one-line error on stderr, without the progress; a second line may suggest a command."""
    result = run(*words, code=2)
    lines = [line for line in result.stderr.strip().splitlines() if not re.match(r"\d+:\d\d  ", line)]
    assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("try: ")), result.stderr
    assert lines[0].startswith("gpclass: ")
    return lines[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """iris as a table, its two halves, a model of one half, and the output of `fit`."""
    folder = tmp_path_factory.mktemp("cli")
    run("datasets", "iris", "-o", folder / "iris.csv")
    iris = read_table(folder / "iris.csv")
    iris.iloc[::2].to_csv(folder / "train.csv", index=False)
    iris.iloc[1::2].to_csv(folder / "test.csv", index=False)
    iris.iloc[1::2].drop(columns="class").to_csv(folder / "new.csv", index=False)
    told = run("fit", folder / "train.csv", "--target", "class", "-o", folder / "iris.gpclass", "--json").stdout
    (folder / "iris.json").write_text(told)
    return folder


def test_fit_tells_what_was_learned(folder, tmp_path):
    words = ("fit", folder / "train.csv", "-t", "class", "-o", tmp_path / "m", "-e", "laplace", "-k", "linear")
    told = json.loads(run(*words, "--json").stdout)
    assert told["rows"] == 75
    assert told["classes"] == {"setosa": 25, "versicolor": 25, "virginica": 25}
    assert told["engine"] == "Laplace"
    assert told["evidence_is_comparable"]
    model = gpclass.load(tmp_path / "m")
    assert model[-1].log_evidence_ == told["log_evidence"]
    assert 0 < told["loo_nlpd"] < 0.5
    assert "75 rows, 4 columns, 4 inputs" in run(*words).stdout
    assert run(*words, "-q").output == ""


def test_results_go_to_stdout_in_a_notebook_too(folder, tmp_path, monkeypatch):
    """In a notebook rich would display them as HTML, out of order: pages had the output before the command."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    shown = run("fit", folder / "train.csv", "-t", "class", "-o", tmp_path / "m", "-e", "laplace").stdout
    assert "75 rows, 4 columns, 4 inputs" in shown


def test_help_texts_have_the_width_of_the_terminal(monkeypatch):
    """Keeping the line breaks of the docstrings would leave lines of a few words in a narrow terminal."""
    monkeypatch.setenv("COLUMNS", "90")
    for command in ("fit", "predict", "audit", "report", "compare", "explore"):
        text = run(command, "--help").stdout.split("Arguments")[0]
        paragraphs = [part.strip().splitlines() for part in re.split(r"\n\s*\n", text)]
        assert min(len(line.strip()) for lines in paragraphs for line in lines[:-1]) > 60


def test_ordered_categories(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    level = np.digitize(2 * frame["a"] + 0.5 * rng.normal(size=60), [-1, 1])
    order = ["low", "medium", "high"]
    frame.assign(level=level).to_csv(tmp_path / "numbers.csv", index=False)
    frame.assign(level=np.array(order)[level]).to_csv(tmp_path / "words.csv", index=False)
    ordinal = ("-t", "level", "--likelihood", "ordinal", "-k", "rbf")
    told = {}
    for name, more in (("numbers", ()), ("words", ("--categories", "low, medium,high"))):
        out = run("fit", tmp_path / f"{name}.csv", *ordinal, *more, "-o", tmp_path / name, "--json").stdout
        told[name] = json.loads(out)
        assert told[name]["likelihood"] == "Ordinal"
        assert 0 < told[name]["loo_ranked_probability_score"] < 0.3
    assert list(told["words"]["classes"]) == order
    assert told["words"]["log_evidence"] == told["numbers"]["log_evidence"]
    table = json.loads(run("predict", tmp_path / "words", tmp_path / "words.csv", "--json").stdout)
    assert list(table["predicted"]) == order
    assert table["ranked_probability_score"] > 0
    assert [c for c in table["predictions"][0] if c.startswith("p(")] == [f"p({label})" for label in order]
    shown = run("predict", tmp_path / "words", tmp_path / "words.csv", "-o", tmp_path / "p.csv").stdout
    assert "ranked probability score" in " ".join(shown.split())
    assert "have no order" in refused("fit", tmp_path / "words.csv", *ordinal, "-o", tmp_path / "no")
    compared = ("--categories", "low,medium,high", "--folds", "2", "--json")
    rows = json.loads(run("compare", tmp_path / "words.csv", *ordinal, *compared).stdout)["engines"]
    assert {row["engine"] for row in rows} == {"laplace", "ep", "kl"}
    assert all(row["kfold_nlpd"] < 1 for row in rows)
    assert "ordinal; engines that do: " in refused("compare", tmp_path / "words.csv", *ordinal, "--engines", "vb")


def test_predict_writes_what_python_predicts(folder, tmp_path):
    told = run("predict", folder / "iris.gpclass", folder / "test.csv", "-o", tmp_path / "out.csv").stdout
    assert "class is in the table: error" in told
    out, test = read_table(tmp_path / "out.csv"), read_table(folder / "test.csv")
    model = gpclass.load(folder / "iris.gpclass")
    p = model.predict_proba(test)
    assert out["row"].tolist() == list(range(1, 76))
    assert out.columns.tolist() == [
        "row",
        "prediction",
        "p(setosa)",
        "p(versicolor)",
        "p(virginica)",
        "latent_variance",
        "variance_left",
        "far",
        "in_training",
    ]
    np.testing.assert_array_equal(out.filter(like="p(").to_numpy(), p)  # CSV keeps all digits
    assert out["prediction"].tolist() == model.predict(test).tolist()
    assert np.mean(out["prediction"] == test["class"]) > 0.9
    assert run("predict", folder / "iris.gpclass", folder / "new.csv").stdout == (tmp_path / "out.csv").read_text()
    kept = run("predict", folder / "iris.gpclass", folder / "new.csv", "--keep").stdout.splitlines()[0]
    assert kept.startswith("sepal length (cm),sepal width (cm)")
    told = json.loads(run("predict", folder / "iris.gpclass", folder / "new.csv", "--json").stdout)
    assert told["predictions"][0]["prediction"] == out["prediction"].iloc[0]


def test_rows_far_from_the_training_data_are_flagged(folder, tmp_path):
    test = read_table(folder / "new.csv")
    pd.concat([test, test + 100]).to_csv(tmp_path / "far.csv", index=False)
    run("predict", folder / "iris.gpclass", tmp_path / "far.csv", "-o", tmp_path / "out.csv")
    out = read_table(tmp_path / "out.csv")
    far = out["far"].to_numpy()
    assert np.mean(far[: len(test)]) < 0.1  # one in a hundred training rows is this far from all others
    assert np.all(far[len(test) :])
    (test.iloc[:1] + 100).to_csv(tmp_path / "one.csv", index=False)
    told = run("predict", folder / "iris.gpclass", tmp_path / "one.csv", "-o", tmp_path / "one_out.csv").stdout
    assert "1 row is far from all training rows" in told
    left = out["variance_left"].to_numpy()  # less than one far away, since the average includes a linear kernel
    assert np.all((left > 0) & (left <= 1))


def test_variances_of_two_and_of_more_classes_mean_the_same():
    """Far from the data both report all of the prior variance."""
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
    words = ("compare", folder / "two.csv", "-t", "class", "--engines")
    told = json.loads(run(*words, "laplace,ep,lr", "--folds", 3, "--json").stdout)
    rows = told["engines"]
    scores = [row["kfold_nlpd"] for row in rows]
    assert scores == sorted(scores)
    by_name = {row["engine"]: row for row in rows}
    assert by_name["lr"]["log_evidence"] is None
    assert by_name["laplace"]["log_evidence"] < 0
    assert by_name["ep"]["kfold_nlpd"] < by_name["laplace"]["kfold_nlpd"]  # Laplace is underconfident
    assert all(row["seconds"] > 0 and 0 <= row["kfold_error"] < 0.2 for row in rows)
    shown = run(*words, "lr", "--folds", 2, "-k", "linear").stdout
    assert "no log evidence that can be compared" in shown
    assert "–" in shown


def test_compare_is_cross_validation(folder):
    """Compute the k-fold figure by hand."""
    train = read_table(folder / "train.csv")
    settings = ("-t", "class", "-k", "rbf", "--seed", 4)
    words = ("compare", folder / "train.csv", *settings, "--engines", "laplace", "--folds", 3, "--json")
    row = json.loads(run(*words).stdout)["engines"][0]
    y, logs = train["class"].to_numpy(dtype=str), []
    for fit_rows, test_rows in splits(y, 3, seed=4):
        train.iloc[fit_rows].to_csv(folder / "part.csv", index=False)
        train.iloc[test_rows].to_csv(folder / "rest.csv", index=False)
        run("fit", folder / "part.csv", *settings, "-e", "laplace", "-o", folder / "part.gpclass")
        told = json.loads(run("predict", folder / "part.gpclass", folder / "rest.csv", "--json").stdout)
        logs.append(told["nlpd"])
    assert row["kfold_nlpd"] == pytest.approx(np.mean(logs), rel=1e-6)  # a CSV file keeps all digits


def test_default_engines_fit_the_data():
    assert "ep" in default_engines(200, 2)
    assert all(engine_named(name).design != "all rows" for name in default_engines(10**5, 2))
    assert "nested-ep" in default_engines(100, 3)
    assert all(engine_named(name).design != "all rows" for name in default_engines(10**5, 10))
    assert chosen_engines("EP, laplace,ep", 10, 2) == ("ep", "laplace")
    with pytest.raises(ValueError, match="no engine 'epp'"):
        chosen_engines("epp", 10, 2)
    with pytest.raises(ValueError, match=r"not support 3 classes with likelihood auto; engines that do: .*nested-ep"):
        chosen_engines("ep", 10, 3)


def test_an_engine_that_fails_is_shown(folder):
    words = ("compare", folder / "train.csv", "-t", "class", "--likelihood", "softmax", "-k", "linear", "--folds", 2)
    told = json.loads(run(*words, "--engines", "laplace,nested-ep", "--json").stdout)["engines"]
    assert told[-1]["engine"] == "nested-ep"
    assert told[-1]["note"].startswith("failed: ")
    assert "all engines failed" in run(*words, "--engines", "nested-ep", code=2).stderr


def test_a_sampler_reports_progress_without_a_terminal(tmp_path, monkeypatch):
    monkeypatch.setattr(sampling, "HMC", lambda **_: HMC(n_draws=20, n_warmup=20, sample_hyper=True))  # a short run
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "class": np.where(X[:, 0] > 0, "up", "down")}).to_csv(tmp_path / "t.csv")
    words = ["fit", tmp_path / "t.csv", "-t", "class", "-o", tmp_path / "m", "-e", "mcmc", "--json"]
    monkeypatch.setattr(console, "QUIET", 0.0)
    monkeypatch.setattr(display, "LASTING", 0.0)
    monkeypatch.setattr(display, "TICK", 0.001)
    loud = run(*words)
    assert "20 steps of warm-up and 20 draws" in loud.stderr
    json.loads(loud.stdout)
    assert "warm-up" not in run(*words, "-q").stderr


def test_compare_tells_of_classes_with_one_row(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(41, 2)), columns=["u", "v"]).assign(y=["a", "c"] * 20 + ["b"])
    table.to_csv(tmp_path / "one.csv", index=False)
    told = run("compare", tmp_path / "one.csv", "-t", "y", "-k", "rbf", "--engines", "laplace,nested-ep")
    assert told.stderr.count("on all rows and in 4 of 5 folds: class 'b' has only one row.") == 1
    assert "leave such classes out." in told.stderr
    shown = " ".join(told.stdout.split())
    assert "5-fold NLPD: it is infinite, because class 'b' is missing among the training rows of a fold" in shown


def test_audit(tmp_path):
    run("datasets", "wdbc", "-o", tmp_path / "wdbc.csv")
    read_table(tmp_path / "wdbc.csv").iloc[:60].to_csv(tmp_path / "few.csv", index=False)
    run("fit", tmp_path / "few.csv", "-t", "class", "-k", "rbf", "-o", tmp_path / "m")
    told = json.loads(run("audit", tmp_path / "m", "--json").stdout)
    figures = {row["quantity"]: row["value"] for row in told["quantities"]}
    assert abs(figures["evidence error"]) < 0.5  # EP is accurate on so few rows
    assert "trusted" in told["verdict"]
    assert told["compared_at"] == "training rows"
    read_table(tmp_path / "wdbc.csv").iloc[40:90].to_csv(tmp_path / "more.csv", index=False)
    shown = " ".join(run("audit", tmp_path / "m", tmp_path / "more.csv").stdout.split())
    assert "compared at 50 rows of the table" in shown
    assert "training rows 20 of 50 rows were used for training; scores of them are leave-one-out" in shown
    assert "class is in the table: error" in shown
    run("fit", tmp_path / "few.csv", "-t", "class", "-o", tmp_path / "ivm", "-e", "ivm")
    assert "IVM does not keep its training rows" in refused("audit", tmp_path / "ivm")
    read_table(tmp_path / "wdbc.csv").drop(columns="class").to_csv(tmp_path / "bare.csv", index=False)
    assert "this audit needs labels" in refused("audit", tmp_path / "ivm", tmp_path / "bare.csv")
    told = json.loads(run("audit", tmp_path / "ivm", tmp_path / "more.csv", "--json").stdout)
    assert told["sample"] == 50
    assert "EP on all rows of the sample" in told["verdict"]
    shown = " ".join(run("audit", tmp_path / "ivm", tmp_path / "more.csv").stdout.split())
    assert "the same 50 rows and the hyperparameters of the model" in shown


def test_warnings_name_options_of_the_command_line(tmp_path):
    rng = np.random.default_rng(0)
    pd.DataFrame(rng.normal(size=(60, 2))).assign(y=np.arange(60) % 2).to_csv(tmp_path / "noise.csv", index=False)
    told = run("fit", tmp_path / "noise.csv", "-t", "y", "-k", "rbf", "-o", tmp_path / "m").stderr
    assert "of guessing by class frequencies" in told
    assert "--restarts" in told
    assert "n_restarts" not in told
    assert "Scale the columns" not in told  # the command line measures each column in units of its spread


@pytest.mark.slow  # other kernels and engines; test_cluster_cli.py and test_report.py write quicker ones
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
    assert {"name": "iris", "source": "included"}.items() <= told[1].items()
    assert "wdbc" in run("datasets").stdout
    lines = run("datasets", "wine").stdout.splitlines()
    assert len(lines) == 179
    assert lines[0].endswith(",class")
    assert "Did you mean 'iris'" in refused("datasets", "irsi")
    assert "name the data set to write" in refused("datasets", "-o", "x.csv")


def test_demo(tmp_path):
    shown = run("demo", "--folder", tmp_path / "demo").stdout
    assert "$ gpclass fit" in shown
    assert sorted(p.name for p in (tmp_path / "demo").iterdir()) == ["new.csv", "out.csv", "wine.csv", "wine.gpclass"]
    gpclass.load(tmp_path / "demo" / "wine.gpclass")


# rows that the model has seen ------------------------------------------------------------------------------------------


def twins(folder):
    """Flowers of test.csv that equal one of train.csv."""
    train, test = read_table(folder / "train.csv"), read_table(folder / "test.csv")
    inputs = train.columns.drop("class").tolist()
    known = set(train[inputs].itertuples(index=False, name=None))
    return sum(row in known for row in test[inputs].itertuples(index=False, name=None))


def test_training_rows_are_scored_by_leave_one_out(folder, tmp_path):
    """In any table: the figures equal those that `fit` printed."""
    model, fitted = folder / "iris.gpclass", json.loads((folder / "iris.json").read_text())
    told = json.loads(run("predict", model, folder / "train.csv", "-o", tmp_path / "o.csv", "--json").stdout)
    assert told["in_training"] == told["scored_by_leave_one_out"] == 75
    assert (told["error"], told["nlpd"]) == pytest.approx((fitted["loo_error"], fitted["loo_nlpd"]))
    both = json.loads(run("predict", model, folder / "iris.csv", "-o", tmp_path / "b.csv", "--json").stdout)
    out = read_table(tmp_path / "b.csv")
    assert out["in_training"].tolist()[::2] == [True] * 75
    assert both["in_training"] == out["in_training"].sum() == 75 + twins(folder)
    new = json.loads(run("predict", model, folder / "test.csv", "--json").stdout)
    assert both["nlpd"] == pytest.approx((told["nlpd"] + new["nlpd"]) / 2)


def test_predictions_of_training_rows_are_not_called_leave_one_out(folder, tmp_path):
    """The table has the predictions of the model. Only the scores, if there are labels, are leave-one-out."""
    read_table(folder / "train.csv").drop(columns="class").to_csv(tmp_path / "bare.csv", index=False)
    model, seen = folder / "iris.gpclass", "predictions of them come from the model that has seen them"
    for table, scored in ((folder / "train.csv", True), (tmp_path / "bare.csv", False)):
        note = run("predict", model, table).stderr
        assert seen in note
        assert "leave-one-out" not in note
        told = " ".join(run("predict", model, table, "-o", tmp_path / "out.csv", "--force").stdout.split())
        assert seen in told
        assert ("scores of them are leave-one-out" in told) == scored
        p = read_table(tmp_path / "out.csv").filter(like="p(").to_numpy()
        assert np.array_equal(p, gpclass.load(model).predict_proba(read_table(table)))


def test_engines_without_leave_one_out_are_not_scored_by_training_rows(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=50)}).assign(y=lambda t: np.where(t["x"] > 0, "up", "down"))
    frame.iloc[:30].to_csv(tmp_path / "train.csv", index=False)
    frame.to_csv(tmp_path / "all.csv", index=False)
    run("fit", tmp_path / "train.csv", "-t", "y", "-e", "scalable-ep", "-k", "linear", "-o", tmp_path / "m")
    told = json.loads(run("predict", tmp_path / "m", tmp_path / "train.csv", "--json").stdout)
    assert told["in_training"] == 30
    assert "error" not in told
    both = json.loads(run("predict", tmp_path / "m", tmp_path / "all.csv", "--json").stdout)
    assert (both["scored"], both["scored_by_leave_one_out"]) == (20, 0)
    shown = run("report", tmp_path / "m", tmp_path / "train.csv", "-o", tmp_path / "r.html").stdout
    assert "30 of 30 rows were used for training; they are not scored, because ScalableEP" in " ".join(shown.split())
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "can be trusted" not in page
    assert "cannot show how good the model is" in page


def test_the_report_of_training_rows_says_so(patients):
    fitted, told = (json.loads((patients / name).read_text()) for name in ("fit.json", "report.json"))
    assert (told["in_training"], told["nlpd"]) == (40, pytest.approx(fitted["loo_nlpd"]))
    page = (patients / "r.html").read_text(encoding="utf-8")
    assert "40 of 40 rows were used for training" in page
    assert "can be trusted" not in page
    assert "test row" not in page


# names of rows ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def patients(tmp_path_factory):
    """A table with an id column and a wrong label in its 14th row, its model, its report, and the output of both."""
    folder = tmp_path_factory.mktemp("patients")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"who": [f"00{i}" for i in range(40)], "x": rng.normal(size=40).round(4)})
    frame["y"] = np.where(frame["x"] > 0, "ill", "well")
    frame.loc[13, ["x", "y"]] = [1.5, "well"]
    frame.to_csv(folder / "t.csv", index=False)
    table, model = folder / "t.csv", folder / "m"
    (folder / "fit.json").write_text(run("fit", table, "-t", "y", "--id", "who", "-o", model, "--json").stdout)
    (folder / "report.json").write_text(run("report", model, table, "-o", folder / "r.html", "--json").stdout)
    return folder


def test_one_convention_of_row_numbers(patients, tmp_path):
    """Messages, predictions, reports and label checks call the 14th row of the file 14, with its id."""
    model = gpclass.load(patients / "m")
    assert model["table"].feature_names_in_.tolist() == ["x"]
    check = suspicious_labels(model)
    assert (check.index[0], check["name"].iloc[0]) == (13, "14 (0013)")
    run("predict", patients / "m", patients / "t.csv", "-o", tmp_path / "o.csv")
    out = pd.read_csv(tmp_path / "o.csv", dtype={"who": str})
    assert out.loc[13, ["row", "who"]].tolist() == [14, "0013"]
    page = (patients / "r.html").read_text(encoding="utf-8")
    assert page.count('<td class="text">14 (0013)</td>') == 3  # as an uncertain, a training and a scored row
    assert "14 (0013)" in page.split('id="labels"')[1].split("<tbody>")[1].split("</tr>")[0]
    holes = pd.read_csv(patients / "t.csv", dtype=str)
    holes.loc[13, "x"] = None
    holes.to_csv(tmp_path / "holes.csv", index=False)
    assert "row 14 (0013), column 'x' is empty" in refused("predict", patients / "m", tmp_path / "holes.csv")
    assert "row 14 (0013), column 'x' is empty" in refused(
        "fit", tmp_path / "holes.csv", "-t", "y", "--id", "who", "-o", tmp_path / "m"
    )
    assert "row 14, column 'x' is empty" in refused(
        "fit", tmp_path / "holes.csv", "-t", "y", "--drop", "who", "-o", tmp_path / "m"
    )


def test_rows_are_named_the_same_without_an_id(patients, tmp_path):
    run("fit", patients / "t.csv", "-t", "y", "--drop", "who", "-k", "rbf", "-o", tmp_path / "m")
    assert suspicious_labels(gpclass.load(tmp_path / "m"))["name"].iloc[0] == "14"
    run("report", tmp_path / "m", patients / "t.csv", "--id", "who", "-o", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8").split('id="labels"')[1]
    assert '<td class="text">14</td>' in page
    assert '<td class="text">14 (0013)</td>' in page


def test_id_columns_that_cannot_be(patients, tmp_path):
    table, model = patients / "t.csv", patients / "m"
    assert "did you mean 'who'" in refused("fit", table, "-t", "y", "--id", "whom", "-o", tmp_path / "m")
    assert "the target and cannot be the id" in refused("fit", table, "-t", "y", "--id", "y", "-o", tmp_path / "m")
    assert "'x' is an input of the model" in refused("predict", model, table, "--id", "x")
    pd.read_csv(table).drop(columns="who").to_csv(tmp_path / "anonymous.csv", index=False)
    assert run("predict", model, tmp_path / "anonymous.csv").stdout.startswith("row,prediction,")
    assert "no id column 'who'" in refused("predict", model, tmp_path / "anonymous.csv", "--id", "who")


# outputs ----------------------------------------------------------------------------------------------------------------


def test_no_output_replaces_an_input(folder, tmp_path):
    """By any name, also with --force, and before any other work."""
    table, model = tmp_path / "t.csv", tmp_path / "m.gpclass"
    table.write_bytes((folder / "train.csv").read_bytes())
    model.write_bytes((folder / "iris.gpclass").read_bytes())
    (tmp_path / "link.csv").symlink_to(table)
    os.link(table, tmp_path / "hard.csv")
    before = table.read_bytes(), model.read_bytes()
    same = [table, tmp_path / "link.csv", tmp_path / "hard.csv", tmp_path / ".." / tmp_path.name / "t.csv"]
    for output in same:
        for words in (
            ("fit", table, "-t", "class"),
            ("predict", model, table),
            ("report", model, table),
            ("report", model, folder / "test.csv", "--train", table),
        ):
            assert "the same file as the input" in refused(*words, "-o", output, "--force")
    for words in (("predict", model, table), ("report", model, table)):
        line = refused(*words, "-o", model, "--force")
        assert "the same file as the input" in line or "supported table files" in line
    assert (table.read_bytes(), model.read_bytes()) == before


@pytest.mark.slow
def test_files_that_are_something_else_are_replaced_when_forced(folder, tmp_path):
    other = tmp_path / "notes.csv"
    commands = {
        "fit": ("fit", folder / "train.csv", "-t", "class", "-e", "laplace"),
        "predict": ("predict", folder / "iris.gpclass", folder / "test.csv"),
        "datasets": ("datasets", "iris"),
        "report": ("report", folder / "iris.gpclass", folder / "test.csv"),
    }
    for words in commands.values():
        other.write_text("a,b\n1,2\n")
        assert "notes.csv exists" in refused(*words, "-o", other)
        assert other.read_text() == "a,b\n1,2\n"
    run(*commands["predict"], "-o", other, "--force")
    assert other.read_text().startswith("row,prediction")
    # a model may replace a model, and a report a report, but not each other; an empty file may be replaced
    for name in ("m", "r"):
        (tmp_path / name).touch()
    for _ in range(2):
        run(*commands["fit"], "-o", tmp_path / "m")
        run(*commands["report"], "-o", tmp_path / "r")
    assert "is not a gpclass report" in refused(*commands["report"], "-o", tmp_path / "m")
    assert "is not a gpclass model" in refused(*commands["fit"], "-o", tmp_path / "r")
    (tmp_path / "wine.csv").write_text("mine")
    assert "wine.csv exists" in refused("demo", "--folder", tmp_path)
    assert (tmp_path / "wine.csv").read_text() == "mine"


def test_outputs_are_checked_before_the_work(folder, tmp_path, monkeypatch):
    """Commands that cannot write their output stop before they read the data."""

    def reached(*args, **kwargs):
        raise AssertionError("work has begun")

    for name in ("cli.training.read_training", "cli.models.read_model", "datasets.load"):
        monkeypatch.setattr(f"gpclass.{name}", reached)
    train, model = folder / "train.csv", folder / "iris.gpclass"
    commands = [("fit", train, "-t", "class"), ("predict", model, train), ("report", model, train), ("datasets", "iris")]
    for words in commands:
        assert "no such folder" in refused(*words, "-o", tmp_path / "none" / "out.csv")
        assert "exists" in refused(*words, "-o", train) or "same file" in refused(*words, "-o", train)
        (tmp_path / "a.csv").mkdir(exist_ok=True)
        assert "This is a folder" in refused(*words, "-o", tmp_path / "a.csv")
    assert "supported table files are" in refused("predict", model, train, "-o", tmp_path / "out.pdf")


# labels that look like formulas -----------------------------------------------------------------------------------------


def test_labels_that_look_like_formulas_are_text_and_come_back(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60).round(3)})
    labels = np.array(["=HYPERLINK(1)", "-x", "@a", "-1"])
    frame["y"] = labels[np.digitize(frame["x"], [-0.6, 0.0, 0.6])]
    frame.to_csv(tmp_path / "t.csv", index=False)  # as another program wrote it
    run("fit", tmp_path / "t.csv", "-t", "y", "-e", "laplace", "-k", "rbf", "-o", tmp_path / "m")
    shown = run("predict", tmp_path / "m", tmp_path / "t.csv").stdout
    run("predict", tmp_path / "m", tmp_path / "t.csv", "--keep", "-o", tmp_path / "o.csv")
    for text in (shown, (tmp_path / "o.csv").read_text()):
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        assert "'=HYPERLINK(1)" in cells
        assert not any(cell[:1] in ("=", "@") or cell == "-x" for cell in cells)
    out = read_table(tmp_path / "o.csv")
    assert out["y"].tolist() == frame["y"].tolist()
    assert out["prediction"].tolist() == gpclass.load(tmp_path / "m").predict(frame).tolist()
    # a written file can be used for training
    words = ("fit", tmp_path / "o.csv", "-t", "y", "-e", "laplace", "-k", "linear", "-o", tmp_path / "n", "--json")
    assert set(json.loads(run(*words).stdout)["classes"]) == set(labels)


@pytest.mark.parametrize(
    ("first", "second", "third"),
    [
        ("01", "1", "x"),
        *(pytest.param(*labels, marks=pytest.mark.slow) for labels in (("TRUE", "FALSE", "unknown"), ("1.0", "2.0", "-"))),
    ],
)
def test_labels_that_are_text_are_text_in_every_table(first, second, third, tmp_path):
    """Also in a table without the label that shows it: scores of the parts add up to those of the whole table."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=60)})
    frame["y"] = np.select([frame["x"] < -0.5, frame["x"] < 0.5], [first, second], third)
    frame.iloc[:30].to_csv(tmp_path / "train.csv", index=False)
    run("fit", tmp_path / "train.csv", "-k", "rbf", "-t", "y", "-o", tmp_path / "m")
    new = frame.iloc[30:]
    parts = {"all": new, "plain": new[new["y"] != third], "rest": new[new["y"] == third]}
    told = {}
    for name, part in parts.items():
        part.to_csv(tmp_path / f"{name}.csv", index=False)
        told[name] = json.loads(run("predict", tmp_path / "m", tmp_path / f"{name}.csv", "--json").stdout)
    total = sum(told[name]["nlpd"] * told[name]["rows"] for name in ("plain", "rest"))
    assert total == pytest.approx(told["all"]["nlpd"] * told["all"]["rows"])
    parts["plain"].rename(columns={"y": "truth"}).to_csv(tmp_path / "truth.csv", index=False)
    words = ("report", tmp_path / "m", tmp_path / "truth.csv", "-t", "truth", "-o", tmp_path / "r.html", "--json")
    assert json.loads(run(*words).stdout)["nlpd"] == told["plain"]["nlpd"]


def test_labels_of_minus_and_plus_one_stay_numbers(tmp_path):
    frame = pd.DataFrame({"x": np.linspace(-1, 1, 20)})
    frame["y"] = np.where(frame["x"] > 0.1, 1, -1)
    frame.to_csv(tmp_path / "t.csv", index=False)
    run("fit", tmp_path / "t.csv", "-k", "rbf", "-t", "y", "-o", tmp_path / "m")
    run("predict", tmp_path / "m", tmp_path / "t.csv", "-o", tmp_path / "o.csv")
    assert pd.read_csv(tmp_path / "o.csv")["prediction"].tolist() == gpclass.load(tmp_path / "m").predict(frame).tolist()


# kinds of columns -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A table with text, booleans and empty cells, and a model that fills these."""
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
    told = run("predict", mixed / "m.gpclass", mixed / "mixed.csv", "-o", tmp_path / "out.csv").stdout
    assert "scores of them are leave-one-out" in " ".join(told.split())
    out, y = read_table(tmp_path / "out.csv"), read_table(mixed / "mixed.csv")["y"]
    assert out["prediction"].dtype.kind == "i"
    assert np.mean(out["prediction"] == y) > 0.85


def test_unseen_levels_are_reported(mixed, tmp_path):
    read_table(mixed / "mixed.csv").assign(shape="square").to_csv(tmp_path / "new.csv", index=False)
    result = run("predict", mixed / "m.gpclass", tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    assert "warning: column 'shape' has 'square' in 60 of 60 rows" in result.stderr
    assert run("predict", mixed / "m.gpclass", tmp_path / "new.csv", "-o", tmp_path / "two.csv", "-q").output == ""


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
    assert "needs a covariance matrix" in refused("fit", train, "-t", "class", "-k", "precomputed")
    assert "'epp' is not known" in refused("fit", train, "-t", "class", "-e", "epp")
    assert "Only binary" in refused("fit", train, "-t", "class", "-e", "kl", "-o", tmp_path / "m")
    assert "Likelihoods that do: Softmax." in refused(
        "fit", train, "-t", "class", "-e", "laplace", "--likelihood", "robust-max", "-o", tmp_path / "m"
    )
    assert "no column 'x' to drop" in refused("fit", train, "-t", "class", "--drop", "x")
    assert "cannot be dropped" in refused("fit", train, "-t", "class", "--drop", "class")
    assert "no such folder" in refused("fit", train, "-t", "class", "-o", tmp_path / "none" / "m")
    assert "measurements, not labels" in refused("fit", train, "-t", "petal width (cm)")
    assert "not a gpclass model" in refused("predict", train, train)
    assert "No such file" in refused("predict", tmp_path / "none", train)
    assert "supported table files are" in refused("predict", model, train, "-o", tmp_path / "out.pdf")
    assert "no such folder" in refused("predict", model, train, "-o", tmp_path / "none" / "out.csv")
    pd.DataFrame({"a": [1]}).to_csv(tmp_path / "a.csv", index=False)
    assert "lacks columns 'sepal length (cm)'" in refused("predict", model, tmp_path / "a.csv")
    assert "only column" in refused("compare", tmp_path / "a.csv", "-t", "a")
    pd.DataFrame({"a": [1, 2], "y": ["k", "k"]}).to_csv(tmp_path / "a.csv", index=False)
    assert "only one class, 'k'" in refused("fit", tmp_path / "a.csv", "-t", "y")
    gpclass.save(gpclass.GPClassifier(optimizer=None).fit([[0.0], [1.0]], [0, 1]), tmp_path / "m")
    assert "for arrays; commands need a model written by" in refused("predict", tmp_path / "m", train)


def test_wrong_options_end_with_2(folder):
    assert "Missing option" in run("fit", folder / "train.csv", code=2).stderr
    assert run("fit", folder / "train.csv", "-t", "class", "--impute", "mean", code=2).stdout == ""
    assert run("nothing", code=2).stdout == ""


def test_unexpected_failures_end_with_1(folder, monkeypatch):
    def broken(*args, **kwargs):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("gpclass.cli.models.predictions", broken)
    stderr = run("predict", folder / "iris.gpclass", folder / "new.csv", code=1).stderr
    assert stderr == "gpclass: unexpected error: ZeroDivisionError: a bug (set GPCLASS_DEBUG=1 for the traceback)\n"
    monkeypatch.setenv("GPCLASS_DEBUG", "1")
    result = CliRunner().invoke(app, ["predict", str(folder / "iris.gpclass"), str(folder / "new.csv")])
    assert isinstance(result.exception, ZeroDivisionError)


def test_help_tells_of_exit_codes():
    for words in (["--help"], *([name, "--help"] for name in ("fit", "predict", "compare", "audit", "report", "demo"))):
        assert "Exit codes" in run(*words).stdout
    assert gpclass.__version__ in run("--version").stdout


def test_python_m_gpclass(folder):
    """In a separate process, with a pipe that is closed early."""
    words = [sys.executable, "-m", "gpclass", "predict", folder / "iris.gpclass", folder / "new.csv"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, check=True)
    assert done.stdout.startswith("row,prediction,p(setosa)")
    remark = "rows were used for training; predictions of them come from the model that has seen them"
    assert done.stderr.splitlines()[-1] == f"note: {twins(folder)} of 75 {remark}"  # after the progress of the imports


# real files -------------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not SHARED.exists(), reason="the papers' data are not here")
@pytest.mark.slow_cases("new_thyroid-0.08")
@pytest.mark.parametrize(("name", "most"), [("crabs", 0.1), ("new_thyroid", 0.08), ("pima", 0.3)])
def test_real_files(name, most, tmp_path):
    """Written as CSV with text labels; zeros of pima that mean missing measurements become empty cells."""
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
    assert told["error"] < most  # near the published figures of these sets
    rows = json.loads(
        run("compare", tmp_path / "train.csv", "-t", "label", "--engines", "laplace", "--folds", 2, *more, "--json").stdout
    )["engines"]
    assert rows[0]["kfold_error"] < most + 0.05
