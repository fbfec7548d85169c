"""Covariance functions.

    K = k(X); Ks = k(X, Z); kd = k.diag(X)     values: (n, n), exactly symmetric; (n, m); (n,)
    k.theta, k.names, k.bounds                 logs of the free parameters, their names, their log bounds (p, 2)
    k.with_theta(t), k.fix(name), k.free(name) new kernels; a kernel itself never changes
    k.pullback(X, G), k.pullback(X, Z, G)      d Σ G_ij K_ij / dtheta; with inputs=True also d/dX or d/dZ
    k.pullback_diag(X, g)                      d Σ g_i kd_i / dtheta; with inputs=True also d/dX
    k1 + k2, k1 * k2, 2.0 * k, 1.0 + k         Sum and Product; numbers become Constant

Parameters are positive: `variance` is σ_f², `lengthscale` is one number or one per input column. `RBF(ard=True)` is for one
per column without knowing the number of columns: estimators insert it with `k.for_columns(D)`. The keyword
`bounds={"variance": (low, high)}` sets bounds as values. The default is a factor of 1e5 to either side of the value.
To write a kernel, read the contract in base.py.

    RBF                 variance * exp(-½ r²)
    Matern32, Matern52  samples are once and twice differentiable
    RationalQuadratic   a mixture of RBF kernels with different lengthscales; alpha
    Periodic            RBF on a circle; period
    Linear, Polynomial  x·z and (1 + x·z)^degree
    NeuralNetwork       arcsine kernel of an infinitely wide layer
    Constant, White     a common offset; independent noise
    Tanimoto            bits or counts that two rows have in common
    Categorical         columns in which two rows differ
    Precomputed         a covariance matrix of the user
    FunctionKernel      a function of two objects of any type
    Sum, Product        combinations of kernels
    Correlated          a kernel times a ClassCovariance, for correlated latent functions of several classes
    PerClass            one kernel for each class
    Standardized        a kernel that measures each column in units of its spread
    from_sklearn        translates a scikit-learn kernel; as_kernel also accepts kernels of this package
"""

from ..registry import register
from .base import Kernel, Part
from .categorical import Categorical
from .class_covariance import ClassCovariance, Correlated
from .composite import Product, Sum
from .constant import Constant
from .function import FunctionKernel
from .linear import Linear
from .neural_network import NeuralNetwork
from .per_class import PerClass
from .periodic import Periodic
from .polynomial import Polynomial
from .precomputed import Precomputed, covariance_rows
from .radial import RBF, Matern32, Matern52
from .rational_quadratic import RationalQuadratic
from .sklearn_kernels import as_kernel, from_sklearn
from .standardized import Standardized
from .tanimoto import Tanimoto
from .white import White

for _cls in (
    RBF,
    Matern32,
    Matern52,
    RationalQuadratic,
    Periodic,
    Linear,
    Polynomial,
    NeuralNetwork,
    Constant,
    White,
    Tanimoto,
    Categorical,
    Precomputed,
    FunctionKernel,
    Sum,
    Product,
    Correlated,
    PerClass,
    Standardized,
):
    register(_cls)

__all__ = [
    "RBF",
    "Categorical",
    "ClassCovariance",
    "Constant",
    "Correlated",
    "FunctionKernel",
    "Kernel",
    "Linear",
    "Matern32",
    "Matern52",
    "NeuralNetwork",
    "Part",
    "PerClass",
    "Periodic",
    "Polynomial",
    "Precomputed",
    "Product",
    "RationalQuadratic",
    "Standardized",
    "Sum",
    "Tanimoto",
    "White",
    "as_kernel",
    "covariance_rows",
    "from_sklearn",
]
