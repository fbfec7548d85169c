"""Rows that are divided among one or several processes, and sums over all of them.

A *partition* is some consecutive rows of a data set. A *shard* holds the partitions of one process, and what computations
keep with their rows between two calls (`Shard.memory`). A *crew* holds all shards. It sends a function and its arguments to
each shard and returns the sum of the results:

    crew.sum(function, *arguments)  =  Σ function(shard, *arguments)

So an algorithm for rows on several machines is written as functions of a shard and sums of their results. The crew of this
package has all shards in this process. `gpclass.distributed` has a crew on a Dask cluster.

partition         some consecutive rows, checked
shard             the partitions of one process
crews             all shards; a crew in this process; repeated calls after a loss of rows
order, rows       minibatches: parts of a random order of all rows; the source of rows
store             minibatches: sums of a step, and the sites of rows in their shards
shard_sweeps      sites of a shard's rows that are swept to convergence
settled_rows      the same for all rows; `learn_settled` learns hyperparameters with it
shard_candidates  a shard's candidates for an active set
active_rows       the choice among the candidates of all shards
"""

from .crews import Crew, CrewLost, LocalCrew, LostRowsWarning, RowsLost, divided, resumed
from .partition import Partition, weighted_by_class
from .shard import Shard

__all__ = [
    "Crew",
    "CrewLost",
    "LocalCrew",
    "LostRowsWarning",
    "Partition",
    "RowsLost",
    "Shard",
    "divided",
    "resumed",
    "weighted_by_class",
]
