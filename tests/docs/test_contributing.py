"""The example engine of CONTRIBUTING.md, run as printed."""

import re
import sys
import types
from pathlib import Path

import pytest

from gpclass.likelihoods import Gaussian, Logit, Probit
from gpclass.testing import check_engine

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def skeleton():
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.S)
    module = types.ModuleType("skeleton")
    sys.modules["skeleton"] = module  # where dataclasses look for their names
    exec(compile(code, "CONTRIBUTING.md", "exec"), module.__dict__)
    yield module
    del sys.modules["skeleton"]


@pytest.mark.parametrize("likelihood", [Probit(0.4, learn_bias=True), Logit(), Gaussian(0.3)], ids=repr)
def test_skeleton(skeleton, likelihood):
    check_engine(skeleton.Mine(), likelihood, bound=True)
