"""The command line: `gpclass fit`, `predict`, `compare`, `audit`, `report`, `datasets`, `demo`.

commands the commands and their options
names    names of engines and kernels, for help texts
console  printing, errors and exit codes, progress bars
outputs  checks of output files
training from data files to a fitted pipeline, in this process or on a cluster
models   model files, and tables of predictions
folders  predictions of several files, in this process or on a cluster
compare  comparison of engines by cross-validation
demo     a demonstration on an included data set
"""

from .commands import app, main

__all__ = ["app", "main"]
