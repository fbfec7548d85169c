"""Options that say how tables are read, for all commands that read some.

`@reads_tables` adds them to a command, which gets them as its argument `given`. `@reads_training_tables` adds those of
tables that models are fitted to.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import completion

if TYPE_CHECKING:
    from ..tables import Option, Reading
    from .columns import Columns

PANEL = "Reading tables"


def _option(name: str, text: str, metavar: str | None = None, complete: Any = None, **settings: Any) -> Any:
    return typer.Option(name, help=text, metavar=metavar, rich_help_panel=PANEL, autocompletion=complete, **settings)


READING: dict[str, tuple[Any, Any]] = {  # annotations and defaults of the parameters
    "sep": (
        Annotated[str | None, _option("--sep", metavar="CHARACTER", text="Between cells, or tab. Found by default.")],
        None,
    ),
    "decimal": (Annotated[str, _option("--decimal", metavar="CHARACTER", text="Character before decimals: . or ,")], "."),
    "thousands": (
        Annotated[str, _option("--thousands", metavar="CHARACTER", text="Character between thousands: , . ' or a space.")],
        "",
    ),
    "encoding": (Annotated[str | None, _option("--encoding", text="Such as cp1252. By default UTF-8.")], None),
    "missing_values": (
        Annotated[str, _option("--missing-values", metavar="TEXTS", text='Cells that are missing, such as "?,-".')],
        "",
    ),
    "no_header": (Annotated[bool, _option("--no-header", text="There is no header: columns are called 1, 2, …")], False),
    "rename_duplicates": (
        Annotated[bool, _option("--rename-duplicates", text='Number columns of one name: "a", "a (2)".')],
        False,
    ),
    "skip_lines": (Annotated[int, _option("--skip-lines", "Number of lines before the header.", "N", min=0)], 0),
    "skip_ragged": (Annotated[bool, _option("--skip-ragged", text="Leave out rows with too many cells.")], False),
}
TRAINING: dict[str, tuple[Any, Any]] = {
    "dates": (
        Annotated[
            str,
            _option(
                "--dates",
                metavar="COLUMNS",
                text="Columns of dates, or NAME=%d/%m/%Y, which become numbers.",
                complete=completion.columns,
            ),
        ],
        "",
    ),
    "units": (
        Annotated[
            str,
            _option(
                "--units",
                metavar="COLUMNS",
                text='Columns of numbers with a unit: "13.9 cm".',
                complete=completion.columns,
            ),
        ],
        "",
    ),
    "skip_unlabelled": (Annotated[bool, _option("--skip-unlabelled", text="Leave out rows without a label.")], False),
    "merge_labels": (
        Annotated[
            bool | None,
            _option("--merge-labels/--keep-labels", text="Whether labels that differ only in case or spaces are one class."),
        ],
        None,
    ),
}


@dataclass(frozen=True)
class Given:
    """The options of a command that say how tables are read."""

    context: typer.Context
    settings: dict[str, Any]  # the options of `READING`
    training: dict[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def reading(self) -> Reading:
        """How tables are read. Its module imports pandas, so commands say first what they do."""
        return _reading(**self.settings)

    def columns(self, target: str, drop: str = "", id: str | None = None, impute: Any = None) -> Columns:
        """Return the columns of a training table, given the options --target, --drop, --id and --impute."""
        from .columns import Columns

        return Columns.of(target, drop, id, impute=impute.value if impute else None, reading=self.reading, **self.training)


def reads_tables(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of `READING` to a command. It has them as an argument `given`."""
    return _with(function, {})


def reads_training_tables(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of `READING` and `TRAINING` to a command. It has them as an argument `given`."""
    return _with(function, TRAINING)


def _with(function: Callable[..., None], more: dict[str, tuple[Any, Any]]) -> Callable[..., None]:
    @functools.wraps(function)
    def run(ctx: typer.Context, **values: Any) -> None:
        settings = {name: values.pop(name) for name in READING}
        training = {name: values.pop(name) for name in more}
        function(given=Given(ctx, settings, training), **values)

    own = inspect.signature(function, eval_str=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    added = [inspect.Parameter(n, kind, default=d, annotation=a) for n, (a, d) in {**more, **READING}.items()]
    context = inspect.Parameter("ctx", kind, annotation=typer.Context)
    others = [p.replace(kind=kind) for p in own.parameters.values() if p.name != "given"]
    run.__signature__ = own.replace(parameters=[context, *others, *added])  # type: ignore[attr-defined]
    return run


def _reading(missing_values: str, no_header: bool, **settings: Any) -> Reading:
    from ..tables import Reading

    return Reading(missing_values=tuple(names_in(missing_values)), header=not no_header, **settings)


def names_in(text: str) -> list[str]:
    """Return names that are separated by commas; a name with a comma is in double quotes."""
    import csv

    cells = next(csv.reader([text], skipinitialspace=True), [])
    return [name for name in dict.fromkeys(cells) if name]


def joined(names: Iterable[str]) -> str:
    """Return the text from which `names_in` reads names."""
    return ",".join(f'"{n.replace(chr(34), chr(34) * 2)}"' if "," in n or '"' in n or n != n.lstrip() else n for n in names)


def reading_options(reading: Reading) -> dict[str, str | bool]:
    """Return the values of the options by name. Those that are not set are empty or false."""
    return {
        "--sep": {"\t": "tab", " ": "space"}.get(reading.sep or "", reading.sep or ""),
        "--decimal": "" if reading.decimal == "." else reading.decimal,
        "--thousands": reading.thousands,
        "--encoding": reading.encoding or "",
        "--missing-values": joined(reading.missing_values),
        "--no-header": not reading.header,
        "--rename-duplicates": reading.rename_duplicates,
        "--skip-ragged": reading.skip_ragged,
        "--skip-lines": str(reading.skip_lines or ""),
    }


def with_reading_option(reading: Reading, option: Option) -> Reading:
    """Return the settings with one more option; others than those of `READING` change nothing."""
    match option.name:
        case "--missing-values":
            return replace(reading, missing_values=tuple(dict.fromkeys([*reading.missing_values, option.value])))
        case "--no-header":
            return replace(reading, header=False)
        case "--rename-duplicates":
            return replace(reading, rename_duplicates=True)
        case "--skip-ragged":
            return replace(reading, skip_ragged=True)
        case "--skip-lines":
            return replace(reading, skip_lines=reading.skip_lines + int(option.value))
        case "--thousands":  # a point cannot separate both thousands and decimals
            decimal = "," if option.value == "." else reading.decimal
            return replace(reading, thousands=option.value, decimal="." if option.value == "," else decimal)
        case "--decimal":
            thousands = "" if reading.thousands == option.value else reading.thousands
            return replace(reading, decimal=option.value, thousands=thousands)
        case "--sep":
            return replace(reading, sep=option.value)
        case "--encoding":
            return replace(reading, encoding=option.value)
    return reading
