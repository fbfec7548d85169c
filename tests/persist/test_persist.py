"""Models on disk: everything comes back but for rounding, nothing but a whole model comes back, nothing is executed."""

import dataclasses
import hashlib
import inspect
import io
import json
import re
import subprocess
import sys
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import kernels as sk
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, RobustScaler, StandardScaler

import gpclass
from gpclass import GPClassifier, GPRegressor, ModelFileError
from gpclass.choose import engines_for
from gpclass.engines import Engine
from gpclass.expressions import kernel_names, parse_kernel
from gpclass.inference import EP, KL, Laplace, QuadratureEP
from gpclass.kernels import RBF, ClassCovariance, Correlated, PerClass
from gpclass.learning import Normal
from gpclass.learning.memory import Limit
from gpclass.likelihoods import Heaviside, Logit, MultinomialProbit, OneAgainstRest, Probit, RobustMax, Sigmoid, Softmax
from gpclass.persist import archive, registry, tree
from gpclass.registry import _classes, register, registered
from gpclass.sampling import HMC, EllipticalSlice, Gibbs, audit
from gpclass.sparse import IVM, SVGP, ScalableEP, SparseVariationalMNL, StochasticEP
from gpclass.tables import TableEncoder

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a few iterations must do
FIXTURES = Path(__file__).parents[1] / "fixtures"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(45, 3))
F = X[:, 0] + 0.5 * X[:, 1] ** 2
NEW = RNG.normal(size=(11, 3))
QUICK = {  # by name they would train for seconds
    "svgp": SVGP(n_inducing=9, epochs=2),
    "stochastic-ep": StochasticEP(n_inducing=9, epochs=2),
    "scalable-ep": ScalableEP(n_inducing=9, epochs=2),
    "ivm": IVM(active=15, major=1, minor=2),
}


def labels(n_classes):
    return np.digitize(F, np.quantile(F, np.arange(1, n_classes) / n_classes))


def fitted(n_classes=2, **settings):
    settings = {"max_iter": 2, "random_state": 0} | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two iterations do not converge
        return GPClassifier(**settings).fit(X, labels(n_classes))


def round_trip(model, tmp_path):
    gpclass.save(model, tmp_path / "model.gpclass")
    return gpclass.load(tmp_path / "model.gpclass")


def same(a, b):
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f")


def close(a, b):
    """The same but for rounding: K and sites are the same to the last bit, and one factorisation of them moves answers by
    eps × condition of B, here at most some 1e3."""
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b, strict=True))
    return np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-12, atol=1e-12, equal_nan=True)


def assert_same_answers(model, loaded):
    assert same(model.predict(NEW), loaded.predict(NEW))
    for question in ("predict_log_proba", "latent", "predict_proba_std"):
        assert close(getattr(model, question)(NEW), getattr(loaded, question)(NEW)), question
    assert same(model.classes_, loaded.classes_)
    assert model.kernel_ == loaded.kernel_
    if hasattr(model, "log_evidence_"):
        assert model.log_evidence_ == loaded.log_evidence_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few draws
        try:
            p = model.loo()
        except AttributeError:  # engines on inducing points keep no rows
            return
        assert close(p, loaded.loo())


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("engine", registered("engine"))
def test_every_engine_comes_back(engine, n_classes, tmp_path):
    if n_classes > 2 and engine not in engines_for(n_classes):
        with pytest.raises(ValueError, match="binary"):
            fitted(n_classes, inference=engine)
        return
    model = fitted(n_classes, inference=QUICK.get(engine, engine))
    assert_same_answers(model, round_trip(model, tmp_path))


@pytest.mark.parametrize("engine", registered("engine"))
def test_every_likelihood_comes_back(engine, tmp_path):
    """With each engine that takes it."""
    one, taken = OneAgainstRest(3, binary=Logit()), 0
    several = [RobustMax(3, epsilon=0.02), Softmax(3, bias=(0.1, 0.0, -0.2)), MultinomialProbit(3), one]
    noisy = Probit(epsilon=0.1), MultinomialProbit(3, epsilon=0.1)
    for likelihood in (Probit(bias=0.3), Logit(), Heaviside(0.1), *several, *noisy):
        settings = {"likelihood": likelihood, "inference": QUICK.get(engine, engine), "optimizer": None}
        try:
            model = fitted(max(2, likelihood.n_latents), kernel=RBF(1.5, 2.0), **settings)
        except (TypeError, ValueError, AttributeError):  # what the engine cannot do with
            continue
        assert_same_answers(model, round_trip(model, tmp_path))
        taken += 1
    assert taken


@pytest.mark.parametrize(
    "engine",
    [
        Laplace(correction="tierney-kadane"),
        EP(schedule="sequential"),
        QuadratureEP(coupled=False),
        IVM(active=20, sweeps=3, major=1, minor=2),
        SparseVariationalMNL(inducing=30, whole=True),
    ],
    ids=lambda engine: type(engine).__name__,
)
def test_what_engines_do_on_request_comes_back(engine, tmp_path):
    for n_classes in (2, 3):
        try:
            model = fitted(n_classes, inference=engine, optimizer=None, kernel=RBF(1.5, 2.0))
        except ValueError:
            assert n_classes > 2
            continue
        assert_same_answers(model, round_trip(model, tmp_path))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "sampler",
    [
        HMC(n_draws=6, n_warmup=6),
        HMC(n_draws=6, n_warmup=6, sample_hyper=True),
        EllipticalSlice(n_draws=6, n_warmup=6),
        Gibbs(n_draws=6, n_warmup=6),
    ],
    ids=["hmc", "hyper", "elliptical", "gibbs"],
)
def test_draws_come_back(sampler, n_classes, tmp_path):
    likelihood = "multinomial-probit" if n_classes > 2 else "probit"
    model = fitted(n_classes, inference=sampler, likelihood=likelihood)
    assert_same_answers(model, round_trip(model, tmp_path))


OF_NUMBERS = [name for name in kernel_names() if name != "precomputed"]  # which test_other_inputs_estimator.py saves


@pytest.mark.parametrize("text", [*OF_NUMBERS, "rbf-ard * linear + constant", "(rbf + periodic) * matern32"])
def test_every_kernel_comes_back(text, tmp_path):
    model = fitted(kernel=parse_kernel(text, 3), optimizer=None, inference="laplace")
    loaded = round_trip(model, tmp_path)
    assert_same_answers(model, loaded)
    assert loaded.kernel_.names == model.kernel_.names


@pytest.mark.parametrize(
    "settings",
    [
        {"kernel": PerClass(RBF(1.0), RBF(2.0).fix("variance"), RBF(3.0)), "inference": "nested-ep"},
        {"kernel": Correlated(RBF(1.0), ClassCovariance(3)), "inference": "variational-mnl"},
        {"likelihood": RobustMax(3, epsilon=0.01)},
        {"likelihood": MultinomialProbit(3, learn_bias=True)},
        {"likelihood": "softmax", "inference": SVGP(n_inducing=7, epochs=1)},
        {"kernel": sk.ConstantKernel(2.0) * sk.RBF([1.0, 2.0, 3.0])},
        {"priors": {"lengthscale": Normal(0.0, 1.0)}, "random_state": np.random.RandomState(3)},
        {"inference": ScalableEP(n_inducing=7, per_class=True)},
    ],
    ids=lambda settings: " ".join(settings),
)
def test_settings_come_back(settings, tmp_path):
    model = fitted(3, **settings)
    loaded = round_trip(model, tmp_path)
    assert_same_answers(model, loaded)
    before, after = model.get_params(), loaded.get_params()
    assert before.keys() == after.keys()
    for name in before.keys() - {"random_state", "kernel"}:
        assert type(before[name]) is type(after[name])


@pytest.mark.parametrize("engine", ["exact", "ivm"])
def test_a_regressor_comes_back(engine, tmp_path):
    model = GPRegressor(inference=engine, max_iter=3, random_state=0).fit(X, F + 0.3 * np.sin(50 * X[:, 2]))
    loaded = round_trip(model, tmp_path)
    assert close(model.predict(NEW, return_std=True), loaded.predict(NEW, return_std=True))
    assert (model.log_evidence_, model.noise_variance_) == (loaded.log_evidence_, loaded.noise_variance_)


def test_a_loaded_model_goes_on_working(tmp_path):
    model = fitted(inference="ep")
    loaded = round_trip(model, tmp_path)
    theta = model.kernel_.theta
    assert close(model.log_evidence(theta + 0.1, eval_gradient=True), loaded.log_evidence(theta + 0.1, eval_gradient=True))
    assert close(model.jensen_bound(), loaded.jensen_bound())
    assert same([step[:5] for step in model.history_], [step[:5] for step in loaded.history_])
    sampler = HMC(n_draws=5, n_warmup=5, random_state=0)
    told = audit(model, sampler=sampler), audit(loaded, sampler=sampler)
    assert close(*([v for v in vars(t).values() if isinstance(v, float)] for t in told))
    assert close(model.fit(X, labels(2)).predict_proba(NEW), loaded.fit(X, labels(2)).predict_proba(NEW))


def test_rows_that_come_later(tmp_path):
    """IVM goes on where it was; runs on minibatches have lost their place, and say so."""
    model = fitted(inference=QUICK["ivm"])
    loaded = round_trip(model, tmp_path)
    more = np.array([0, 1] * 5), NEW[:10]
    assert close(
        model.partial_fit(more[1], more[0]).predict_proba(NEW), loaded.partial_fit(more[1], more[0]).predict_proba(NEW)
    )
    loaded = round_trip(fitted(inference=QUICK["svgp"]), tmp_path)
    with pytest.raises(ValueError, match="cannot continue training"):
        loaded.partial_fit(more[1], more[0])


def test_draws_do_not_go_on(tmp_path):
    """Files keep the draws, not the chains."""
    sampler = HMC(n_draws=6, n_warmup=6, random_state=0)
    loaded = round_trip(fitted(inference=sampler, optimizer=None), tmp_path)
    with pytest.raises(TypeError, match="without hyperparameters, and with their state"):
        sampler.fit(loaded.kernel_(X), loaded.posterior_.y, loaded.likelihood_, start=loaded.posterior_)


def test_there_must_be_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such folder"):
        gpclass.save(fitted(optimizer=None), tmp_path / "none" / "model.gpclass")


def mixed_frame(n=45):
    frame = pd.DataFrame(X[:n], columns=["a", "b", "c"])
    frame["colour"] = np.where(F[:n] > 0, "red", "blue")
    frame["count"] = np.arange(n) % 5
    return frame


@pytest.mark.parametrize(
    "steps",
    [
        [StandardScaler()],
        [MinMaxScaler(), StandardScaler(with_mean=False)],
        [SimpleImputer(strategy="median"), StandardScaler()],
    ],
    ids=str,
)
def test_pipelines_of_arrays_come_back(steps, tmp_path):
    holes = X.copy()
    if isinstance(steps[0], SimpleImputer):
        holes[::7, 1] = np.nan
    model = make_pipeline(*steps, GPClassifier(max_iter=3)).fit(holes, labels(3))
    loaded = round_trip(model, tmp_path)
    assert close(model.predict_proba(NEW), loaded.predict_proba(NEW))


def test_pipelines_of_frames_come_back(tmp_path):
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b"]),
            ("levels", OneHotEncoder(handle_unknown="ignore"), ["colour"]),
        ],
        remainder="passthrough",
    )
    frame, y = mixed_frame(), np.where(labels(2), "yes", "no")
    for first in (columns, TableEncoder(impute="median")):
        model = make_pipeline(first, GPClassifier(max_iter=3)).fit(frame, y)
        loaded = round_trip(model, tmp_path)
        new = frame.iloc[::-3].assign(colour="green")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # green was not there
            assert close(model.predict_proba(new), loaded.predict_proba(new))
        assert loaded.predict(frame).tolist() == model.predict(frame).tolist()


def test_text_labels_and_names_come_back(tmp_path):
    for y in (np.where(labels(2), "ja", "nein"), np.where(labels(2), "ja", "nein").astype(object), labels(2) > 0):
        model = GPClassifier(optimizer=None).fit(mixed_frame()[["a", "b"]], y)
        loaded = round_trip(model, tmp_path)
        assert loaded.classes_.tolist() == model.classes_.tolist()
        assert loaded.feature_names_in_.tolist() == ["a", "b"]


def test_files_grow_with_rows_not_with_their_square(tmp_path):
    """40 numbers of 8 bytes for each row are more than labels, inputs, sites, moments and fingerprints take."""
    sizes = []
    for n in (100, 400):
        rows = RNG.normal(size=(n, 3))
        gpclass.save(GPClassifier(inference="ep", optimizer=None).fit(rows, rows[:, 0] > 0), tmp_path / "model.gpclass")
        sizes.append((tmp_path / "model.gpclass").stat().st_size)
    assert sizes[1] - sizes[0] < 300 * 40 * 8


def test_files_name_public_names_only(tmp_path):
    """Kinds and names; of gpclass no module, no private class, no private attribute."""
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


def test_the_same_model_makes_the_same_file(tmp_path):
    model = fitted(3)
    for name in ("one", "two"):
        gpclass.save(model, tmp_path / name)
    gpclass.save(gpclass.load(tmp_path / "one"), tmp_path / "three")
    first = (tmp_path / "one").read_bytes()
    assert first == (tmp_path / "two").read_bytes() == (tmp_path / "three").read_bytes()


# what cannot be saved ---------------------------------------------------------------------------------------------------


def favour_small(theta):
    return -(theta**2), -2 * theta


class OwnKernel(RBF):
    pass


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"priors": favour_small}, r"model\.priors is the function favour_small"),
        ({"kernel": OwnKernel(1.0)}, r"model\.kernel is an object of type OwnKernel, .*gpclass\.register\(OwnKernel\)"),
    ],
)
def test_what_is_no_data_is_refused_by_name(settings, told, tmp_path):
    (tmp_path / "model.gpclass").write_text("as it was")
    with pytest.raises(TypeError, match=told):
        gpclass.save(fitted(**settings), tmp_path / "model.gpclass")
    assert [p.name for p in tmp_path.iterdir()] == ["model.gpclass"]
    assert (tmp_path / "model.gpclass").read_text() == "as it was"


def test_other_models_are_refused(tmp_path):
    with pytest.raises(NotFittedError):
        gpclass.save(GPClassifier(), tmp_path / "a")
    with pytest.raises(TypeError, match="not StandardScaler"):
        gpclass.save(StandardScaler(), tmp_path / "a")
    with pytest.raises(TypeError, match="RobustScaler"):
        gpclass.save(make_pipeline(RobustScaler(), GPClassifier(optimizer=None)).fit(X, labels(2)), tmp_path / "a")


# classes of one's own ---------------------------------------------------------------------------------------------------


@pytest.fixture
def clean_registry():
    """Names that a test registers are gone after it."""
    before = {kind: dict(table) for kind, table in _classes.items()}
    yield
    _classes.update(before)


@dataclasses.dataclass(frozen=True)
class OwnEngine(Engine):
    """An engine of K × scalar sites: it needs nothing for files but a name."""

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


def test_constructors_that_hide_their_parameters_are_told(tmp_path, clean_registry):
    @register
    class Hidden(EP):
        def __init__(self, strength=1.0):
            super().__init__()

    with pytest.raises(TypeError, match=r"Hidden takes strength, .* declared\(\)"):
        gpclass.save(fitted(inference=Hidden(), optimizer=None), tmp_path / "a")


# files that are no models -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "model.gpclass"
    gpclass.save(fitted(inference="ep", optimizer=None), path)
    return path.read_bytes()


def members_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members, path, checksums=True):
    """A zip of these members, with the checksums that they have now."""
    if checksums:
        manifest = json.loads(members["manifest.json"])
        manifest["members"] = {n: hashlib.sha256(d).hexdigest() for n, d in members.items() if n != "manifest.json"}
        members = {**members, "manifest.json": json.dumps(manifest).encode()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def altered(data, path, change):
    """The same file with a changed document."""
    members = members_of(data)
    document = json.loads(members["model.json"])
    change(document)
    return packed({**members, "model.json": json.dumps(document).encode()}, path)


def entries(node, name):
    """All objects of a class in a document."""
    if isinstance(node, dict):
        kinds = set(registry.KINDS) & node.keys()
        found = [node] if any(node[kind] == name for kind in kinds) else []
        return found + [e for part in node.values() for e in entries(part, name)]
    return [e for part in node for e in entries(part, name)] if isinstance(node, list) else []


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_part_of_a_file_is_refused(whole, share, tmp_path):
    path = tmp_path / "part"
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ModelFileError, match="not a gpclass model, or is incomplete"):
        gpclass.load(path)


def test_altered_members_are_refused(whole, tmp_path):
    members = members_of(whole)
    array = next(name for name in members if name.endswith(".npy"))
    members[array] = members[array][:-1] + bytes([members[array][-1] ^ 1])
    with pytest.raises(ModelFileError, match=f"{array} was changed"):
        gpclass.load(packed(members, tmp_path / "a", checksums=False))
    for name in members:
        if name.endswith(".npy"):
            members[name] = members[name][:-80] + np.full(10, 7.0).tobytes()
    with pytest.raises(ModelFileError, match="differ from the stored ones"):
        gpclass.load(packed(members, tmp_path / "a"))  # new checksums: latent values tell


def test_other_members_are_refused(whole, tmp_path):
    members = members_of(whole)
    with pytest.raises(ModelFileError, match="differ from those listed in the manifest"):
        gpclass.load(packed({**members, "extra.py": b"1"}, tmp_path / "a", checksums=False))
    with pytest.raises(ModelFileError, match="must be a document and numbered arrays"):
        gpclass.load(packed({**members, "extra.py": b"1"}, tmp_path / "a"))


@pytest.mark.parametrize("version", [1, 3, "2", None, True])
def test_other_formats_are_refused(whole, version, tmp_path):
    members = members_of(whole)
    manifest = json.loads(members["manifest.json"]) | {"version": version, "written_by": {"gpclass": "9.9"}}
    members["manifest.json"] = json.dumps(manifest).encode()
    with pytest.raises(ModelFileError, match=rf"format version {version}.*reads version 2.*gpclass 9\.9"):
        gpclass.load(packed(members, tmp_path / "a"))


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "a"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hello.txt", "hello")
    with pytest.raises(ModelFileError, match="no manifest"):
        gpclass.load(path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ModelFileError, match="not a gpclass model"):
        gpclass.load(path)
    with pytest.raises(FileNotFoundError):
        gpclass.load(tmp_path / "nothing")


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


@pytest.mark.parametrize(
    ("dtype", "value"),
    [*(("<f8", value) for value in (None, "1.5", True, "Infinity")), *(("<i8", value) for value in (None, 1.5, "7", True)),
     ("|b1", None), ("|b1", 2), ("<U3", 1), ("<U3", None), ("|O", [1]), ("<c16", 1.0), ("|S3", "a")],
)  # fmt: skip
def test_arrays_hold_only_values_of_their_type(dtype, value, tmp_path):
    """NumPy would convert some of them: null to NaN in an array of numbers, 1.5 to 1 in one of whole numbers."""
    with pytest.raises(ModelFileError, match=r"has the value|cannot have the type"):
        tree.decode({"a": {"array": {"dtype": dtype, "shape": [1], "values": [value]}}}, [])


@pytest.mark.parametrize("array", [[1.5, np.nan, np.inf, -np.inf], [1, -2], [True, False], ["a", "bc"], [None, "x", 1, 0.5]])
def test_small_arrays_come_back(array):
    array = np.array(array, dtype=object if None in array else None)
    document, arrays = tree.encode({"a": array})
    found = tree.decode(json.loads(json.dumps(document)), arrays)["a"]
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


def test_pickles_are_not_read(whole, tmp_path):
    members = members_of(whole)
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.array([Bomb()], dtype=object), allow_pickle=True)
    array = next(name for name in members if name.endswith(".npy"))
    members[array] = stream.getvalue()
    with pytest.raises(ModelFileError, match="which models and checkpoints do not contain"):
        gpclass.load(packed(members, tmp_path / "a"))
    assert not Bomb.exploded


class Bomb:
    exploded = False

    def __reduce__(self):
        return _explode, ()


def _explode():
    Bomb.exploded = True


@pytest.mark.parametrize("name", ["predict", "posterior_", "_trainer", "kernel", "__class__", "get_params"])
def test_methods_and_settings_cannot_be_replaced(whole, name, tmp_path):
    def change(document):
        entries(document, "GPClassifier")[0]["learned"][name] = "nothing"

    with pytest.raises(ModelFileError, match=f"no attribute '{name}'"):
        gpclass.load(altered(whole, tmp_path / "a", change))


def test_a_changed_number_is_noticed(whole, tmp_path):
    def change(document):
        for parameter in entries(document, "Parameter"):
            parameter["with"]["values"] = {"tuple": [1.234 * value for value in parameter["with"]["values"]["tuple"]]}

    with pytest.raises(ModelFileError, match="differ from the stored ones"):
        gpclass.load(altered(whole, tmp_path / "a", change))


def test_probes_do_not_depend_on_integrals(whole, tmp_path, monkeypatch):
    """A version whose class probabilities are more accurate reads older files all the same."""
    monkeypatch.setattr(Probit, "log_predictive", lambda self, y, mean, var: np.log(0.5) + 0.0 * mean)
    (tmp_path / "a").write_bytes(whole)
    assert np.all(gpclass.load(tmp_path / "a").predict_proba(NEW) == 0.5)


def test_settings_that_came_later_get_their_defaults(whole, tmp_path):
    def change(document):
        for name, setting in (("GPClassifier", "verbose"), ("ep", "damping")):
            for found in entries(document, name):
                del found["with"][setting]

    loaded = gpclass.load(altered(whole, tmp_path / "a", change))
    assert loaded.verbose == 0
    assert loaded.inference_.damping == type(loaded.inference_)().damping


def test_covariances_that_do_not_fit_are_not_taken(whole, tmp_path, monkeypatch):
    """Files are as long as the rows are many, covariances as their square."""
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


def test_a_header_that_promises_too_much_takes_no_memory(whole, tmp_path):
    members = members_of(whole)
    array = next(name for name in members if name.endswith(".npy"))
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": (10**7, 10**7)})
    members[array] = stream.getvalue()
    with pytest.raises(ModelFileError, match="does not fit its shape"):
        gpclass.load(packed(members, tmp_path / "a"))


# files that want more memory than they are worth -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4, }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "(" * 90 + "), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), } + (",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-3,), }",
        "{'descr': '<Z8', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<U0', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,), }",
        "\x00\xff",
        "",
    ],
)
def test_headers_of_arrays_are_not_evaluated(whole, header, tmp_path):
    members = members_of(whole)
    array = next(name for name in members if name.endswith(".npy"))
    text = header.encode("latin-1").ljust(117) + b"\n"
    members[array] = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(24)
    with pytest.raises(ModelFileError, match=array) as caught:
        gpclass.load(packed(members, tmp_path / "a"))
    assert "\n" not in str(caught.value)


def test_nested_documents_are_refused(whole, tmp_path):
    for depth in (150, 100_000):
        text = b"[" * depth + b"]" * depth
        with pytest.raises(ModelFileError, match=r"nested more than|not valid JSON"):
            gpclass.load(packed({**members_of(whole), "model.json": text}, tmp_path / "a"))


def test_arrays_that_compress_too_well_are_stored_as_they_are(tmp_path):
    """Readers refuse what inflates a hundredfold, so writers must not make it."""
    zeros = np.zeros(2_000_000)
    document = {"model": {"array": 0}}
    archive.write(tmp_path / "zeros", document, [zeros])
    assert (tmp_path / "zeros").stat().st_size > zeros.nbytes
    assert np.array_equal(archive.read(tmp_path / "zeros")[1][0], zeros)
    archive.write(tmp_path / "mixed", document, [np.tile(RNG.normal(size=2000), 100)])
    assert (tmp_path / "mixed").stat().st_size < 1_000_000


def test_documents_that_would_be_refused_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="cannot be saved: its structure has about"):
        archive.write(tmp_path / "a", {"model": [0] * archive.MOST_NODES}, [])
    assert not list(tmp_path.iterdir())


LIMITED = """
import json, resource, sys
import gpclass
from pathlib import Path
gpclass.load(sys.argv[1])  # imports all that loading needs
pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + (64 << 20)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
told = []
for path in sys.argv[2:]:
    try:
        gpclass.load(path)
        told.append("")
    except gpclass.ModelFileError as error:
        told.append(str(error))
print(json.dumps(told))
"""


def loaded_in_little_memory(whole, paths, tmp_path):
    """What each file is refused with (empty if it loads) by a process that may take another 64 MB."""
    good = tmp_path / "good"
    good.write_bytes(whole)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LIMITED, good, *paths], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert len(told) == len(paths)
    return told


def with_array(whole, path, data, compress=zipfile.ZIP_DEFLATED):
    """The file with other bytes for one of its arrays, compressed."""
    members = members_of(whole)
    array = next(name for name in members if name.endswith(".npy"))
    members[array] = data
    manifest = json.loads(members["manifest.json"])
    manifest["members"] = {n: hashlib.sha256(d).hexdigest() for n, d in members.items() if n != "manifest.json"}
    members["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w", compress, compresslevel=None if compress == zipfile.ZIP_LZMA else 1) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def with_document(whole, path, text):
    members = members_of(whole)
    members["model.json"] = text
    manifest = json.loads(members["manifest.json"])
    manifest["members"]["model.json"] = hashlib.sha256(text).hexdigest()
    members["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def npy(shape, count, descr="<f8"):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": descr, "fortran_order": False, "shape": shape})
    return stream.getvalue() + bytes(count)


linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits memory by /proc and RLIMIT_AS")


@linux
def test_bombs_are_refused_before_they_take_memory(whole, tmp_path):
    size = 80 << 20  # the process may take 64 << 20
    wide = b'{"model":[' + b"[]," * 1_500_000 + b"0]}"
    text = b'{"model":["' + b"x" * (80 << 20) + b'"]}'
    rooms = {"model": [{"array": {"dtype": "<U16384", "shape": [64], "values": [""] * 64}}] * 10_000}
    shapes = {"model": [{"array": {"dtype": "<U256", "shape": [4], "values": [""] * 4}}] * 60_000}
    state = {"tuple": [{"generator": ["MT19937", {"dict": []}]}] * 20_000}
    files = {
        "as many bytes as its shape says": with_array(whole, tmp_path / "1", npy((size // 8,), size)),
        "more bytes than its shape says": with_array(whole, tmp_path / "2", npy((3,), size)),
        "its method needs a dictionary of its own": with_array(whole, tmp_path / "3", npy((1000,), 8000), zipfile.ZIP_LZMA),
        "many values": with_document(whole, tmp_path / "4", wide),
        "a long text": with_document(whole, tmp_path / "5", text),
        "types with room for long text": with_document(whole, tmp_path / "6", json.dumps(rooms).encode()),
        "many of them": with_document(whole, tmp_path / "7", json.dumps(shapes).encode()),
        "generators": with_document(whole, tmp_path / "8", json.dumps({"model": state}).encode()),
    }
    assert all(path.stat().st_size < 2 << 20 for path in files.values())
    for name, told in zip(files, loaded_in_little_memory(whole, list(files.values()), tmp_path), strict=True):
        assert told, name
        assert "Memory" not in told, name  # that would be the system's refusal


@linux
def test_mutated_files_load_or_are_refused_in_little_memory(whole, tmp_path):
    """Bytes changed anywhere in the zip, and values changed anywhere in the document, with checksums made anew."""
    rng = np.random.default_rng(0)
    members = members_of(whole)
    paths = []
    for i in range(150):
        data = bytearray(whole)
        at = rng.integers(len(data), size=rng.integers(1, 9))
        for place in at:
            data[place] = rng.integers(256)
        paths.append(tmp_path / f"bytes{i}")
        paths[-1].write_bytes(data)
    for i in range(150):
        document = json.loads(members["model.json"])
        for _ in range(rng.integers(1, 4)):
            mutate(document, rng)
        paths.append(packed({**members, "model.json": json.dumps(document).encode()}, tmp_path / f"document{i}"))
    for i in range(60):  # headers of arrays
        names = [name for name in members if name.endswith(".npy")]
        name = names[rng.integers(len(names))]
        data = bytearray(members[name])
        for place in rng.integers(128, size=2):
            data[place] = rng.integers(32, 127)
        paths.append(packed({**members, name: bytes(data)}, tmp_path / f"header{i}"))
    told = loaded_in_little_memory(whole, paths, tmp_path)
    assert sum(map(bool, told)) > 200
    assert not [text for text in told if "\n" in text]


def mutate(document, rng):
    """Replace one value somewhere by another one."""
    others = [None, -1, 0, 10**9, 10**30, 1e308, "", "x" * 100, "<U16000", [], {}, {"array": 0}, {"kernel": "RBF"}]
    others += [{"estimator": "GPClassifier", "with": {}}, {"engine": "svgp", "with": {"checkpoint": "/tmp/x"}}]
    node = document
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = keys[rng.integers(len(keys))]
        inside = node[key]
        if not (isinstance(inside, (dict, list)) and inside) or rng.random() < 0.1:
            node[key] = others[rng.integers(len(others))]
            return
        node = inside


# paths of other machines --------------------------------------------------------------------------------------------------


def test_places_of_this_machine_are_neither_saved_nor_loaded(tmp_path):
    """What a file says of paths decides nothing here: joblib would unpickle what it finds in Pipeline.memory."""
    engine = SVGP(n_inducing=7, epochs=1, search="minibatches", checkpoint=tmp_path / "run.npz", resume="never")
    steps = make_pipeline(StandardScaler(), memory=str(tmp_path / "inner"))
    model = make_pipeline(steps, GPClassifier(inference=engine), memory=str(tmp_path / "outer")).fit(X, labels(2))
    gpclass.save(model, tmp_path / "saved")
    assert str(tmp_path).encode() not in b"".join(members_of((tmp_path / "saved").read_bytes()).values())

    def change(document):
        for item in entries(document, "Pipeline"):
            item["with"]["memory"] = str(tmp_path / "elsewhere")
        for item in entries(document, "svgp"):
            item["with"].update(checkpoint=str(tmp_path / "other.npz"), resume="must")

    (tmp_path / "run.npz").unlink()
    altered((tmp_path / "saved").read_bytes(), tmp_path / "altered", change)
    for name in ("saved", "altered"):
        loaded = gpclass.load(tmp_path / name)
        assert loaded.memory is loaded.steps[0][1].memory is None
        last = loaded.steps[-1][1]
        for its in (last.inference, last.inference_, last.posterior_.engine):
            assert (its.checkpoint, its.resume) == (None, "auto")
        assert close(model.predict_proba(NEW), loaded.predict_proba(NEW))
        loaded.fit(X, labels(2))
    assert not any((tmp_path / name).exists() for name in ("elsewhere", "run.npz", "other.npz"))
    assert model.memory == str(tmp_path / "outer")  # the model that was saved keeps its own


def test_every_setting_that_names_a_place_is_known():
    """Names of settings that sound like places must be among those that are left out."""
    place = re.compile(r"(^|_)(path|file|folder|dir|directory|checkpoint|cache|memory|url)($|_)")
    found = set()
    for cls in registry.classes():
        settings = set(inspect.signature(cls).parameters)
        found |= {(cls.__name__, s) for s in settings - set(registry.local_settings(cls)) if place.search(s)}
    assert found == {("IVM", "memory")}  # MiB


# writers at the same time -----------------------------------------------------------------------------------------------


def test_threads_that_save_to_one_path(tmp_path):
    """Readers always find a whole model, of one of the writers."""
    models = [fitted(optimizer=None, inference="laplace", kernel=RBF(scale)) for scale in (0.5, 1.0, 2.0)]
    answers = [model.predict_proba(NEW) for model in models]
    path = tmp_path / "model.gpclass"
    gpclass.save(models[0], path)
    path.chmod(0o600)
    with ThreadPoolExecutor(3) as pool:
        saving = [pool.submit(gpclass.save, model, path) for model in models * 5]
        while not all(job.done() for job in saving):
            found = gpclass.load(path).predict_proba(NEW)
            assert any(close(found, answer) for answer in answers)
        for job in saving:
            job.result()
    assert [p.name for p in tmp_path.iterdir()] == ["model.gpclass"]
    assert path.stat().st_mode & 0o777 == 0o600 or sys.platform == "win32"


# older files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ep", "nested_ep", "hmc", "scalable_ep", "ivm", "regressor", "table"])
def test_files_of_version_2_keep_loading(name):
    sys.path.insert(0, str(FIXTURES))
    try:
        from make_models import latent, problem, table
    finally:
        sys.path.remove(str(FIXTURES))
    expected = json.loads((FIXTURES / "v2_expected.json").read_text())[name]
    model = gpclass.load(FIXTURES / f"v2_{name}.gpclass")
    inputs = table()[0] if name == "table" else problem()[0]
    # other machines have another BLAS, which may round otherwise
    np.testing.assert_allclose(latent(model, inputs), expected, rtol=1e-8, atol=1e-10)


def test_every_engine_and_kernel_has_a_name():
    for name, engine in registered("engine").items():
        assert registry.name_of(engine) == ("engine", name)
    for name in kernel_names():
        assert registry.name_of(type(parse_kernel(name, 3)))[0] == "kernel"
