"""The command line: `gpclass fit`, `predict`, `compare`, `audit`, `report`, `datasets`, `demo`.

commands one file for each command
app      the application that they are registered with
options  arguments and options that several commands have
reading_options   options that say how tables are read
completion  shell completion
names    names of engines, likelihoods and kernels, for help texts
console  printing, errors and exit codes, progress bars
outputs  checks of output files
remedies all problems of a file at once, and the command that solves them
columns  what options say of the columns of a training table
training from data files to a fitted pipeline, in this process or on a cluster
clusters the client of a cluster
models   model files, and tables of predictions
folders  predictions of several files, in this process or on a cluster
compare  comparison of engines by cross-validation
demo     a demonstration on an included data set
"""

from . import commands  # registers the commands
from .app import app, main

__all__ = ["app", "commands", "main"]
