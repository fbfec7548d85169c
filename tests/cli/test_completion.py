"""Shell completion, called as the shell does: in a separate process."""

import os
import subprocess
import sys

import pytest

from gpclass.choose import likelihoods_of
from gpclass.cli import names
from gpclass.cli.completion import header

CODE = """
import sys
sys.argv = ["gpclass"]
from gpclass.cli import main
try:
    main()
finally:
    assert not {"numpy", "pandas"} & set(sys.modules)
"""


def completed(folder, *words, shell="bash"):
    """Return the completions of the last word."""
    env = {**os.environ, "_GPCLASS_COMPLETE": f"complete_{shell}"}
    if shell == "bash":
        env |= {"COMP_WORDS": " ".join(["gpclass", *words]), "COMP_CWORD": str(len(words))}
    else:
        env |= {"_TYPER_COMPLETE_ARGS": " ".join(["gpclass", *words]), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=env, cwd=folder, check=False)
    assert "AssertionError" not in done.stderr, done.stderr
    return done.stdout.split()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "t.csv").write_text("width;weight;colour;class\n1;2;red;a\n")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["fi"], ["fit"]),
        (["fit", "t.csv", "--engine", "sv"], ["svgp"]),
        (["compare", "t.csv", "--engines", "ep,lapl"], ["ep,laplace"]),
        (["fit", "t.csv", "--likelihood", "pro"], ["probit"]),
        (["fit", "t.csv", "--kernel", "matern5"], ["matern52", "matern52-ard"]),
        (["fit", "t.csv", "--target", "cl"], ["class"]),
        (["fit", "t.csv", "--target", "class", "--drop", "width,we"], ["width,weight"]),
        (["predict", "m", "t.csv", "--id", "co"], ["colour"]),
        (["fit", "none.csv", "--target", "c"], []),
    ],
)
def test_bash_completes(words, offered, folder):
    assert completed(folder, *words) == offered


def test_fish_completes_columns(folder):
    assert completed(folder, "fit", "t.csv", "--target", "cl", shell="fish") == ["class"]


def test_headers_are_read_without_pandas(tmp_path):
    (tmp_path / "a.csv").write_text('\ufeff"a, b", c\n1,2\n', encoding="utf-8")
    (tmp_path / "b.tsv").write_text("größe\ty\n", encoding="utf-16")
    (tmp_path / "c.parquet").write_bytes(b"PAR1\x00\x15\x04")
    assert header(tmp_path / "a.csv") == ["a, b", "c"]
    assert header(tmp_path / "b.tsv") == ["größe", "y"]
    assert header(tmp_path / "c.parquet") == []
    assert header(None) == header(tmp_path / "none.csv") == []


def test_all_likelihoods_are_offered():
    known = [*likelihoods_of(2), *likelihoods_of(3), *likelihoods_of(3, "ordered categories")]
    assert set(names.LIKELIHOODS) <= set(known)
    assert {"probit", "softmax", "ordinal"} <= set(names.LIKELIHOODS)
