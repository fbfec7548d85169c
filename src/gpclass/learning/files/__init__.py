"""CSV and Parquet files of any size as streams of rows, read in random order.

An error names the place of a cell that cannot be used: "line 7 of" a text file counts the header as line 1, "row 7 of" a
Parquet file counts from 1.

csv_stream      a CSV file: one pass counts the rows and finds the chunks, later passes read these in random order
csv_rows        the rows of a text file as numbers and labels
parquet_stream  a Parquet file, read from several places at once
table_files     a folder or pattern of such files, read from several of them at once
checks          checks that both share: the column of labels, and whether a file has changed
"""

from .csv_rows import MISSING
from .csv_stream import CSVFile, csv_file
from .parquet_stream import ParquetFile, parquet_file
from .table_files import TableFiles, files_of, table_files

__all__ = ["MISSING", "CSVFile", "ParquetFile", "TableFiles", "csv_file", "files_of", "parquet_file", "table_files"]
