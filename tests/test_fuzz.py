"""Malformed tables, model files and kernel expressions meet clean errors only: over 2,000 of them.

Examples are derandomised: the same ones in every run.
"""

import contextlib
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
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

import gpclass
from gpclass import GPClassifier, ModelFileError
from gpclass.cli import app
from gpclass.expressions import kernel_names, parse_kernel
from gpclass.kernels import RBF, Kernel
from gpclass.tables import TableEncoder, TableError, read_table, split_target

pytestmark = pytest.mark.filterwarnings("ignore")  # odd numbers make odd warnings; errors are what counts


def cases(number):
    """So many examples, the same ones each time."""
    return settings(
        max_examples=number,
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
    table = frame()
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
    """A file is refused with ModelFileError, or makes a model that predicts, or refuses to with a ValueError."""
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


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 300)
    | st.sampled_from([10**30, -(10**30), 0.0, 1e308, -1e308, "", "nan", "object", "<f8", "ep", "os.system"])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["tuple", "dict", "object", "array", "float", "named", "set", "slice", "dtype", "generator", "x"]
            ),
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


@cases(150)
@given(data=st.data())
def test_commands_on_malformed_tables(files, room, data):
    """`predict` with a table of which something is wrong, or nothing: exit code 0 or 2, one line, no traceback."""
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
        assert result.stderr.startswith("gpclass: ")
        assert result.stderr.count("\n") == 1
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
