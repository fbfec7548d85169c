"""Kits of checks, run over every public class of the package and by users on classes of their own.

check_kernel      values, positive definiteness, derivatives in parameters and inputs, manners
check_likelihood  every question it answers, against quadrature and central differences
check_engine      gradients, identities, limits, symmetries, errors; engines of any design, one or several latent functions

and small problems for which the answers are known (`problems`).
"""

from .engines import check_engine
from .kernels import check_kernel
from .likelihoods import check_likelihood

__all__ = ["check_engine", "check_kernel", "check_likelihood"]
