"""The command line: `gpclass fit`, `predict`, `compare`, `audit`, `report`, `datasets`, `demo`.

commands the commands and their options
names    names of engines and kernels, for help texts
console  printing, errors and exit codes, progress bars
outputs  checks of output files
models   from a table to a fitted pipeline, and from a model to a table of predictions
compare  comparison of engines by cross-validation
demo     a demonstration on an included data set
"""

from .commands import app, main

__all__ = ["app", "main"]
