"""Files that are damaged, of another format, or designed to exhaust memory are refused."""

import hashlib
import io
import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import gpclass
from gpclass import ModelFileError
from gpclass.persist import archive

from .parts import RNG, members_of, packed

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a few iterations must do


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
        gpclass.load(packed(members, tmp_path / "a"))  # with new checksums, stored latent values reveal it


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


def test_arrays_that_compress_too_well_are_stored_as_they_are(tmp_path):
    """Readers refuse members that inflate a hundredfold, so writers must not create them."""
    zeros = np.zeros(2_000_000)
    document = {"model": {"array": 0}}
    archive.write(tmp_path / "zeros", document, [zeros])
    assert (tmp_path / "zeros").stat().st_size > zeros.nbytes
    assert np.array_equal(archive.read(tmp_path / "zeros")[1][0], zeros)
    archive.write(tmp_path / "mixed", document, [np.tile(RNG.normal(size=2000), 100)])
    assert (tmp_path / "mixed").stat().st_size < 1_000_000


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
    """The error of each file (empty if it loads) in a process that may use another 64 MB."""
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
        assert "Memory" not in told, name  # that would be an error of the system


@linux
def test_mutated_files_load_or_are_refused_in_little_memory(whole, tmp_path):
    """Change bytes anywhere in the zip, and values anywhere in the document with new checksums."""
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
    """Replace a random value by another one."""
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
