"""The application: what its commands are registered with."""

from __future__ import annotations

from typing import Annotated

import typer

from .._version import __version__
from .console import EXIT_CODES

app = typer.Typer(
    name="gpclass",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Gaussian process classification of tables, with calibrated class probabilities and reports on their quality.",
    epilog=EXIT_CODES,
)


def _version(asked: bool) -> None:
    if asked:
        print(f"gpclass {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass
