"""Training and prediction on Dask clusters. It needs `pip install "gpclass[dask]"`.

Estimators take Dask collections as they take arrays. `gpclass.learning.crew` divides rows among processes and computes with
them; this package connects it with Dask.

kinds        which objects are collections of Dask
collections  Dask arrays, data frames and delayed pairs as partitions
partitions   what partitions contain, how they are loaded; the encoder of a table by sums over partitions
parts_of_files  folders of Parquet and CSV files as partitions
gathering    partitions loaded into the workers, or into this process
outlines     check that partitions that are computed again have the same rows
division     rows divided evenly among workers
actors       actors that hold rows, calls along a tree
workers      the workers of a cluster: waiting for them, their versions
dask_crew    the crew on a cluster, lost workers
predictions  methods of estimators on collections, by partition, lazily
"""

from .._lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {"ClusterError": "workers", "file_parts": "parts_of_files"})

__all__ = ["ClusterError", "file_parts"]
