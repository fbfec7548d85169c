"""What draws without a random_state draws from NumPy's global generator: seeded, so that tests are the same each time."""

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def seeded():
    np.random.seed(0)  # noqa: NPY002 (it is the one that check_random_state takes for None)
