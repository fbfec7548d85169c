"""Sources of rows: arrays, memory maps and sequences of batches. `learning.files` adds CSV and Parquet files.

A source knows its numbers of rows and columns and yields the rows in minibatches, in an order that depends on the pass
number, so that a run can be resumed in the middle of a pass. Arrays and memory maps are read in any order. Every other
source is a `Stream`: its rows are read in pieces, which a buffer mixes and cuts into minibatches of one size. A stream
that fits into the buffer gives the same minibatches as arrays.

batch       some rows with labels and weights; checks of inputs
labels      how often labels are found, how evenly, their class numbers, and the order of the classes
hashes      hashes of rows, by which a run recognises its data
order       random orders of rows and of chunks; samples of rows
summary     one pass over all rows: their labels, a sample, a warning if labels are sorted
source      what a source declares; arrays and memory maps; a source without some of its rows
buffered    streams and their buffer
wrapped     a source with fingerprints of its rows, or with weights by class
pairs       batches (X, y) as a stream; the source for a user's input
"""

from .batch import Batch, finite
from .buffered import Pool, Stream, check_sizes
from .hashes import RowHashes
from .labels import check_ordered, codes, declared_order, in_order, of_one_type, unevenness
from .order import Order, sampled_rows, spread_order
from .pairs import CHUNK, Batches, as_source, is_stream
from .source import BUFFER, Arrays, Source, Without
from .summary import SortedStreamWarning, Summary, warn_if_uneven
from .wrapped import ClassWeighted, Fingerprinted

__all__ = [
    "BUFFER",
    "CHUNK",
    "Arrays",
    "Batch",
    "Batches",
    "ClassWeighted",
    "Fingerprinted",
    "Order",
    "Pool",
    "RowHashes",
    "SortedStreamWarning",
    "Source",
    "Stream",
    "Summary",
    "Without",
    "as_source",
    "check_ordered",
    "check_sizes",
    "codes",
    "declared_order",
    "finite",
    "in_order",
    "is_stream",
    "of_one_type",
    "sampled_rows",
    "spread_order",
    "unevenness",
    "warn_if_uneven",
]
