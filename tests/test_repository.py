"""Files of the repository agree with the package: versions, oldest dependencies, documentation checks."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

import gpclass

ROOT = Path(__file__).parents[1]


def lower_bounds() -> dict[str, str]:
    """The lower bounds of all dependencies of pyproject.toml that tests need, by name."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    text = re.sub(r"^(build-system|lint|docs|requires) = .*$", "", text, flags=re.M)
    return {name.lower(): version for name, version in re.findall(r'"([A-Za-z0-9_-]+)(?:\[[^]]*\])?>=([0-9.]+)"', text)}


def oldest() -> dict[str, str]:
    lines = (ROOT / "tests" / "oldest.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def numbers(version: str) -> list[int]:
    parts = [int(part) for part in version.split(".")]
    return parts + [0] * (3 - len(parts))


def test_the_oldest_versions_are_the_lower_bounds():
    pinned = oldest()
    pinned.pop("distributed")  # comes with dask[distributed] and has its version
    bounds = lower_bounds()
    assert len(bounds) > 10
    assert {name: numbers(version) for name, version in pinned.items()} == {
        name: numbers(version) for name, version in bounds.items()
    }


def test_the_citation_has_the_version_of_the_package():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.*)$", text, re.M) == [gpclass.__version__]


def check_pages():
    pytest.importorskip("sphinx")
    spec = importlib.util.spec_from_file_location("check_pages", ROOT / "docs" / "check_pages.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


INDEX = 'Search.setIndex({"docnames": ["howto/imbalanced"], "terms": {"imbalanc": 0}, "titleterms": {}})'


def test_pages_in_order_have_no_problems(tmp_path, monkeypatch):
    module = check_pages()
    monkeypatch.setattr(module, "SEARCHES", {"imbalanced": "howto/imbalanced"})
    (tmp_path / "searchindex.js").write_text(INDEX)
    (tmp_path / "a.html").write_text('<p id="here">text</p><a href="#here">here</a><a href="https://example.org">away</a>')
    assert module.problems(tmp_path) == []


def test_each_kind_of_problem_is_found(tmp_path, monkeypatch):
    module = check_pages()
    monkeypatch.setattr(module, "SEARCHES", {"imbalanced": "howto/imbalanced", "balanced": "howto/imbalanced", "x": "none"})
    (tmp_path / "searchindex.js").write_text(INDEX)
    (tmp_path / "a.html").write_text(
        '<script src="https://cdn.example.org/a.js"></script><img src="no.png"><a href="b.html">b</a><a href="#no">no</a>'
        "<pre>plt<span>.</span>show()</pre>"
    )
    assert module.problems(tmp_path) == [
        "a.html loads https://cdn.example.org/a.js from a server",
        "a.html refers to no.png, which does not exist",
        "a.html refers to b.html, which does not exist",
        "a.html refers to #no, which does not exist",
        "a.html lacks a figure that its code shows",
        "the search for 'balanced' does not find howto/imbalanced",
        "the page none does not exist",
    ]
