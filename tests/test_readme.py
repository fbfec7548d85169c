"""The README's commands and code run as they stand there."""

import re
import shlex
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons
from typer.testing import CliRunner

import gpclass
from gpclass.cli import app
from gpclass.likelihoods import Logit, Softmax
from gpclass.sparse import ScalableEP

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
SLOW_COMMANDS = ("audit",)  # its own tests run it, on fewer rows


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.S | re.M)


def commands() -> list[list[str]]:
    lines = [line.split("#")[0] for block in blocks("") for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("gpclass ")]


def test_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(commands()) >= 5
    for command in commands():
        if command[0] not in SLOW_COMMANDS:
            result = CliRunner().invoke(app, command)
            assert result.exit_code == 0, f"gpclass {' '.join(command)}: {result.output}"


def code(containing: str) -> str:
    found = [block for block in blocks("python") if containing in block]
    assert len(found) == 1, f"{len(found)} blocks of the README contain {containing!r}"
    return found[0]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimator_and_assessment():
    pytest.importorskip("matplotlib").use("Agg")
    X, y = make_moons(80, noise=0.2, random_state=0)
    names = {"X": X[:40], "y": y[:40], "X_new": X[40:], "X_test": X[40:], "y_test": y[40:], "y_train": y[:40]}
    names |= {"X_pool": X[40:], "gpclass": gpclass}
    exec(code("GPClassifier().fit(X, y)"), names)
    names["theta"] = names["clf"].kernel_.theta
    exec(code("clf.jensen_bound()"), names)
    exec(code("suspicious_labels(clf)"), names)


def test_choosing():
    names = {"GPClassifier": gpclass.GPClassifier}
    exec(code("n_restarts=3"), names)


def test_saving(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = make_moons(40, noise=0.2, random_state=0)
    names = {"clf": gpclass.GPClassifier().fit(X, y)}
    before = names["clf"].predict_proba(X)
    exec(code("gpclass.save"), names)
    np.testing.assert_allclose(names["clf"].predict_proba(X), before, rtol=1e-12)  # the posterior is factorised anew


def test_many_rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, y = make_moons(1300, noise=0.2, random_state=0)
    lines = [f"{a},{b},{label}" for (a, b), label in zip(X[:300], y[:300], strict=True)]
    Path("flights.csv").write_text("\n".join(["a,b,delay", *lines]))
    names = {"GPClassifier": gpclass.GPClassifier, "X": X, "y": y, "X_more": X[:50], "y_more": y[:50]}
    # as written, but for less of it
    text = code("csv_file").replace("n_inducing=200", "n_inducing=20, epochs=1").replace("verbose=1", "verbose=0")
    text = text.replace('inference="stochastic-ep"', "inference=StochasticEP(epochs=1)")
    text = text.replace("active=500", "active=20, major=1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec("from gpclass.sparse import StochasticEP\n" + text, names)
    assert len(names["clf"].inputs_) == 20


def test_engines():
    X, y = make_moons(40, noise=0.2, random_state=0)
    names = {"X": X, "y": 2.0 * y - 1, "X_new": X}
    exec(code("import EP\n"), names)
    X, y = load_iris(return_X_y=True)
    names |= {"X": X[::5], "y": y[::5], "X_new": X[:3]}
    exec(code("NestedEP().fit"), names)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_samplers():
    X, y = load_iris(return_X_y=True)
    names = {"Logit": Logit, "Softmax": Softmax}
    exec("from gpclass.inference import EP\nfrom gpclass.kernels import RBF\nfrom gpclass.likelihoods import Probit", names)
    K = 0.5 * names["RBF"](1.0, 1.0)(X[::15])
    signs = np.where(y[::15] == 0, 1.0, -1.0)
    names |= {"K": K, "y": signs, "fit": names["EP"]().fit(K, signs, Logit())}
    head, _, rest = code("orthant_evidence").partition("importance_sampling(K, y, Softmax(3))")
    exec(head, names)
    exec("importance_sampling(K, codes, Softmax(3))" + rest, names | {"codes": y[::15]})


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_cluster(tmp_path, monkeypatch):
    """On a cluster inside this process, with fewer passes than the default."""
    pytest.importorskip("pyarrow")
    pd, distributed = pytest.importorskip("pandas"), pytest.importorskip("dask.distributed")
    monkeypatch.chdir(tmp_path)
    X, y = make_moons(300, noise=0.2, random_state=0)
    for folder, some in (("flights", slice(200)), ("new_flights", slice(200, 300))):
        Path(folder).mkdir()
        table = pd.DataFrame(X[some], columns=["a", "b"])
        (table.assign(late=y[some]) if folder == "flights" else table).to_parquet(f"{folder}/0.parquet")
    text = code('Client("tcp').replace('Client("tcp://scheduler:8786")', "Client(processes=False, dashboard_address=None)")
    names = {"GPClassifier": lambda inference: gpclass.GPClassifier(inference=ScalableEP(epochs=1), random_state=0)}
    try:
        exec(text + "\nfound = clf.predict_proba(dd.read_parquet('new_flights/')).compute()", names)
    finally:
        distributed.default_client().close()
    assert found_probabilities(names["found"])


def found_probabilities(table) -> bool:
    return list(table.columns) == [0, 1] and np.allclose(table.sum(axis=1), 1.0)
