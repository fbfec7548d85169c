"""Malformed tables, model files and kernel expressions raise clean errors only: over 2,500 of them, 600 in the quick tests.

And what must not matter to a fit (order of rows, names of classes, other rows to predict) does not: over 10,000 comparisons,
250 in the quick tests. Examples are derandomised: the same ones in every run.
"""

import contextlib
import functools
import hashlib
import io
import json
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import gpclass
from gpclass import GPClassifier, ModelFileError
from gpclass.choose import likelihoods_of
from gpclass.cli import app
from gpclass.expressions import kernel_names, parse_kernel
from gpclass.kernels import (
    RBF,
    Constant,
    Kernel,
    Linear,
    Matern32,
    Matern52,
    NeuralNetwork,
    Periodic,
    Polynomial,
    RationalQuadratic,
    White,
)
from gpclass.numerics import NotPositiveDefinite
from gpclass.registry import registered
from gpclass.tables import TableEncoder, TableError, read_table, split_target
from tests import conftest

pytestmark = pytest.mark.filterwarnings("ignore")  # unusual numbers cause warnings; only errors matter here


def cases(number):
    """Settings for this number of examples, the same in each run; a quarter of them in the quick tests."""
    return settings(
        max_examples=number if conftest.SLOW_TOO else number // 4,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def frame(n=14):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"size": rng.normal(size=n).round(2), "shape": rng.choice(["flat", "round"], n)})
    table["new"] = rng.random(n) < 0.5
    table["y"] = np.where(table["size"] > 0, "big", "small")
    return table


def small_models():
    table = frame(70)  # arrays of more than 64 numbers are members of their own
    X, three = table[["size"]].to_numpy(), np.digitize(table["size"], [-0.3, 0.3])
    fixed = {"optimizer": None}
    yield GPClassifier(RBF(1.0), inference="ep", **fixed).fit(X, three > 0)
    yield GPClassifier(RBF(1.0) * 2.0, inference="nested-ep", **fixed).fit(X, three)
    yield make_pipeline(TableEncoder(target="y"), StandardScaler(), GPClassifier(**fixed)).fit(table, table["y"])


@pytest.fixture(scope="module")
def files(room):
    """Bytes of whole model files."""
    out = []
    for i, model in enumerate(small_models()):
        gpclass.save(model, room / f"{i}.gpclass")
        out.append((room / f"{i}.gpclass").read_bytes())
    return out


def loads_or_complains(path):
    """A file raises ModelFileError, or gives a model that predicts or raises a ValueError."""
    try:
        model = gpclass.load(path)
    except ModelFileError:
        return
    X = frame() if hasattr(model, "steps") else frame()[["size"]].to_numpy()
    try:
        p = model.predict_proba(X)
    except ValueError:
        return
    assert p.ndim == 2


# bytes ------------------------------------------------------------------------------------------------------------------


@cases(500)
@given(data=st.data())
def test_flipped_bytes(files, room, data):
    content = bytearray(files[data.draw(st.integers(0, len(files) - 1))])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (room / "flipped").write_bytes(content)
    loads_or_complains(room / "flipped")


@cases(200)
@given(data=st.data())
def test_parts_and_strangers(files, room, data):
    content = files[data.draw(st.integers(0, len(files) - 1))]
    cut = data.draw(st.integers(0, len(content)))
    other = data.draw(st.binary(max_size=200))
    kinds = (content[:cut], content[cut:], content[:cut] + other, other)
    (room / "part").write_bytes(kinds[data.draw(st.integers(0, 3))])
    loads_or_complains(room / "part")


# documents with checksums that agree --------------------------------------------------------------------------------------


def packed(members, path):
    manifest = json.loads(members["manifest.json"])
    manifest["members"] = {n: hashlib.sha256(d).hexdigest() for n, d in members.items() if n != "manifest.json"}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        for name, content in members.items():
            if name != "manifest.json":
                archive.writestr(name, content)


def unpacked(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


PLAIN_KINDS = ("tuple", "dict", "array", "float", "set", "slice", "dtype", "generator")
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 300)
    | st.sampled_from([10**30, -(10**30), 0.0, 1e308, -1e308, "", "nan", "|O", "<f8", "ep", "RBF", "os.system"])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*PLAIN_KINDS, "kernel", "engine", "record", "estimator", "with", "learned", "posterior", "x"]),
            inner,
            max_size=2,
        )
    ),
    max_leaves=4,
)


def places(node, path=()):
    """Paths to everything within a document."""
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, part in inner:
        yield (*path, key)
        yield from places(part, (*path, key))


@cases(700)
@given(data=st.data())
def test_altered_documents(files, room, data):
    members = unpacked(files[data.draw(st.integers(0, len(files) - 1))])
    document = json.loads(members["model.json"])
    for _ in range(data.draw(st.integers(1, 2))):
        everywhere = list(places(document))
        *way, last = everywhere[data.draw(st.integers(0, len(everywhere) - 1))]
        parent = document
        for key in way:
            parent = parent[key]
        action = data.draw(st.sampled_from(["replace", "replace", "delete", "double"]))
        if action == "replace":
            parent[last] = data.draw(values)
        elif action == "delete":
            del parent[last]
        elif isinstance(parent, list):
            parent.insert(last, parent[last])
        else:
            parent[f"{last}_"] = parent[last]
    packed({**members, "model.json": json.dumps(document).encode()}, room / "altered")
    loads_or_complains(room / "altered")


@cases(200)
@given(data=st.data())
def test_wrong_arrays(files, room, data):
    members = unpacked(files[data.draw(st.integers(0, len(files) - 1))])
    arrays = [name for name in members if name.endswith(".npy")]
    name = data.draw(st.sampled_from(arrays))
    stream = io.BytesIO()
    shape = tuple(data.draw(st.lists(st.integers(0, 15), max_size=4)))
    kind = data.draw(st.sampled_from(["f8", "f4", "i8", "b1", "U3", "c16", "S2", "M8[D]"]))
    fill = data.draw(st.sampled_from([0, 1, 2]))
    np.save(stream, np.full(shape, fill).astype("i8").astype(kind))
    members[name] = stream.getvalue()
    packed(members, room / "arrays")
    loads_or_complains(room / "arrays")


@cases(60)
@given(manifest=values)
def test_strange_manifests(files, room, manifest):
    members = unpacked(files[0])
    with zipfile.ZipFile(room / "manifest", "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.writestr("model.json", members["model.json"])
    with pytest.raises(ModelFileError):
        gpclass.load(room / "manifest")


# tables -----------------------------------------------------------------------------------------------------------------

cells = st.sampled_from(
    [
        "",
        "1",
        "-2.5",
        "1e400",
        "nan",
        "inf",
        "?",
        "red",
        "True",
        "false",
        "2020-01-01",
        "1,5",
        '"',
        "'",
        "é",
        "\x00",
        "9" * 400,
    ]
) | st.text(max_size=4)
texts = st.lists(st.lists(cells, max_size=5), max_size=7).flatmap(
    lambda rows: st.sampled_from([",", ";", "\t"]).map(lambda s: "\n".join(s.join(row) for row in rows))
)


def used(path):
    """What `fit` does with a table, up to the arrays."""
    table = read_table(path)
    for target in list(table.columns)[:2]:
        X, _ = split_target(table, target)
        encoded = TableEncoder(impute="median", target=target).fit_transform(X)
        assert encoded.shape[0] == len(table)
        assert np.isfinite(encoded).all()


@cases(500)
@given(text=texts | st.text(max_size=60), header=st.sampled_from(["", "a,b,y\n", "a;y\n", "a,a\n", '"a\n', ",y\n"]))
def test_malformed_tables(room, text, header):
    path = room / "table.csv"
    path.write_text(header + text, encoding="utf-8", errors="surrogatepass", newline="")
    with contextlib.suppress(TableError):
        used(path)


@cases(150)
@given(content=st.binary(max_size=80), name=st.sampled_from(["b.csv", "b.tsv", "b.csv.gz", "b.parquet", "b.txt", "b"]))
def test_bytes_as_tables(room, content, name):
    path = room / name
    path.write_bytes(content)
    with contextlib.suppress(TableError):
        used(path)


@cases(50)
@given(data=st.data())
def test_commands_on_malformed_tables(files, room, data):
    """`predict` with a malformed or a good table: exit code 0 or 2, one line for each error, no traceback."""
    (room / "cli.gpclass").write_bytes(files[-1])
    rows = frame(3).to_csv(index=False).splitlines()
    for _ in range(data.draw(st.integers(0, 3))):
        i = data.draw(st.integers(0, len(rows) - 1))
        parts = rows[i].split(",")
        parts[data.draw(st.integers(0, len(parts) - 1))] = data.draw(cells)
        rows[i] = ",".join(parts)
    path = room / "cli.csv"
    path.write_text("\n".join(rows), encoding="utf-8", errors="surrogatepass", newline="")
    result = CliRunner().invoke(app, ["predict", str(room / "cli.gpclass"), str(path), "-q"])
    assert result.exit_code in (0, 2), result.output
    if result.exit_code == 2:
        first, *more = result.stderr.rstrip("\n").split("\n")
        assert first.startswith("gpclass: ")
        assert all(line.startswith(("  ", "try: gpclass predict ")) for line in more), result.stderr
    else:
        assert result.stdout.startswith("row,prediction,p(big),p(small)")


# kernel expressions -----------------------------------------------------------------------------------------------------


@cases(300)
@given(
    text=st.text(max_size=30)
    | st.lists(st.sampled_from([*kernel_names(), "+", "*", "(", ")", " ", "-", "2"]), max_size=12).map(" ".join)
)
def test_kernel_expressions(text):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with contextlib.suppress(ValueError):
            assert isinstance(parse_kernel(text, 2), Kernel)


# models: what must not matter -------------------------------------------------------------------------------------------
#
# Every engine with every likelihood that it takes, on random small problems: kernels of all kinds, scales over five
# orders of magnitude, duplicated rows, classes of one member. A fit that warns of its convergence is excused from the
# other comparisons (its sites may be so large that rounding shows); its predictions must still be deterministic. A fit may
# end in an error that says why there is no answer (likelihoods that are not log-concave).

PER_PAIR, MANY_PER_PAIR = 1, 61  # problems for each engine and likelihood, each with the five comparisons
ENGINES, MULTICLASS_LIKELIHOODS = registered("engine"), list(likelihoods_of(3))
LIKELIHOODS = [name for name in likelihoods_of(2) if name not in MULTICLASS_LIKELIHOODS]
LIKELIHOOD_NAMES = [*LIKELIHOODS, *MULTICLASS_LIKELIHOODS]
TINY = np.array([[-1.5], [-0.7], [-0.1], [0.3], [0.9], [1.6]])
# Absolute difference of probabilities between fits that agree up to rounding and the tolerance of their sweeps
SAME = 1e-4
# SVGP's expectation of log softmax has 256 points that depend on the order of the classes, and so have QuadratureEP's nodes
LOOSE = {("svgp", "softmax"): 0.02, ("quadrature-ep", "multinomial-probit"): 0.02}
# and if scores of rows are equal under IVM, the order of the classes decides
LOOSE |= {("ivm", likelihood): 0.02 for likelihood in MULTICLASS_LIKELIHOODS}
# IVM includes one row after the other, by scores that are equal at the start: its result depends on their order
ORDERED = {"ivm"}


def classifier(engine, likelihood, kernel):
    return GPClassifier(kernel, likelihood, engine, optimizer=None, random_state=0)


def takes(engine, likelihood):
    """Whether the pair is compatible."""
    y = np.array([0, 0, 1, 1, 0, 1]) if likelihood in LIKELIHOODS else np.array([0, 0, 1, 1, 2, 2])
    try:
        classifier(engine, likelihood, RBF(1.0)).fit(TINY, y)
    except (TypeError, ValueError):  # their texts are tested elsewhere
        return False
    return True


@functools.cache
def pairs():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [(e, lik) for e in ENGINES for lik in LIKELIHOOD_NAMES if takes(e, lik)]


def random_kernel(rng, dims):
    """A kernel, and whether it is stationary."""
    lengthscale, variance = np.exp(rng.uniform(np.log(0.05), np.log(20.0))), np.exp(rng.uniform(np.log(0.05), np.log(300.0)))
    stationary = [
        RBF(lengthscale, variance),
        RBF(np.exp(rng.normal(size=dims)), variance),
        Matern32(lengthscale, variance),
        Matern52(lengthscale, variance),
        RationalQuadratic(lengthscale, variance),
        Periodic(lengthscale, variance),
        RBF(lengthscale, variance) + White(0.1),
        Matern32(lengthscale) * RBF(1.0, variance) + Constant(0.5),
    ]
    others = [
        Linear(variance=variance),
        Polynomial(2, variance=variance),
        NeuralNetwork(lengthscale, variance),
        RBF(lengthscale, variance) + Linear(),
    ]
    place = rng.integers(len(stationary) + len(others))
    return (stationary[place], True) if place < len(stationary) else (others[place - len(stationary)], False)


def random_problem(rng, likelihood):
    C = 2 if likelihood in LIKELIHOODS else int(rng.integers(2, 5))
    n, dims = int(rng.integers(C + 3, 15)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, dims))
    if rng.random() < 0.3:
        X[: n // 3] = X[-(n // 3) :]  # duplicates with different labels
    y = np.r_[np.arange(C), rng.integers(C if rng.random() < 0.7 else 1, size=n - C)]  # or classes of one member
    return X, y, rng.normal(size=(7, dims)) * 2


def probabilities(engine, likelihood, kernel, X, y, at):
    """Class probabilities, and whether the fit warned that it did not converge."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = classifier(engine, likelihood, kernel).fit(X, y)
        p = model.predict_proba(at)
    return model, p, any(issubclass(w.category, ConvergenceWarning) for w in said)


def what_must_not_matter(engine, likelihood, seed):
    """One random problem. Return the differences that are too large, with all that is needed to reproduce them."""
    rng = np.random.default_rng([seed, *engine.encode(), *likelihood.encode()])
    X, y, at = random_problem(rng, likelihood)
    kernel, stationary = random_kernel(rng, X.shape[1])
    try:
        model, p, unfinished = probabilities(engine, likelihood, kernel, X, y, at)
    except NotPositiveDefinite:
        return []
    assert np.isfinite(p).all()
    # other alignment of memory may change the last digit of a product
    found = {"determinism": (1e-12, probabilities(engine, likelihood, kernel, X, y, at)[1])}
    if not unfinished:
        # moments of a single row are rounded differently, and some integrals are in single precision
        found["batch"] = (1e-6, np.concatenate([model.predict_proba(at[i : i + 1]) for i in range(len(at))]))
    tolerance, C = LOOSE.get((engine, likelihood), SAME), p.shape[1]
    order, names = rng.permutation(len(y)), rng.permutation(C)
    others = {"labels": (X, names[y], at)}
    if engine not in ORDERED:
        others["rows"] = (X[order], y[order], at)
    if stationary:
        shift = rng.integers(-8, 9, size=X.shape[1]) / 4.0  # exact in floating point except for the last digits of X
        others["shift"] = (X + shift, y, at + shift)
    for what, (X_other, y_other, at_other) in others.items():
        with contextlib.suppress(NotPositiveDefinite):  # some sites are negative in one order and not in another
            _, q, unfinished_other = probabilities(engine, likelihood, kernel, X_other, y_other, at_other)
            if not (unfinished or unfinished_other):
                found[what] = (tolerance, q[:, names] if what == "labels" else q)
    differences = {what: (np.abs(q - p).max(), most) for what, (most, q) in found.items()}
    return [f"{engine}, {likelihood}, {kernel}, seed {seed}: {what} changes probabilities by {d:.1e}"
            for what, (d, most) in differences.items() if d > most]  # fmt: skip


@pytest.mark.slow_cases("scalable-ep-softmax", "gfitc-softmax")
@pytest.mark.parametrize("likelihood", LIKELIHOOD_NAMES)
@pytest.mark.parametrize("engine", ENGINES)
def test_what_must_not_matter(engine, likelihood):
    if (engine, likelihood) not in pairs():
        pytest.skip("do not fit together")
    wrong = [line for seed in range(PER_PAIR) for line in what_must_not_matter(engine, likelihood, seed)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", LIKELIHOOD_NAMES)
@pytest.mark.parametrize("engine", ENGINES)
def test_what_must_not_matter_many_times(engine, likelihood):
    if (engine, likelihood) not in pairs():
        pytest.skip("do not fit together")
    seeds = range(PER_PAIR, PER_PAIR + MANY_PER_PAIR)
    wrong = [line for seed in seeds for line in what_must_not_matter(engine, likelihood, seed)]
    assert not wrong, "\n".join(wrong)


def test_there_are_enough_cases():
    """The tests above: 250 and 10,000 comparisons; stationary kernels have five each, others four (IVM one less)."""
    each = sum(3 if engine in ORDERED else 4 for engine, _ in pairs())
    assert each * PER_PAIR >= 250
    assert each * MANY_PER_PAIR >= 10_000
