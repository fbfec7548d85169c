"""Tables with columns of different types: reading files, and encoding rows as numbers.

`read_table` reads CSV, TSV and Parquet files, and `read_tables` several of them as one; `split_target` separates inputs and
labels; `TableEncoder` is a scikit-learn transformer from data frames to arrays: numbers are unchanged, booleans become 0 and
1, text becomes one column per level. Nothing is guessed: unusable cells (dates, empty cells, text among numbers) raise a
`TableError` that names the row, the column and the remedy. It lists all columns that cannot be used (`TableError.problems`).
Dates and numbers with units are declared (`TableEncoder(dates=..., units=...)`), and so is how a file is read (`Reading`).

The name of a row is its entry in the index of the frame. `read_table` uses the line in the file, header not counted: the
first row after the header is 1. `with_ids` adds the text of an id column: "7 (patient 12)". Other frames keep their index,
so that `frame.loc` finds the row.

Text that a spreadsheet would run as a formula is written to CSV and TSV files with a leading apostrophe, which is removed
when the file is read: see `guarded`.
"""

from .columns import Column, UnseenLevelWarning
from .encoder import TableEncoder, row_names, with_ids
from .guards import guarded, unguarded
from .labels import checked_labels, labels_as_trained, split_target
from .layout import FileRemark, looks_like_data
from .parts import Part, alone
from .problems import Findings, Option, Problem, TableError
from .reading import EXACT, csv_columns, read_table, read_tables
from .scans import Scan, check_columns, scanned
from .settings import USUAL, Reading
from .writing import check_table_path, csv_text, write_table

__all__ = [
    "EXACT",
    "USUAL",
    "Column",
    "FileRemark",
    "Findings",
    "Option",
    "Part",
    "Problem",
    "Reading",
    "Scan",
    "TableEncoder",
    "TableError",
    "UnseenLevelWarning",
    "alone",
    "check_columns",
    "check_table_path",
    "checked_labels",
    "csv_columns",
    "csv_text",
    "guarded",
    "labels_as_trained",
    "looks_like_data",
    "read_table",
    "read_tables",
    "row_names",
    "scanned",
    "split_target",
    "unguarded",
    "with_ids",
    "write_table",
]
