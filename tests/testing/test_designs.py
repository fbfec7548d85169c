"""Problems by design: the effect of another order or other names on all their parts."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from gpclass.engines.contract import DESIGNS
from gpclass.testing.designs import problem_of
from gpclass.testing.problems import class_covariances

K = class_covariances(3, n=5)
Y = np.array([0, 1, 2, 0, 1])
ORDER = np.array([3, 0, 4, 1, 2])


@pytest.mark.parametrize("design", DESIGNS)
def test_rows_in_another_order(design):
    turned = problem_of(design, K, Y, 3).reordered(ORDER)
    whole = K[:, ORDER[:, None], ORDER]
    at = np.argsort(ORDER)[[0, 2, 4]]  # the new places of the inducing rows
    wanted = {
        "K": whole,
        "K_uu": whole[:, at[:, None], at],
        "K_fu": whole[:, :, at],
        "k_diag": np.diagonal(whole, axis1=1, axis2=2),
    }
    wanted |= {"uu": wanted["K_uu"], "fu": wanted["K_fu"], "diag": wanted["k_diag"]}
    assert_array_equal(turned.y, Y[ORDER])
    for name, part in turned.parts.items():
        assert_array_equal(part, wanted[name])


@pytest.mark.parametrize("design", DESIGNS)
def test_classes_with_other_names(design):
    """Class c is called names[c]; its covariances and its inducing variables go with it."""
    names = np.array([2, 0, 1])
    problem = problem_of(design, K, Y, 3)
    other = problem.renamed(names)
    assert_array_equal(other.y, [2, 0, 1, 2, 0])
    for name, part in problem.parts.items():
        for c in range(3):
            assert_array_equal(other.parts[name][names[c]], part[c])
    shared = problem_of(design, K[0], Y, 3)
    for name, part in shared.renamed(names).parts.items():
        assert_array_equal(part, shared.parts[name])
    if design == "inducing pairs":
        assert_array_equal(other.pairs[1], names[problem.pairs[1]])


def test_a_design_that_there_is_not():
    with pytest.raises(ValueError, match="design must be that of an engine, but is 'some rows'"):
        problem_of("some rows", K, Y, 3)
