"""Sources of rows: arrays, memory maps and sequences of batches. `learning.files` adds CSV and Parquet files.

A source knows its numbers of rows and columns and yields the rows in minibatches, in an order that depends on the pass
number, so that a run can be resumed in the middle of a pass. Arrays and memory maps are read in any order. Every other
source is a `Stream`: its rows are read in pieces, which a buffer mixes and cuts into minibatches of one size. A stream
that fits into the buffer gives the same minibatches as arrays.

source      the interface of a source; arrays and memory maps
order       random orders of rows and of chunks
buffered    streams and their buffer
pairs       batches (X, y) as a stream; the source for a user's input
without     a source without some of its rows
wrapped     a source with fingerprints of its rows, or with weights by class
labels      one pass over the labels: classes, a sample of the rows, a warning if sorted; labels as codes
categories  the order of the classes
"""

from .buffered import BUFFER, Pool, Stream, check_sizes
from .categories import check_ordered, declared_order, in_order
from .labels import SortedStreamWarning, Summary, codes, look, unevenness, warn_if_uneven
from .order import Order, spread_order
from .pairs import CHUNK, Batches, as_source, is_stream
from .source import Arrays, Batch, Source, finite
from .without import Without, take_out
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
    "look",
    "spread_order",
    "take_out",
    "unevenness",
    "warn_if_uneven",
]
