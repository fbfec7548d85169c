"""The base class of all engines (`contract.py`)."""

from .contract import Engine, UnsuitableLikelihood

__all__ = ["Engine", "UnsuitableLikelihood"]
