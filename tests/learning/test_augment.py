"""Transformed copies of active rows: shifts of images, invariance."""

import pickle

import numpy as np
import pytest

from gpclass.kernels import RBF
from gpclass.learning import (
    ImageShifts,
    Objective,
    fit_active,
    fit_augmented,
    resolve_priors,
)
from gpclass.likelihoods import Probit
from gpclass.sparse import IVM


def test_image_shifts():
    image = np.arange(12.0).reshape(3, 4) + 1
    shifts = ImageShifts((3, 4), steps=((1, 0), (0, -2)), fill=0.0)
    down, left = shifts(image.reshape(1, -1))
    assert down.reshape(3, 4).tolist() == [[0, 0, 0, 0], [1, 2, 3, 4], [5, 6, 7, 8]]
    assert left.reshape(3, 4).tolist() == [[3, 4, 0, 0], [7, 8, 0, 0], [11, 12, 0, 0]]
    assert ImageShifts((3, 4))(image.reshape(1, -1)).shape == (4, 1, 12)
    assert ImageShifts((3, 4), steps=((1, 0),))(image.reshape(1, -1)).min() == 1  # the background is the image's own
    assert pickle.loads(pickle.dumps(shifts)) == shifts
    with pytest.raises(ValueError, match="not images of 3 × 4"):
        shifts(np.zeros((2, 11)))


def test_virtual_rows_carry_invariance():
    """Classes do not depend on the sign of the first input; the transformed copies teach that."""
    local = np.random.default_rng(4)
    half = np.column_stack([local.uniform(0, 2, size=60), local.normal(size=60)])
    y = np.where(half[:, 0] > 1, 1.0, -1.0)
    kernel = RBF(0.7, 4.0)
    problem = Objective(half, y, kernel, Probit(), IVM(active=40), resolve_priors(None, kernel.names))
    plain, _, _ = fit_active(problem, problem.theta)
    mirrored = fit_augmented(problem, problem.theta, plain, lambda rows: (rows * [-1.0, 1.0])[None])
    test = np.column_stack([-local.uniform(0, 2, size=300), local.normal(size=300)])
    truth = np.where(np.abs(test[:, 0]) > 1, 1.0, -1.0)

    def error(fit, inputs):
        return np.mean(np.sign(fit.predict(kernel(inputs, test), kernel.diag(test))[0]) != truth)

    assert mirrored.virtual.any()
    assert np.array_equal(mirrored.inputs[~mirrored.virtual], half[mirrored.sources[~mirrored.virtual]])
    assert np.array_equal(mirrored.inputs[mirrored.virtual], half[mirrored.sources[mirrored.virtual]] * [-1, 1])
    assert error(mirrored.fit, mirrored.inputs) < 0.1 < error(plain, half[plain.rows])
    with pytest.raises(ValueError, match="augment must turn"):
        fit_augmented(problem, problem.theta, plain, lambda rows: rows)
