"""The command line on folders of files and on clusters, against the same commands on one table in one process."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import cross_val_score
from typer.testing import CliRunner

import gpclass
from gpclass import GPClassifier
from gpclass.assess import suspicious_labels, trained_on
from gpclass.choose import engine_named
from gpclass.cli import app
from gpclass.distributed.parts_of_files import file_parts
from gpclass.learning import table_files

distributed = pytest.importorskip("distributed")
pytest.importorskip("pyarrow")

pytestmark = pytest.mark.usefixtures("quick_reports")

SIZES = (20, 25, 15)
QUICK = ("-e", "gfitc", "-k", "rbf")
SAME = {"rtol": 1e-7}  # sums over other parts round differently, and searches for hyperparameters magnify that
SMALL = {"gfitc": {"n_inducing": 10, "learn_inputs": False}, "svgp": {"n_inducing": 10, "epochs": 60}, "ivm": {"active": 15}}


def small(name):
    return replace(engine_named(name), **SMALL.get(name, {}))


@contextmanager
def small_ones():
    """Replace the engines by quick ones, since commands have no options for settings of engines."""
    with pytest.MonkeyPatch.context() as patch:
        for module in ("choose", "cli.training"):
            patch.setattr(f"gpclass.{module}.engine_named", small)
        yield


@pytest.fixture(autouse=True, scope="module")
def small_engines():
    with small_ones():
        yield


@pytest.fixture(scope="module")
def cluster(two_workers):
    return two_workers.scheduler_address


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        yield client


def table(seed=0):
    rng = np.random.default_rng(seed)
    n = sum(SIZES)
    frame = pd.DataFrame({"a": rng.normal(size=n).round(4), "colour": rng.choice(["red", "green", "blue"], n)})
    frame["patient"] = [f"p{i}" for i in range(n)]
    frame["b"] = rng.normal(size=n).round(4)
    noisy = frame["a"] + frame["b"] + (frame["colour"] == "red") + 0.3 * rng.normal(size=n)
    return frame.assign(y=np.where(noisy > 0.3, "yes", "no"))


def written(folder, frame, kind="csv", sizes=SIZES):
    """Write the rows of a table to several files."""
    folder.mkdir()
    edges = np.cumsum([0, *sizes])
    for k, (i, j) in enumerate(pairwise(edges)):
        some = frame.iloc[i:j]
        if kind == "csv":
            some.to_csv(folder / f"{k}.csv", index=False)
        else:
            some.to_parquet(folder / f"{k}.parquet", index=False)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory, cluster, small_engines):
    """A table as one file and as several, and models of both."""
    folder = tmp_path_factory.mktemp("files")
    table().to_csv(folder / "whole.csv", index=False)
    written(folder / "parts", table())
    common = ("-t", "y", "--id", "patient")
    run("fit", folder / "whole.csv", *common, "-e", "laplace", "-k", "rbf", "-o", folder / "whole.gpclass")
    words = ("fit", folder / "parts", *common, *QUICK, "-o", folder / "parts.gpclass", "--cluster", cluster)
    told = run(*words, "--json").stdout
    (folder / "told.json").write_text(told)
    return folder


def run(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == code, result.output + str(result.exception)
    return result


def told(*words):
    return json.loads(run(*words, "--json").stdout)


def refused(*words):
    """Return the one-line error on stderr, without the progress; a second line may suggest a command."""
    written = run(*words, code=2).stderr.strip().splitlines()
    lines = [line for line in written if not re.match(r"\d+:\d\d  ", line)]
    assert len(lines) == 1 or (len(lines) == 2 and lines[1].startswith("try: ")), lines
    assert lines[0].startswith("gpclass: ")
    return lines[0]


def rows_of(folder):
    return pd.concat([pd.read_parquet(path) for path in sorted(folder.iterdir())], ignore_index=True)


def interrupted():
    """Run a command with small engines in a separate process."""
    with small_ones():
        app()


# fit on a cluster ---------------------------------------------------------------------------------------------------------


def test_a_model_of_a_cluster_predicts_as_that_of_one_process(folder):
    one, several = (gpclass.load(folder / f"{name}.gpclass") for name in ("whole", "parts"))
    assert [type(step) for _, step in one.steps] == [type(step) for _, step in several.steps]
    assert one[0].columns_ == several[0].columns_
    # without a client, the parts are in this process
    same = GPClassifier("rbf", inference="gfitc", random_state=0).fit(file_parts(folder / "parts", "y", ["patient"]))
    assert_allclose(several.predict_proba(table(1)), same.predict_proba(table(1)[["a", "colour", "b"]]), **SAME)
    found = json.loads((folder / "told.json").read_text())
    assert found["rows"] == sum(SIZES)
    assert found["workers"] == 2
    assert found["columns"] == ["a", "colour", "b"]
    assert found["classes"] == table()["y"].value_counts().sort_index().to_dict()
    assert_allclose(found["log_evidence"], same.log_evidence_, **SAME)


def test_numbers_need_no_encoder_but_get_one(cluster, client, tmp_path):
    numbers = table().drop(columns=["colour", "patient"]).assign(y=(table()["y"] == "yes").astype(int))
    files = written(tmp_path / "files", numbers, "parquet")
    run("fit", f"{files}/*.parquet", "-t", "y", *QUICK, "-o", tmp_path / "m", "--cluster", cluster)
    model = gpclass.load(tmp_path / "m")
    assert model[-1].classes_.tolist() == [0, 1]
    assert model[0].feature_names_in_.tolist() == ["a", "b"]
    same = GPClassifier("rbf", inference="gfitc", random_state=0).fit(file_parts(files, "y"))
    assert_allclose(model.predict_proba(numbers), same.predict_proba(numbers[["a", "b"]]), **SAME)
    with pytest.raises(TypeError, match="the parts of files contain labels"):
        same.fit(file_parts(files, "y"), [0, 1])


def test_options_of_tables_keep_working_on_a_cluster(cluster, tmp_path):
    frame = table()
    frame.loc[[3, 30], "a"] = np.nan
    options = ("-t", "y", "--drop", "patient, colour", "--impute", "indicator", *QUICK, "--likelihood", "logit")
    options += ("--categories", "yes,no", "--seed", "3")
    found = told("fit", written(tmp_path / "parts", frame), *options, "-o", tmp_path / "m", "--cluster", cluster)
    assert list(found["classes"]) == ["yes", "no"]
    assert found["likelihood"] == "Logit"
    assert found["columns"] == ["a", "b"]
    assert found["inputs"] == 3
    settings = {"missing": "indicator", "categories": ["yes", "no"], "random_state": 3}
    same = GPClassifier("rbf", "logit", "gfitc", **settings)
    same.fit(file_parts(tmp_path / "parts", "y", ["patient", "colour"]))
    p = gpclass.load(tmp_path / "m").predict_proba(frame)
    assert_allclose(p, same.predict_proba(frame[["a", "b"]]), **SAME)


def test_commands_say_what_a_model_of_a_cluster_does_not_know(folder, tmp_path):
    model, data = folder / "parts.gpclass", folder / "whole.csv"
    found = told("predict", model, data)
    assert found["in_training"] is None
    assert found["predictions"][0]["in_training"] is None
    assert found["scored"] == sum(SIZES)
    words = " ".join(run("predict", model, data, "-o", tmp_path / "p.csv").stdout.split())
    assert "in_training not known, because the model was fitted on a cluster; if rows were used for training, their" in words
    assert "in_training: not known" in run("report", model, data, "-o", tmp_path / "r.html").stdout
    assert "does not recognise its training rows" in (tmp_path / "r.html").read_text()
    assert "does not keep its training rows" in refused("audit", model)
    fitted = gpclass.load(model)
    with pytest.raises(ValueError, match="keeps no fingerprints"):
        trained_on(fitted, table())
    with pytest.raises(ValueError, match="has no leave-one-out probabilities"):
        suspicious_labels(fitted)


def test_active_rows_of_a_cluster_are_not_taken_for_all_rows(cluster, folder, tmp_path):
    words = ("-t", "y", "--drop", "patient,colour", "-e", "ivm", "-k", "rbf")
    run("fit", folder / "parts", *words, "-o", tmp_path / "m", "--cluster", cluster)
    run("report", tmp_path / "m", folder / "whole.csv", "-o", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert "The model does not keep its training rows" in page
    assert "training rows, 60 test rows" not in page


def test_what_a_cluster_cannot_do_is_refused(folder, cluster, tmp_path, monkeypatch):
    fit = ("fit", folder / "parts", "-t", "y", "-o", tmp_path / "m")
    assert "choose one" in refused(*fit, "--cluster", cluster, "--workers", 2)
    assert "--jobs is for tables" in refused(*fit, "--cluster", cluster, "--jobs", 2)
    assert "ep needs all rows in one process" in refused(*fit, "--cluster", cluster, "-e", "ep")
    assert "these are names, not categories" in refused(*fit, "--cluster", cluster)
    assert "has no column 'z'" in refused(*fit[:3], "z", "-o", tmp_path / "m", "--cluster", cluster)
    monkeypatch.setattr("gpclass.distributed.clusters.CONNECTING", 0.2)
    assert "there is no Dask scheduler at tcp://127.0.0.1:1 " in refused(*fit, "--cluster", "tcp://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert refused(*fit, "--workers", 2).endswith('clusters need Dask: pip install "gpclass[dask]"')
    assert not (tmp_path / "m").exists()


# folders in one process ---------------------------------------------------------------------------------------------------


def test_a_small_folder_is_one_table(folder, tmp_path):
    common = ("-t", "y", "--id", "patient", "-e", "laplace", "-k", "rbf")
    one = told("fit", folder / "whole.csv", *common, "-o", tmp_path / "one")
    several = told("fit", folder / "parts", *common, "-o", tmp_path / "several")
    for outcome in (one, several):
        del outcome["model"], outcome["seconds"]
    assert several == one
    model = gpclass.load(tmp_path / "several")
    assert model[0].row_names_[SIZES[0]] == f"1 of {folder / 'parts' / '1.csv'} (p{SIZES[0]})"
    assert_array_equal(model.predict_proba(table(1)), gpclass.load(tmp_path / "one").predict_proba(table(1)))


def test_files_of_a_folder_are_checked_as_one_table(tmp_path):
    frame = table().drop(columns=["patient", "colour"])
    words = ("-t", "y", "-e", "laplace", "-o", tmp_path / "m")
    gap = frame.astype({"a": object})
    gap.iloc[SIZES[0] + 5, 0] = None
    files = written(tmp_path / "gap", gap)
    assert f"row 6 of {files / '1.csv'}, column 'a' is empty" in refused("fit", files, *words)
    files = written(tmp_path / "columns", frame)
    frame.iloc[:5].rename(columns={"a": "c"}).to_csv(files / "3.csv", index=False)
    assert f"{files / '3.csv'} has no column 'a', but {files / '0.csv'} has" in refused("fit", files, *words)
    codes = frame.assign(y=np.where(np.arange(len(frame)) < 30, "01", "1"))
    files = written(tmp_path / "codes", codes, sizes=(30, 30))
    assert "labels '01' and '1' of the target 'y' are the same number" in refused("fit", files, *words)
    assert "there are no files" in refused("fit", tmp_path / "*.parquet", *words)
    mixed = written(tmp_path / "mixed", frame.assign(y=["1", "2"] * 10 + ["1", "b", "b", "1", "1"] * 5 + ["2"] * 15))
    run("fit", mixed, *words, "-k", "rbf")
    assert gpclass.load(tmp_path / "m")[-1].classes_.tolist() == ["1", "2", "b"]


def test_a_large_folder_of_numbers_is_a_stream(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("gpclass.cli.training.MOST_CELLS", 100)
    words = ("-t", "y", "-e", "svgp", "-k", "rbf", "-o", tmp_path / "m")
    found = told("fit", folder / "parts", *words, "--drop", "colour", "--id", "patient")
    assert found["rows"] == sum(SIZES)
    assert found["columns"] == ["a", "b"]
    assert found["classes"] == table()["y"].value_counts().sort_index().to_dict()
    files = table_files(folder / "parts", "y", drop=["colour", "patient"])
    same = GPClassifier("rbf", inference="svgp", random_state=0).fit(files)
    model = gpclass.load(tmp_path / "m")
    assert_array_equal(model.predict_proba(table(1)), same.predict_proba(table(1)[["a", "b"]].to_numpy()))
    assert told("predict", tmp_path / "m", folder / "whole.csv")["in_training"] == sum(SIZES)
    message = refused("fit", folder / "parts", *words, "--id", "patient")
    assert "column 'colour' holds" in message
    assert "--workers 2" in message
    assert "does not support --impute: use --workers 2" in refused("fit", folder / "parts", *words, "--impute", "median")


# predictions of several files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["whole", "parts"])
def test_predictions_of_files_are_those_of_the_table(model, folder, cluster, tmp_path):
    model = folder / f"{model}.gpclass"
    one = told("predict", model, folder / "whole.csv", "-o", tmp_path / "one.parquet")
    here = told("predict", model, folder / "parts" / "*.csv", "-o", tmp_path / "here")
    there = told("predict", model, folder / "parts", "-o", tmp_path / "there", "--cluster", cluster)
    whole, rows = pd.read_parquet(tmp_path / "one.parquet"), rows_of(tmp_path / "here")
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == [f"part-{k:05d}.parquet" for k in range(3)]
    pd.testing.assert_frame_equal(rows, rows_of(tmp_path / "there"))
    assert rows["file"].tolist() == np.repeat([str(folder / "parts" / f"{k}.csv") for k in range(3)], SIZES).tolist()
    assert rows["row"].tolist() == [i + 1 for n in SIZES for i in range(n)]
    pd.testing.assert_frame_equal(rows.drop(columns=["file", "row"]), whole.drop(columns="row"))
    for outcome in (here, there):
        assert outcome.pop("files") == 3
        assert outcome.pop("output") != one.get("output")
        for name, value in outcome.items():
            assert_allclose(value, one[name], rtol=1e-12) if name in ("error", "nlpd") else None
            assert name in ("error", "nlpd") or value == one[name]


def test_large_row_groups_are_parts_of_their_own(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("gpclass.distributed.parts_of_files.LARGE_FILE", 100)
    table().to_parquet(tmp_path / "big.parquet", row_group_size=25, index=False)
    found = told("predict", folder / "whole.gpclass", tmp_path / "big.parquet", "-o", tmp_path / "out", "--keep")
    assert found["files"] == 3
    rows = rows_of(tmp_path / "out")
    assert rows["row"].tolist() == list(range(1, sum(SIZES) + 1))
    assert_array_equal(rows["a"], table()["a"])


def test_a_folder_of_predictions_is_replaced_only_by_force(folder, tmp_path):
    model, out = folder / "whole.gpclass", tmp_path / "out"
    run("predict", model, folder / "parts", "-o", out)
    (out / "notes.txt").write_text("mine")
    assert "out is not empty" in refused("predict", model, folder / "parts" / "0.csv", "-o", out)
    run("predict", model, folder / "parts" / "0.csv", "-o", out, "--force")
    assert sorted(path.name for path in out.iterdir()) == ["notes.txt", "part-00000.parquet"]
    assert "contains input files" in refused("predict", model, folder / "parts", "-o", folder / "parts", "--force")
    assert "are written to a folder: name it with -o" in refused("predict", model, folder / "parts")
    assert "has the extension of a file" in refused("predict", model, folder / "parts", "-o", tmp_path / "p.csv")
    assert "no such folder" in refused("predict", model, folder / "parts", "-o", tmp_path / "none" / "p")


def test_a_file_that_cannot_be_predicted_is_named(folder, cluster, tmp_path):
    files = written(tmp_path / "files", table())
    table().drop(columns="b").iloc[:5].to_csv(files / "3.csv", index=False)
    for more in ((), ("--cluster", cluster)):
        message = refused("predict", folder / "whole.gpclass", files, "-o", tmp_path / f"out{len(more)}", *more)
        assert f"{files / '3.csv'}: the table lacks column 'b'" in message
    (files / "3.csv").unlink()
    table().iloc[:5].assign(y="perhaps").to_csv(files / "3.csv", index=False)
    table().iloc[:5].assign(colour="pink").to_csv(files / "4.csv", index=False)
    result = run("predict", folder / "whole.gpclass", files, "-o", tmp_path / "out", "--cluster", cluster)
    assert f"not scored: {files / '3.csv'}: the target 'y' has labels 'perhaps'" in result.stderr
    assert f"warning: {files / '4.csv'}: column 'colour' has 'pink'" in result.stderr
    assert "is in the table: error" not in result.stdout


# jobs ---------------------------------------------------------------------------------------------------------------------


def test_comparisons_do_not_depend_on_the_number_of_jobs(folder, cluster):
    words = ("compare", folder / "parts", "-t", "y", "--drop", "patient,colour", "-k", "rbf", "--folds", 2)
    words += ("--likelihood", "probit")  # which nested-ep does not support
    found = [told(*words, "--engines", "laplace,nested-ep", *more) for more in ((), ("--jobs", 2), ("--cluster", cluster))]
    for outcome in found:
        best, failed = outcome["engines"]
        assert best.pop("seconds") > 0
        assert best["kfold_nlpd"] < np.log(2)
        assert failed["note"].startswith("failed: ")
    assert found[1] == found[0]
    assert found[2] == found[0]


def test_restarts_and_kernels_use_jobs(folder, tmp_path):
    words = ("fit", folder / "whole.csv", "-t", "y", "--drop", "patient,colour", "-e", "laplace", "--restarts", 1)
    found = [told(*words, *more, "-o", tmp_path / "m") for more in ((), ("--jobs", 2))]
    for outcome in found:
        del outcome["seconds"]
    assert found[1] == found[0]
    assert gpclass.load(tmp_path / "m")[-1].n_jobs is None


@pytest.mark.parametrize("settings", [{"n_restarts": 2, "kernel": "rbf"}, {"kernel": "auto"}], ids=["restarts", "kernels"])
def test_dask_is_a_backend_of_joblib(settings, client):
    X, y = table()[["a", "b"]].to_numpy(), table()["y"].to_numpy()
    model = GPClassifier(inference="laplace", random_state=0, **settings)
    alone = model.fit(X, y).predict_proba(X)
    scores = cross_val_score(model, X, y, cv=2)
    with joblib.parallel_config(backend="dask"):
        assert_array_equal(model.set_params(n_jobs=2).fit(X, y).predict_proba(X), alone)
        assert_array_equal(cross_val_score(model.set_params(n_jobs=None), X, y, cv=2), scores)


# checkpoints --------------------------------------------------------------------------------------------------------------


def test_a_checkpoint_needs_minibatches(folder, tmp_path):
    words = ("fit", folder / "whole.csv", "-t", "y", "--drop", "patient", "-o", tmp_path / "m")
    words += ("--checkpoint", tmp_path / "c")
    for more in ((), ("-e", "laplace")):
        assert "--engine with one of scalable-ep, coupled-scalable-ep, stochastic-ep, svgp" in refused(*words, *more)
    assert not (tmp_path / "c").exists()


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is a signal to all processes of a terminal")
@pytest.mark.slow  # kills child processes of a process; Dask's shutdown is slow
def test_after_ctrl_c_the_same_command_continues(folder, cluster, tmp_path):
    words = ["fit", folder / "parts", "-t", "y", "--drop", "patient,colour", "-e", "svgp", "-k", "rbf"]
    words = [str(word) for word in (*words, "-o", tmp_path / "m", "--checkpoint", tmp_path / "c")]
    code = f"import sys; sys.path.insert(0, sys.argv.pop(1)); from {__name__} import interrupted; interrupted()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(Path(__file__).parents[2]), *words, "--workers", "2"],
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 60
    while not (tmp_path / "c").exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    message = process.communicate(timeout=60)[1]
    assert process.returncode not in (0, 2), message
    assert f"the run is saved in {tmp_path / 'c'}, and the same command continues it" in message
    assert "Traceback" not in message, message
    assert not (tmp_path / "m").exists()
    saved = np.load(tmp_path / "c")["epoch"]
    run(*words, "--cluster", cluster)
    continued = gpclass.load(tmp_path / "m")
    assert 0 <= int(saved) < len(continued[-1].history_)
    run(*words[:-2], "--cluster", cluster)
    assert_allclose(continued.predict_proba(table(1)), gpclass.load(tmp_path / "m").predict_proba(table(1)), rtol=1e-9)
