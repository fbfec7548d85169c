"""The README's commands and code run as printed, and its links exist."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_moons
from typer.testing import CliRunner

from gpclass.cli import app

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ELSEWHERE = ("audit", "explore")  # slow, or never ending: they have tests of their own
WITHOUT = {"quick": (*ELSEWHERE, "compare"), "all": ELSEWHERE}


def blocks(language: str) -> list[str]:
    return [text for name, text in re.findall(r"^```(\w*)\n(.*?)^```$", README, re.S | re.M) if name == language]


def commands() -> list[list[str]]:
    lines = [line.split("#")[0] for block in blocks("") for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("gpclass ")]


@pytest.mark.usefixtures("quick_reports")
@pytest.mark.quick_cases("quick")
@pytest.mark.parametrize("left_out", WITHOUT.values(), ids=WITHOUT)
def test_commands(left_out, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(commands()) >= 5
    for command in commands():
        if command[0] not in left_out:
            result = CliRunner().invoke(app, command)
            assert result.exit_code == 0, f"gpclass {' '.join(command)}: {result.output}"


def test_all_commands_are_named():
    known = {command.callback.__name__ for command in app.registered_commands}
    assert {command[0] for command in commands()} == known - {"demo"}  # shows the other commands


def test_code():
    X, y = make_moons(80, noise=0.2, random_state=0)
    (text,) = blocks("python")
    names = {"X": X[:40], "y": y[:40], "X_new": X[40:]}
    exec(text, names)
    assert np.mean(names["clf"].predict(X[40:]) == y[40:]) > 0.8


def test_links_lead_somewhere():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert len(links) > 20
    missing = [link for link in links if not (ROOT / link).exists()]
    assert not missing


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make ([a-z-]+)", README):
        assert re.search(rf"^{target}:", makefile, re.M), target
