"""Misspelt names: the most similar known name is suggested."""

import pytest

from gpclass import GPClassifier, GPRegressor, datasets
from gpclass.choose import as_likelihood, engine_named
from gpclass.cli.compare import chosen_engines
from gpclass.expressions import parse_kernel
from gpclass.kernels import RBF
from gpclass.spelling import closest, did_you_mean


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [("irsi", ["iris", "wine"], "iris"), ("CLASS", ["class", "clay"], "class"), ("zzz", ["iris"], None), ("a", [], None)],
)
def test_closest(name, known, found):
    assert closest(name, known) == found
    assert did_you_mean(name, known) == ("" if found is None else f" Did you mean {found!r}?")


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: engine_named("laplase"), "laplace"),
        (lambda: as_likelihood("probti", 2), "probit"),
        (lambda: chosen_engines("nested-pe", 10, 3), "nested-ep"),
        (lambda: parse_kernel("rfb + linear", 2), "rbf"),
        (lambda: RBF().with_settings(lengthscal=2.0), "lengthscale"),
        (lambda: datasets.load("Wines"), "wine"),
        (lambda: GPClassifier(inference="EP ").fit([[0.0], [1.0]], [0, 1]), "ep"),
        (lambda: GPRegressor(inference="ivmm").fit([[0.0], [1.0]], [0.0, 1.0]), "ivm"),
    ],
)
def test_every_name_is_offered(call, meant):
    with pytest.raises(ValueError, match=f"[Dd]id you mean '{meant}'"):
        call()
