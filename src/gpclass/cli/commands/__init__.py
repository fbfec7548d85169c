"""The commands, one file each.

Modules that import NumPy or other large packages are imported inside the commands, so that --help and --version are fast.
"""

# ruff: noqa: I001 (--help lists the commands in the order of these imports)
from ..application import app
from .fit import fit
from .predict import predict
from .compare import compare
from .audit import audit
from .report import report
from .explore import explore
from .datasets import datasets
from .demo import demo

__all__ = ["app", "audit", "compare", "datasets", "demo", "explore", "fit", "predict", "report"]
