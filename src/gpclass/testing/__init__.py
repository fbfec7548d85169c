"""Checks of kernels, likelihoods and engines: for the classes of this package and for those of users.

check_kernel      values, positive definiteness, derivatives in parameters and inputs, immutability
check_likelihood  every method, against quadrature and central differences
check_engine      gradients, identities, limits, symmetries, errors; engines of any design, one or several latent functions

`problems` has small problems with known answers.
"""

from .engines import check_engine
from .kernels import check_kernel
from .likelihoods import check_likelihood

__all__ = ["check_engine", "check_kernel", "check_likelihood"]
