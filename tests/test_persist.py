"""Models on disk: everything comes back to the last bit, nothing but a whole model comes back, nothing is executed."""

import hashlib
import io
import json
import sys
import warnings
import zipfile
from pathlib import Path

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
from gpclass.choose import ENGINES, several_classes
from gpclass.expressions import kernel_names, parse_kernel
from gpclass.kernels import RBF, ClassCovariance, Correlated, PerClass
from gpclass.learning import Normal
from gpclass.likelihoods import MultinomialProbit, RobustMax
from gpclass.persist import registry
from gpclass.sampling import HMC, EllipticalSlice, Gibbs, audit
from gpclass.sparse import IVM, SVGP, ScalableEP, StochasticEP
from gpclass.tables import TableEncoder

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a few iterations must do
FIXTURES = Path(__file__).parent / "fixtures"
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


def assert_same_answers(model, loaded):
    assert same(model.predict(NEW), loaded.predict(NEW))
    for question in ("predict_log_proba", "latent", "predict_proba_std"):
        assert same(getattr(model, question)(NEW), getattr(loaded, question)(NEW)), question
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
        assert same(p, loaded.loo())


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_comes_back_to_the_last_bit(engine, n_classes, tmp_path):
    if n_classes > 2 and engine not in several_classes():
        with pytest.raises(ValueError, match="binary"):
            fitted(n_classes, inference=engine)
        return
    model = fitted(n_classes, inference=QUICK.get(engine, engine))
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


@pytest.mark.parametrize("text", [*kernel_names(), "rbf-ard * linear + constant", "(rbf + periodic) * matern32"])
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
    model = GPRegressor(inference=engine, max_iter=3, random_state=0).fit(X, F)
    loaded = round_trip(model, tmp_path)
    assert same(model.predict(NEW, return_std=True), loaded.predict(NEW, return_std=True))
    assert (model.log_evidence_, model.noise_variance_) == (loaded.log_evidence_, loaded.noise_variance_)


def test_a_loaded_model_goes_on_working(tmp_path):
    model = fitted(inference="ep")
    loaded = round_trip(model, tmp_path)
    theta = model.kernel_.theta
    assert same(model.log_evidence(theta + 0.1, eval_gradient=True), loaded.log_evidence(theta + 0.1, eval_gradient=True))
    assert model.jensen_bound() == loaded.jensen_bound()
    assert same([step[:5] for step in model.history_], [step[:5] for step in loaded.history_])
    sampler = HMC(n_draws=5, n_warmup=5, random_state=0)
    assert audit(model, sampler=sampler) == audit(loaded, sampler=sampler)
    assert same(model.fit(X, labels(2)).predict_proba(NEW), loaded.fit(X, labels(2)).predict_proba(NEW))


def test_rows_that_come_later(tmp_path):
    """IVM goes on where it was; runs on minibatches have lost their place, and say so."""
    model = fitted(inference=QUICK["ivm"])
    loaded = round_trip(model, tmp_path)
    more = np.array([0, 1] * 5), NEW[:10]
    assert same(
        model.partial_fit(more[1], more[0]).predict_proba(NEW), loaded.partial_fit(more[1], more[0]).predict_proba(NEW)
    )
    loaded = round_trip(fitted(inference=QUICK["svgp"]), tmp_path)
    with pytest.raises(ValueError, match="lost its place in training"):
        loaded.partial_fit(more[1], more[0])


def test_draws_go_on(tmp_path):
    sampler = HMC(n_draws=6, n_warmup=6, random_state=0)
    model = fitted(inference=sampler, optimizer=None)
    loaded = round_trip(model, tmp_path)
    K, y, likelihood = model.kernel_(X), model.posterior_.y, model.likelihood_
    on = [sampler.fit(K, y, likelihood, start=m.posterior_).latent for m in (model, loaded)]
    assert on[0].shape[1] == 12
    assert same(*on)


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
    assert same(model.predict_proba(NEW), loaded.predict_proba(NEW))


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
            assert same(model.predict_proba(new), loaded.predict_proba(new))
        assert loaded.predict(frame).tolist() == model.predict(frame).tolist()


def test_text_labels_and_names_come_back(tmp_path):
    for y in (np.where(labels(2), "ja", "nein"), np.where(labels(2), "ja", "nein").astype(object), labels(2) > 0):
        model = GPClassifier(optimizer=None).fit(mixed_frame()[["a", "b"]], y)
        loaded = round_trip(model, tmp_path)
        assert loaded.classes_.tolist() == model.classes_.tolist()
        assert loaded.feature_names_in_.tolist() == ["a", "b"]


def test_what_is_shared_is_stored_once(tmp_path):
    loaded = round_trip(fitted(inference="laplace", optimizer=None), tmp_path)
    assert loaded.posterior_.likelihood is loaded.likelihood_
    assert loaded.posterior_.posterior.K is loaded.posterior_.posterior._system.K


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
        ({"kernel": OwnKernel(1.0)}, r"model\.kernel is an object of type OwnKernel"),
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


def entry(document, ending):
    return next(e for e in document["objects"] if e["class"].endswith(ending))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_part_of_a_file_is_refused(whole, share, tmp_path):
    path = tmp_path / "part"
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ModelFileError, match="no model of gpclass, or only a part"):
        gpclass.load(path)


def test_altered_members_are_refused(whole, tmp_path):
    members = members_of(whole)
    array = next(name for name in members if name.endswith(".npy"))
    members[array] = members[array][:-1] + bytes([members[array][-1] ^ 1])
    with pytest.raises(ModelFileError, match=f"{array} was altered"):
        gpclass.load(packed(members, tmp_path / "a", checksums=False))
    for name in members:
        if name.endswith(".npy"):
            members[name] = members[name][:-80] + np.full(10, 7.0).tobytes()
    with pytest.raises(ModelFileError, match="not those that were stored"):
        gpclass.load(packed(members, tmp_path / "a"))  # new checksums: predictions tell


def test_other_members_are_refused(whole, tmp_path):
    members = members_of(whole)
    with pytest.raises(ModelFileError, match="not those that the manifest lists"):
        gpclass.load(packed({**members, "extra.py": b"1"}, tmp_path / "a", checksums=False))
    with pytest.raises(ModelFileError, match="not those that the document names"):
        gpclass.load(packed({**members, "extra.py": b"1"}, tmp_path / "a"))


def test_newer_formats_are_refused(whole, tmp_path):
    members = members_of(whole)
    manifest = json.loads(members["manifest.json"]) | {"version": 2, "written_by": {"gpclass": "9.9"}}
    members["manifest.json"] = json.dumps(manifest).encode()
    with pytest.raises(ModelFileError, match=r"format version 2.*reads versions up to 1.*gpclass 9\.9"):
        gpclass.load(packed(members, tmp_path / "a"))


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "a"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hello.txt", "hello")
    with pytest.raises(ModelFileError, match="no manifest"):
        gpclass.load(path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ModelFileError, match="no model of gpclass"):
        gpclass.load(path)
    with pytest.raises(FileNotFoundError):
        gpclass.load(tmp_path / "nothing")


@pytest.mark.parametrize(
    "name", ["os.system", "subprocess.Popen", "builtins.eval", "sklearn.base.BaseEstimator", "cli.main.Impute", 7, None]
)
def test_only_known_classes_are_made(whole, name, tmp_path):
    def change(document):
        document["objects"][0] = {"class": name, "state": {}}

    with pytest.raises(ModelFileError, match="no part of a model"):
        gpclass.load(altered(whole, tmp_path / "a", change))


def test_pickles_are_not_read(whole, tmp_path):
    members = members_of(whole)
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.array([Bomb()], dtype=object), allow_pickle=True)
    array = next(name for name in members if name.endswith(".npy"))
    members[array] = stream.getvalue()
    with pytest.raises(ModelFileError, match="no data of a model"):
        gpclass.load(packed(members, tmp_path / "a"))
    assert not Bomb.exploded


class Bomb:
    exploded = False

    def __reduce__(self):
        return _explode, ()


def _explode():
    Bomb.exploded = True


def test_methods_cannot_be_replaced(whole, tmp_path):
    def change(document):
        entry(document, ".GPClassifier")["state"]["predict"] = "nothing"

    with pytest.raises(ModelFileError, match="no attribute 'predict'"):
        gpclass.load(altered(whole, tmp_path / "a", change))


def test_a_changed_number_is_noticed(whole, tmp_path):
    def change(document):
        entry(document, ".Parameter")["state"]["values"] = {"tuple": [1.234]}

    with pytest.raises(ModelFileError, match="not those that were stored"):
        gpclass.load(altered(whole, tmp_path / "a", change))


def test_settings_that_came_later_get_their_defaults(whole, tmp_path):
    def change(document):
        del entry(document, ".GPClassifier")["state"]["verbose"]
        del entry(document, ".EP")["state"]["damping"]

    loaded = gpclass.load(altered(whole, tmp_path / "a", change))
    assert loaded.verbose == 0
    assert loaded.inference_.damping == type(loaded.inference_)().damping


def test_a_header_that_promises_too_much_takes_no_memory(whole, tmp_path):
    members = members_of(whole)
    array = next(name for name in members if name.endswith(".npy"))
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": (10**7, 10**7)})
    members[array] = stream.getvalue()
    with pytest.raises(ModelFileError, match="does not fit its shape"):
        gpclass.load(packed(members, tmp_path / "a"))


# older files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ep", "nested_ep", "hmc", "scalable_ep", "ivm", "regressor", "table"])
def test_files_of_version_1_keep_loading(name):
    sys.path.insert(0, str(FIXTURES))
    try:
        from make_models import predicted, problem, table
    finally:
        sys.path.remove(str(FIXTURES))
    expected = json.loads((FIXTURES / "v1_expected.json").read_text())[name]
    model = gpclass.load(FIXTURES / f"v1_{name}.gpclass")
    inputs = table()[0] if name == "table" else problem()[0]
    # other machines have another BLAS, which may round otherwise
    np.testing.assert_allclose(np.asarray(predicted(model, inputs)), expected, rtol=1e-8, atol=1e-10)


def test_every_engine_and_kernel_has_a_name():
    known = registry.names()
    for engine in ENGINES.values():
        assert engine in known
    assert all(name.count(".") >= 1 for name in registry.classes())
