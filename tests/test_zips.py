"""Arrays in zip files: read as by NumPy, and refused before memory is allocated if sizes do not agree."""

import hashlib
import io
import struct
import zipfile

import numpy as np
import pytest

from gpclass.zips import DAMAGE, DamagedFile, check_sizes, read_array, read_bytes

RNG = np.random.default_rng(0)
ARRAYS = {
    "numbers": RNG.normal(size=(3, 4)),
    "columns first": np.asfortranarray(RNG.normal(size=(3, 4, 2))),
    "one number": np.array(7),
    "nothing": np.zeros((0, 5)),
    "single": np.arange(5, dtype="<f4"),
    "big-endian": np.arange(5, dtype=">i8"),
    "complex": RNG.normal(size=3) + 1j,
    "truth": np.array([[True], [False]]),
    "text": np.array(["", "ä", "long enough"]),
    "bytes": np.array([b"", b"x"]),
    "large": RNG.normal(size=300_000),
}


def zipped(members, method=zipfile.ZIP_DEFLATED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return zipfile.ZipFile(stream)


def npy(array, version=None):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version=version, allow_pickle=False)
    return stream.getvalue()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_are_read_as_numpy_does(name, version):
    data = npy(ARRAYS[name], version)
    found, digest = read_array(zipped({"a": data}), "a")
    wanted = np.load(io.BytesIO(data))
    assert (found.dtype, found.shape, found.strides) == (wanted.dtype, wanted.shape, wanted.strides)
    assert np.array_equal(found, wanted)
    assert found.flags.writeable
    assert found.flags.aligned
    assert digest == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("array", [np.array([{}]), np.zeros(2, [("a", "<f8")]), np.array(["2020"], "M8[D]")], ids=str)
def test_other_types_are_refused(array):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    with pytest.raises(DamagedFile, match=r"do not contain|not one that NumPy"):
        read_array(zipped({"a": stream.getvalue()}), "a")


def test_sizes_must_agree():
    data = npy(ARRAYS["numbers"])
    for wrong in (data[:-8], data + bytes(8), data[:-1], data[:50], b"", b"\x93NUMPY\x09\x00" + data[8:]):
        with pytest.raises(DamagedFile):
            read_array(zipped({"a": wrong}), "a")


def test_a_member_that_lies_about_its_size():
    """The directory of the zip states 96 bytes, but the deflated data has more, or fewer."""
    data = npy(ARRAYS["numbers"])
    for true in (data + bytes(1 << 20), data[:-8]):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a", true)
        raw = stream.getvalue().replace(struct.pack("<I", len(true)), struct.pack("<I", len(data)))
        with pytest.raises(DAMAGE), zipfile.ZipFile(io.BytesIO(raw)) as archive:
            read_array(archive, "a")
        with pytest.raises(DAMAGE), zipfile.ZipFile(io.BytesIO(raw)) as archive:
            read_bytes(archive, "a", 1 << 30)


def test_what_inflates_out_of_proportion_is_refused():
    many = zipped({f"{i}": bytes(1 << 20) for i in range(20)})
    with pytest.raises(DamagedFile, match="would inflate to 20971520"):
        check_sizes(many, 100_000)
    check_sizes(many, 200_000)  # a hundredth, plus the size that is always allowed
    with pytest.raises(DamagedFile, match="method 12"):
        check_sizes(zipped({"a": b"1"}, zipfile.ZIP_BZIP2), 1000)
    with pytest.raises(DamagedFile, match="has 1048576 bytes; at most 1000 are allowed"):
        read_bytes(many, "0", 1000)
