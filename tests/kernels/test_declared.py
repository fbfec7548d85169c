"""Kernels rebuilt from the arguments of their constructors, as model files do."""

import pytest

from gpclass.kernels import RBF, Constant, Linear, Periodic, Polynomial
from gpclass.kernels.parameters import Parameter

KERNELS = [
    RBF([1.0, 2.0], 3.0, bounds={"variance": (0.1, 7.0)}).fix("lengthscale[1]"),
    RBF(0.3).with_theta([1.0, 2.0]),
    Linear().free("lengthscale"),
    Linear([1.0, 2.0]),
    Polynomial(3, 2.0).fix("variance"),
    Periodic(1.0, 0.7, bounds={"period": (0.5, 1.0)}),
    Constant(2.0).fix("variance"),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_declared_parameters_make_the_same_kernel(kernel):
    assert type(kernel)(**kernel.declared()) == kernel


@pytest.mark.parametrize(
    "parameter",
    [
        Parameter((-1.0,), ((0.0, 1.0),), (True,), False),
        Parameter((1.0, 2.0), ((0.0, 1.0),), (True, True), True),
        Parameter((1.0,), ((1.0, 0.0),), (True,), False),
        Parameter((1.0,), ((0.0, 1.0),), (1,), False),
        Parameter((1.0, 2.0), ((0.0, 1.0),) * 2, (True, True), False),
    ],
    ids=str,
)
def test_parameters_are_checked(parameter):
    with pytest.raises(ValueError, match="lengthscale"):
        RBF(lengthscale=parameter)
    with pytest.raises(ValueError, match="variance"):
        Constant(parameter)


def test_one_number_per_column_is_not_for_all_parameters():
    several = Parameter((1.0, 2.0), ((0.0, 1.0),) * 2, (True, True), True)
    assert RBF(several).lengthscale.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="variance"):
        RBF(1.0, several)
