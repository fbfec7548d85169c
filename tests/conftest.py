"""Fixtures of all tests.

Code without a random_state draws from NumPy's global generator, which is seeded here so that tests are the same each time.
"""

import os
import shutil
from collections import Counter

import numpy as np
import pytest

from gpclass.numerics import blocks

SLOW_TOO = False  # whether the slow tests run too


def pytest_configure(config):
    global SLOW_TOO
    SLOW_TOO = config.option.markexpr != "not slow"


@pytest.hookimpl(tryfirst=True)  # before the option -m deselects
def pytest_collection_modifyitems(items):
    """Mark cases slow: of `quick_cases(*ids)` all others, of `slow_cases(*ids)` these. Unknown ids are errors."""
    named, found = set(), set()
    for item in items:
        case = item.callspec.id if hasattr(item, "callspec") else ""
        test = item.nodeid.removesuffix(f"[{case}]")
        for mark in (*item.iter_markers("quick_cases"), *item.iter_markers("slow_cases")):
            named.update((test, id) for id in mark.args)
            found.add((test, case))
            if (case in mark.args) == (mark.name == "slow_cases"):
                item.add_marker(pytest.mark.slow)
    collected = Counter(test for test, _ in found)
    unknown = sorted(f"{test}[{id}]" for test, id in named - found if collected[test] > 1)  # not one selected by its id
    if unknown:
        raise pytest.UsageError(f"no such cases: {', '.join(unknown)}")


@pytest.fixture(autouse=True)
def seeded():
    np.random.seed(0)  # noqa: NPY002 (it is the one that check_random_state takes for None)


@pytest.fixture
def rows_at_a_time(monkeypatch):
    """Set the number of rows that a module handles at a time: results must not depend on it."""

    def limit(module, size):
        monkeypatch.setattr(f"{module}.blocks", lambda n, *_, **__: blocks(n, 1, size))

    return limit


@pytest.fixture
def quick_reports(request, monkeypatch):
    """Reports with one other kernel and a coarse evidence surface, except in slow tests."""
    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr("gpclass.assess.report.hyperparameters.KERNELS", ("linear",))
        monkeypatch.setattr("gpclass.assess.report.hyperparameters.SURFACE_POINTS", 3)


def browser_path():
    """Path of the Chromium to use, or None for playwright's own."""
    found = [os.environ.get("GPCLASS_CHROMIUM"), *map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))]
    return next((path for path in found if path), None)


@pytest.fixture(scope="module")
def browser():
    """Chromium, driven by playwright; one for the tests of a module."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    with sync_api.sync_playwright() as playwright:
        try:
            opened = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
        except sync_api.Error as error:
            pytest.skip(f"no Chromium found (playwright install chromium, or set GPCLASS_CHROMIUM): {str(error)[:200]}")
        yield opened
        opened.close()
