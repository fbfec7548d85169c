"""Names of classes in files: public ones, those of other packages, and one for each engine and kernel."""

import dataclasses
import json
from typing import ClassVar

import pytest

import gpclass
from gpclass import ModelFileError
from gpclass.engines import Engine
from gpclass.expressions import kernel_names, parse_kernel
from gpclass.inference import EP, KL
from gpclass.kernels import RBF
from gpclass.likelihoods import Logit, Sigmoid
from gpclass.persist import registry
from gpclass.registry import _classes, register, registered

from .parts import NEW, close, fitted, members_of, round_trip

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a few iterations must do

def test_files_name_public_names_only(tmp_path):
    """Kinds and public names only: no modules, private classes or private attributes of gpclass."""
    model = fitted(3, kernel=RBF([1.0, 2.0, 3.0]) + RBF(2.0).fix("variance"))
    gpclass.save(model, tmp_path / "model.gpclass")
    document = json.loads(members_of((tmp_path / "model.gpclass").read_bytes())["model.json"])
    seen = set()

    def look(node):
        if isinstance(node, dict):
            seen.update(node)
            seen.update(v for k, v in node.items() if k in set(registry.KINDS) and isinstance(v, str))
        for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else []:
            look(part)

    look(document)
    assert {"GPClassifier", "Sum", "RBF", "multinomial-probit", "nested-ep", "kernel_", "tau"} <= seen
    assert not [name for name in seen if name.startswith("_") or "." in name]


class OwnKernel(RBF):
    pass


# classes of one's own ---------------------------------------------------------------------------------------------------


@pytest.fixture
def clean_registry():
    """Remove the names that a test registers."""
    before = {kind: dict(table) for kind, table in _classes.items()}
    yield
    _classes.update(before)


@dataclasses.dataclass(frozen=True)
class OwnEngine(Engine):
    """An engine of K × scalar sites: for files it needs only a name."""

    tol: float = 1e-7
    needs: ClassVar = KL.needs

    def fit(self, K, y, likelihood, start=None):
        return dataclasses.replace(KL(tol=self.tol).fit(K, y, likelihood, start), engine=self)

    def evidence_gradient(self, fit):
        return KL().evidence_gradient(fit)


@dataclasses.dataclass(frozen=True)
class OwnLikelihood(Sigmoid):
    """The logistic function, made steeper."""

    slope: float = 2.0

    def log_prob(self, y, f):
        value, d1, d2 = Logit().log_prob(y, self.slope * f)
        return value, self.slope * d1, self.slope**2 * d2

    def log_prob_third(self, y, f):
        return self.slope**3 * Logit().log_prob_third(y, self.slope * f)


def test_classes_of_ones_own_come_back(tmp_path, clean_registry):
    register(OwnKernel)
    register(OwnEngine, "Mine")
    register(OwnLikelihood, "Steep")
    settings = {"kernel": OwnKernel(1.3, 2.0), "likelihood": OwnLikelihood(slope=1.5), "inference": OwnEngine(tol=1e-6)}
    model = fitted(optimizer=None, **settings)
    loaded = round_trip(model, tmp_path)
    assert close(model.predict_proba(NEW), loaded.predict_proba(NEW))
    assert (type(loaded.kernel_), loaded.likelihood_, loaded.inference_) == (OwnKernel, *list(settings.values())[1:])
    data = (tmp_path / "model.gpclass").read_bytes()
    assert b'{"engine":"Mine"' in members_of(data)["model.json"]
    del _classes["engine"]["Mine"]
    with pytest.raises(ModelFileError, match=r"needs the engine 'Mine', which is not registered: .*import"):
        gpclass.load(tmp_path / "model.gpclass")


def test_constructors_that_hide_their_parameters_are_named(tmp_path, clean_registry):
    @register
    class Hidden(EP):
        def __init__(self, strength=1.0):
            super().__init__()

    with pytest.raises(TypeError, match=r"Hidden takes strength, .* declared\(\)"):
        gpclass.save(fitted(inference=Hidden(), optimizer=None), tmp_path / "a")


def test_every_engine_and_kernel_has_a_name():
    for name, engine in registered("engine").items():
        assert registry.name_of(engine) == ("engine", name)
    for name in kernel_names():
        assert registry.name_of(type(parse_kernel(name, 3)))[0] == "kernel"
