"""The command line: `gpclass fit`, `predict`, `compare`, `audit`, `report`, `explore`, `datasets`, `demo`.

commands one file for each command
application  the application that they are registered with
options  arguments and options that several commands have
reading_options   options that say how tables are read
completion  shell completion
names    names of engines, likelihoods and kernels, for help texts
console  printing, errors and exit codes, progress bars
outputs  checks of output files
remedies all problems of a file at once, and the command that solves them
columns  what options say of the columns of a training table
cautions warnings about tables that can be used, but probably not as they are
training from data files to a fitted pipeline, in this process or on a cluster
clusters the client of a cluster
models   model files, and tables of predictions
folders  predictions of several files, in this process or on a cluster
compare  comparison of engines by cross-validation
explore  from a table to a page on this machine
demo     a demonstration on an included data set
"""

import sys
from typing import TYPE_CHECKING

from .._lazy import lazy_names
from .._version import __version__

__all__ = ["app", "main"]

if TYPE_CHECKING:
    from .commands import app
else:
    __getattr__, __dir__ = lazy_names(__name__, {"app": "commands"})


def main() -> None:
    """Entry point of the `gpclass` command."""
    if sys.argv[1:] == ["--version"]:  # shown without typer, which takes most of the time
        print(f"gpclass {__version__}")
        return
    from .commands import app

    app()
