"""What draws without a random_state draws from NumPy's global generator: seeded, so that tests are the same each time."""

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def seeded():
    np.random.seed(0)  # noqa: NPY002: check_random_state(None) is that generator
