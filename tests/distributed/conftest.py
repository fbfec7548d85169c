"""One cluster for all tests of this folder: starting its processes takes longer than most of the tests.

It is closed after the tests of the folder, because its threads would count in tests of memory and of threads.
"""

import pytest


@pytest.fixture(scope="package")
def two_workers():
    """A cluster of two processes. A test that ends one of them waits until another one has started."""
    distributed = pytest.importorskip("distributed")
    settings = {"threads_per_worker": 1, "processes": True, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(n_workers=2, **settings) as cluster:
        yield cluster
