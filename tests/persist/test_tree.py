"""Documents of models: only known classes are created, with parameters that they accept; nothing is executed."""

import pytest

import gpclass
from gpclass import ModelFileError
from gpclass.kernels import RBF, ClassCovariance, Correlated
from gpclass.learning.memory import Limit
from gpclass.persist import archive

from .parts import altered, entries, fitted, members_of, packed

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a few iterations must do


@pytest.mark.parametrize("name", ["os.system", "subprocess.Popen", "Kernel", "eval", "GPClassifier", 7, None, ["RBF"], {}])
def test_only_known_classes_are_made(whole, name, tmp_path):
    def change(document):
        entries(document, "Matern32")[0]["kernel"] = name

    with pytest.raises(ModelFileError, match="which is not registered"):
        gpclass.load(altered(whole, tmp_path / "a", change))


def test_constructors_check_what_they_are_given(whole, tmp_path):
    def change(document):
        entries(document, "ep")[0]["with"]["schedule"] = "never"

    with pytest.raises(ModelFileError, match="EP cannot be created: schedule must be"):
        gpclass.load(altered(whole, tmp_path / "a", change))

    def add(document):
        entries(document, "probit")[0]["with"]["noise"] = 3.0

    with pytest.raises(ModelFileError, match="Probit has no parameter noise"):
        gpclass.load(altered(whole, tmp_path / "a", add))


@pytest.mark.parametrize("node", [[], {}, {"values": 1}, {"tuple": [1.0]}, None, "x"])
def test_parameters_of_kernels_are_checked(whole, node, tmp_path):
    def change(document):
        entries(document, "Parameter")[0]["with"]["values"] = node

    with pytest.raises(ModelFileError):
        gpclass.load(altered(whole, tmp_path / "a", change))


@pytest.mark.parametrize("name", ["predict", "posterior_", "_trainer", "kernel", "__class__", "get_params"])
def test_methods_and_settings_cannot_be_replaced(whole, name, tmp_path):
    def change(document):
        entries(document, "GPClassifier")[0]["learned"][name] = "nothing"

    with pytest.raises(ModelFileError, match=f"no attribute '{name}'"):
        gpclass.load(altered(whole, tmp_path / "a", change))


def test_settings_that_came_later_get_their_defaults(whole, tmp_path):
    def change(document):
        for name, setting in (("GPClassifier", "verbose"), ("ep", "damping")):
            for found in entries(document, name):
                del found["with"][setting]

    loaded = gpclass.load(altered(whole, tmp_path / "a", change))
    assert loaded.verbose == 0
    assert loaded.inference_.damping == type(loaded.inference_)().damping


def test_covariances_that_do_not_fit_are_not_taken(whole, tmp_path, monkeypatch):
    """The size of files grows with the number of rows, that of covariances with its square."""
    monkeypatch.setattr("gpclass.persist.models.limits", lambda: [Limit(10**4, 10**4, "this machine has")])
    (tmp_path / "a").write_bytes(whole)
    with pytest.raises(ModelFileError, match=r"uses 45 rows, .* this machine has"):
        gpclass.load(tmp_path / "a")


@pytest.mark.parametrize("n_classes", [1001, 10**9, 10**30, 2.5, "3"])
def test_numbers_of_classes_are_bounded(n_classes, tmp_path):
    """Some objects make a list of all pairs of classes."""
    model = fitted(3, kernel=Correlated(RBF(1.0), ClassCovariance(3)), inference="variational-mnl", optimizer=None)
    gpclass.save(model, tmp_path / "model.gpclass")

    def change(document):
        entries(document, "ClassCovariance")[0]["with"] = {"n_classes": n_classes}

    with pytest.raises(ModelFileError, match="classes"):
        gpclass.load(altered((tmp_path / "model.gpclass").read_bytes(), tmp_path / "a", change))


def test_nested_documents_are_refused(whole, tmp_path):
    for depth in (150, 100_000):
        text = b"[" * depth + b"]" * depth
        with pytest.raises(ModelFileError, match=r"nested more than|not valid JSON"):
            gpclass.load(packed({**members_of(whole), "model.json": text}, tmp_path / "a"))


def test_documents_that_would_be_refused_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="cannot be saved: its structure has about"):
        archive.write(tmp_path / "a", {"model": [0] * archive.MOST_NODES}, [])
    assert not list(tmp_path.iterdir())
