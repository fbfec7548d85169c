"""Covariance functions.

    K = k(X); Ks = k(X, Z); kd = k.diag(X)     values: (n, n) exactly symmetric, (n, m), (n,)
    k.theta, k.names, k.bounds                 logs of the free parameters, their names, (p, 2) log bounds
    k.with_theta(t), k.fix(name), k.free(name) new kernels; a kernel itself never changes
    k.pullback(X, G), k.pullback(X, Z, G)      d Σ G_ij K_ij / dtheta; with inputs=True also d/dX or d/dZ
    k.pullback_diag(X, g)                      d Σ g_i kd_i / dtheta; with inputs=True also d/dX
    k1 + k2, k1 * k2, 2.0 * k, 1.0 + k         Sum and Product, numbers as Constant

Parameters are positive: `variance` is σ_f², `lengthscale` is one number or one per input column. The keyword
`bounds={"variance": (lo, hi)}` sets bounds in values; the default is a factor 1e5 to either side of the value.
A kernel of your own: derive from `pairwise.Pairwise` (a function of a distance or inner product) or `leaf.Leaf`, and
run `gpclass.testing.kernels.check_kernel` on it.

    RBF                 variance * exp(-½ r²)
    Matern32, Matern52  once and twice differentiable samples
    RationalQuadratic   RBF kernels mixed over lengthscales; alpha
    Periodic            RBF on a circle; period
    Linear, Polynomial  (x·z) and (1 + x·z)^degree
    NeuralNetwork       arcsine kernel of a wide layer
    Constant, White     an offset; independent noise
    Sum, Product        of kernels
    Correlated          a kernel times a ClassCovariance, for latent functions of several classes that are correlated
    PerClass            a kernel for each class
    from_sklearn        the twin of a scikit-learn kernel; as_kernel also lets ours pass
"""

from .base import Kernel, Part
from .class_covariance import ClassCovariance, Correlated
from .composite import Product, Sum
from .constant import Constant
from .linear import Linear
from .matern import Matern32, Matern52
from .neural_network import NeuralNetwork
from .per_class import PerClass
from .periodic import Periodic
from .polynomial import Polynomial
from .rational_quadratic import RationalQuadratic
from .rbf import RBF
from .sklearn_twins import as_kernel, from_sklearn
from .white import White

__all__ = [
    "RBF",
    "ClassCovariance",
    "Constant",
    "Correlated",
    "Kernel",
    "Linear",
    "Matern32",
    "Matern52",
    "NeuralNetwork",
    "Part",
    "PerClass",
    "Periodic",
    "Polynomial",
    "Product",
    "RationalQuadratic",
    "Sum",
    "White",
    "as_kernel",
    "from_sklearn",
]
