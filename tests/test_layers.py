"""Layers import downward only: which part of the package may import which."""

import ast
from pathlib import Path

import pytest

import gpclass

ROOT = Path(gpclass.__file__).parent
MAY_IMPORT = {
    "callers": set(),
    "files": set(),
    "progress": set(),
    "registry": set(),
    "spelling": set(),
    "zips": set(),
    "numerics": set(),
    "kernels": {"numerics", "registry", "spelling"},
    "likelihoods": {"numerics", "registry"},
    "gaussian": {"numerics"},
    "engines": {"numerics", "registry", "likelihoods", "gaussian"},
    "inference": {"registry", "engines"},
    "sparse": {"inference", "registry", "engines"},
    "learning": {
        "_lazy",
        "callers",
        "progress",
        "inference",
        "registry",
        "files",
        "zips",
        "numerics",
        "kernels",
        "likelihoods",
        "gaussian",
        "engines",
        "sparse",
        "tables",
    },
    "sampling": {
        "_lazy",
        "inputs",
        "numerics",
        "engines",
        "kernels",
        "likelihoods",
        "gaussian",
        "inference",
        "learning",
        "progress",
        "sparse",
    },
    "assess": {
        "_lazy",
        "progress",
        "distributed",
        "files",
        "inputs",
        "choose",
        "expressions",
        "numerics",
        "kernels",
        "likelihoods",
        "gaussian",
        "inference",
        "learning",
        "units",
        "_version",
    },
    "testing": {"numerics", "engines", "kernels", "likelihoods", "gaussian", "sparse", "learning"},
    "data_catalogue": set(),
    "datasets": {"data_catalogue", "spelling"},
    "_lazy": set(),
    "_version": set(),
    "decisions": {"distributed", "learning", "numerics"},
    "display": set(),
    "distributed": {"_lazy", "learning", "numerics", "progress", "tables", "inputs", "_version"},
    "regressor_answers": {"distributed", "inputs", "kernels", "learning"},
    "regressor": {
        "base",
        "display",
        "engines",
        "inference",
        "inputs",
        "learning",
        "likelihoods",
        "numerics",
        "progress",
        "regressor_answers",
        "sparse",
        "spelling",
        "units",
    },
    "choose": {"registry", "spelling", "engines", "likelihoods", "inference", "sparse", "sampling"},
    "answers": {"distributed", "inputs", "learning"},
    "base": {"display", "inputs", "kernels", "learning", "posteriors"},
    "fitting": {
        "callers",
        "choose",
        "distributed",
        "engines",
        "expressions",
        "inputs",
        "kernels",
        "learning",
        "likelihoods",
        "numerics",
        "progress",
        "units",
    },
    "estimator": {
        "answers",
        "assess",
        "base",
        "choose",
        "decisions",
        "display",
        "distributed",
        "fitting",
        "learning",
        "progress",
    },
    "posteriors": {"engines", "learning", "numerics"},
    "tables": {"files", "spelling"},
    "expressions": {"kernels", "spelling"},
    "units": {"callers", "expressions", "kernels", "numerics"},
    "inputs": {"expressions", "kernels", "learning", "numerics", "tables"},
    "persist": {
        "estimator",
        "files",
        "inputs",
        "engines",
        "gaussian",
        "kernels",
        "learning",
        "likelihoods",
        "numerics",
        "posteriors",
        "registry",
        "regressor",
        "sampling",
        "tables",
        "zips",
        "_version",
    },
    "explore": {
        "assess",
        "choose",
        "engines",
        "estimator",
        "expressions",
        "kernels",
        "learning",
        "likelihoods",
        "numerics",
        "registry",
        "units",
    },
    "cli": {
        "progress",
        "_lazy",
        "assess",
        "choose",
        "datasets",
        "distributed",
        "engines",
        "estimator",
        "explore",
        "expressions",
        "files",
        "inference",
        "learning",
        "persist",
        "sampling",
        "spelling",
        "tables",
        "_version",
    },
}


def imported_parts(path):
    """Names of the package's parts that a file imports."""
    depth = len(path.relative_to(ROOT).parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            inside = (node.module or "").split(".")
            if node.level == depth:  # from the package's root
                yield from (inside[:1] if inside[0] else [alias.name for alias in node.names])
            elif node.level == 0 and inside[0] == "gpclass":
                yield from (inside[1:2] or [alias.name for alias in node.names])
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("gpclass."))


@pytest.mark.parametrize("part", sorted(MAY_IMPORT))
def test_imports_point_down(part):
    files = (ROOT / part).rglob("*.py") if (ROOT / part).is_dir() else [ROOT / f"{part}.py"]
    for path in files:
        above = set(imported_parts(path)) - MAY_IMPORT[part] - {part}
        assert not above, f"{path.relative_to(ROOT)} imports {sorted(above)}, which is not below it"


def test_every_part_has_its_place():
    parts = {p.stem for p in ROOT.iterdir() if (p.is_dir() or p.suffix == ".py") and not p.name.startswith("__")}
    assert parts == set(MAY_IMPORT)


def test_every_folder_of_modules_is_a_package():
    """Installers leave out folders without an __init__.py."""
    folders = {path.parent for path in ROOT.rglob("*.py")}
    assert not [str(folder) for folder in folders if not (folder / "__init__.py").exists()]
