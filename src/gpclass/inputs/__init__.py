"""Inputs of estimators that are not arrays of numbers: data frames, covariance matrices, objects, sparse matrices.

`fitted_inputs` validates training data and returns the rows that the kernel takes, `more_inputs` does so for further rows.
What the second needs from the first is kept in the attributes `encoder_` (frames) and `covariances_` of the estimator. For
arrays of numbers both are None, and the functions only validate.

A covariance matrix, a function of objects and a kernel on sparse rows all lead to rows of covariances with the training
rows, on which `Precomputed` is the kernel (`kernels/precomputed.py`). So everything after this package sees numbers only.
"""

from .covariances import GivenMatrix, ObjectRows, SparseRows
from .prepare import (
    fitted_inputs,
    more_data,
    more_inputs,
    on_rows,
    row_fingerprints,
    starting_point,
    takes_covariances,
    takes_sparse,
)

__all__ = [
    "GivenMatrix",
    "ObjectRows",
    "SparseRows",
    "fitted_inputs",
    "more_data",
    "more_inputs",
    "on_rows",
    "row_fingerprints",
    "starting_point",
    "takes_covariances",
    "takes_sparse",
]
