"""What every engine declares (`contract.py`)."""

from .contract import Engine, UnsuitableLikelihood

__all__ = ["Engine", "UnsuitableLikelihood"]
