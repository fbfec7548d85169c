"""Translation of scikit-learn's Gaussian process kernels.

The translation of a kernel has the same values for all settings of the parameters. Most kernels of scikit-learn have no
variance: the variance of the translation comes from a ConstantKernel factor, or is fixed at 1. Fixed hyperparameters stay
fixed, and bounds are kept. theta has the order of gpclass.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Kernel
from .composite import Product, Sum
from .constant import Constant
from .leaf import Leaf
from .linear import Linear
from .periodic import Periodic
from .polynomial import Polynomial
from .radial import RBF, Matern32, Matern52
from .rational_quadratic import RationalQuadratic
from .white import White

TRANSLATED = (
    "RBF, Matern (nu 1.5, 2.5, inf), RationalQuadratic, ConstantKernel, WhiteKernel, DotProduct, ExpSineSquared, "
    "Sum, Product, and Exponentiation (exponent 1, 2, 3) of DotProduct with fixed sigma_0 > 0"
)


def as_kernel(obj: Any) -> Kernel:
    """Return a gpclass kernel unchanged, or the translation of a scikit-learn kernel. Raise TypeError for other objects."""
    if isinstance(obj, Kernel):
        return obj
    from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

    if isinstance(obj, SklearnKernel):
        return from_sklearn(obj)
    raise TypeError(f"expected a kernel from gpclass.kernels or scikit-learn; got {type(obj).__name__}: {obj!r}.")


def from_sklearn(kernel: Any) -> Kernel:
    """Return the gpclass kernel with the same values, or raise TypeError if there is none.

    A DotProduct becomes Constant + Linear. ExpSineSquared depends on the Euclidean distance, and Periodic on the distances
    in each column, so they agree for one input column only. The Periodic kernel therefore gets a lengthscale vector of
    length one, and raises ValueError for inputs with more columns.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        The kernel to translate.

    Returns
    -------
    Kernel
        The kernel of gpclass.
    """
    from sklearn.gaussian_process import kernels as sk

    match kernel:
        case sk.Product(k1=sk.ConstantKernel() as factor, k2=other) | sk.Product(k1=other, k2=sk.ConstantKernel() as factor):
            return _times_constant(factor, other)
        case sk.CompoundKernel():
            raise TypeError(
                "CompoundKernel, which has one kernel for each of several latent functions, has no equivalent in gpclass. "
                "Give the kernels of the classes as gpclass.kernels.PerClass(k1, k2, ...)."
            )
        case sk.Sum():
            return Sum(from_sklearn(kernel.k1), from_sklearn(kernel.k2))
        case sk.Product():
            return Product(from_sklearn(kernel.k1), from_sklearn(kernel.k2))
        case sk.Exponentiation():
            return _exponentiation(kernel)
        case sk.DotProduct():
            return _dot_product(kernel)
        case sk.ConstantKernel():
            return _make(Constant, kernel, variance="constant_value")
        case sk.WhiteKernel():
            return _make(White, kernel, variance="noise_level")
        case _:
            return _unit_variance(kernel).fix("variance")


def _unit_variance(kernel: Any) -> Leaf:
    """Return the translation of a kernel that has no variance in scikit-learn. Its variance is 1 and free."""
    from sklearn.gaussian_process import kernels as sk

    match kernel:
        case sk.Matern(nu=1.5):
            return _make(Matern32, kernel, lengthscale="length_scale")
        case sk.Matern(nu=2.5):
            return _make(Matern52, kernel, lengthscale="length_scale")
        case sk.Matern(nu=nu) if nu != np.inf:
            raise _no_equivalent(kernel)
        case sk.RBF():
            return _make(RBF, kernel, lengthscale="length_scale")
        case sk.RationalQuadratic():
            return _make(RationalQuadratic, kernel, lengthscale="length_scale", alpha="alpha")
        case sk.ExpSineSquared():
            return _make(Periodic, kernel, one_column=True, lengthscale="length_scale", period="periodicity")
        case _:
            raise _no_equivalent(kernel)


def _times_constant(factor: Any, other: Any) -> Kernel:
    constant = _make(Constant, factor, variance="constant_value")
    translated = from_sklearn(other)
    if isinstance(translated, Leaf) and translated.variance == 1 and not any(translated._parameters["variance"].free):
        return translated._with(translated._parameters | constant._parameters)
    return Product(constant, translated)


def _dot_product(kernel: Any) -> Kernel:
    linear = Linear().fix("lengthscale", "variance")
    if kernel.sigma_0 == 0:
        return linear
    sigma = _make(Constant, kernel, variance="sigma_0")
    p = sigma._parameters["variance"]
    squared = Constant(kernel.sigma_0**2, bounds={"variance": np.exp(2 * np.array(p.log_bounds))})
    return Sum(squared if p.free[0] else squared.fix("variance"), linear)


def _exponentiation(kernel: Any) -> Kernel:
    """Return the translation of a power of DotProduct: (σ₀² + x·z)^d = σ₀^2d (1 + x·z/σ₀²)^d.

    σ₀ must be fixed, because it determines both the lengthscale and the variance of Polynomial.
    """
    from sklearn.gaussian_process import kernels as sk

    base, exponent = kernel.kernel, kernel.exponent
    if exponent == 1:
        return from_sklearn(base)
    if not isinstance(base, sk.DotProduct) or exponent not in (2, 3):
        raise _no_equivalent(kernel)
    if not base.hyperparameter_sigma_0.fixed or base.sigma_0 == 0:
        raise TypeError(
            f'{kernel} has an equivalent only if sigma_0 > 0 and sigma_0_bounds="fixed". '
            "Alternative: gpclass.kernels.Polynomial."
        )
    kernel = Polynomial(int(exponent), lengthscale=base.sigma_0, variance=base.sigma_0 ** (2 * exponent))
    return kernel.fix("lengthscale", "variance")


def _make(cls: Any, kernel: Any, one_column: bool = False, **attributes: str) -> Any:
    """Return a `cls` kernel with values, bounds and fixed parameters from attributes of a scikit-learn kernel."""
    values, bounds, fixed = {}, {}, []
    for ours, theirs in attributes.items():
        hyperparameter = getattr(kernel, f"hyperparameter_{theirs}")
        value = getattr(kernel, theirs)
        values[ours] = np.atleast_1d(value) if one_column and ours == "lengthscale" else value
        if hyperparameter.fixed:
            fixed.append(ours)
        else:
            bounds[ours] = hyperparameter.bounds
    return cls(**values, bounds=bounds).fix(*fixed)


def _no_equivalent(kernel: Any) -> TypeError:
    return TypeError(f"{kernel} has no equivalent in gpclass. scikit-learn kernels that have one: {TRANSLATED}.")
