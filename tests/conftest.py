"""Fixtures of all tests.

Code without a random_state draws from NumPy's global generator, which is seeded here so that tests are the same each time.
"""

import numpy as np
import pytest

from gpclass.numerics import blocks


@pytest.fixture(autouse=True)
def seeded():
    np.random.seed(0)  # noqa: NPY002 (it is the one that check_random_state takes for None)


@pytest.fixture
def rows_at_a_time(monkeypatch):
    """Make a module take its rows so many at a time: answers must not depend on that."""

    def limit(module, size):
        monkeypatch.setattr(f"{module}.blocks", lambda n, *_, **__: blocks(n, 1, size))

    return limit
