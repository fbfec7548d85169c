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
