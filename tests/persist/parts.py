"""Small models and the parts of their files."""

import hashlib
import io
import json
import warnings
import zipfile

import numpy as np

import gpclass
from gpclass import GPClassifier
from gpclass.persist import registry

RNG = np.random.default_rng(0)
X = RNG.normal(size=(45, 3))
F = X[:, 0] + 0.5 * X[:, 1] ** 2
NEW = RNG.normal(size=(11, 3))


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
    """Equal up to rounding: K and sites are equal bit by bit, and one factorisation of them changes results by
    eps × condition of B, here at most some 1e3."""
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b, strict=True))
    return np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-12, atol=1e-12, equal_nan=True)


def members_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members, path, checksums=True):
    """A zip of these members, with new checksums."""
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
