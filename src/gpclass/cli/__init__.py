"""The command line: `gpclass fit`, `predict`, `compare`, `audit`, `report`, `datasets`, `demo`.

commands the commands and their options
names    of engines and kernels, for help texts
console  what is printed where, errors and exit codes, progress
outputs  where a command may write
models   from a table to a fitted pipeline, and from a model to a table of predictions
compare  engines side by side, by cross-validation
demo     all of it on data that comes along
"""

from .commands import app, main

__all__ = ["app", "main"]
