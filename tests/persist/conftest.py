"""A model file to be damaged by tests."""

import pytest

import gpclass

from .parts import fitted


@pytest.fixture(scope="package")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "model.gpclass"
    gpclass.save(fitted(inference="ep", optimizer=None), path)
    return path.read_bytes()
