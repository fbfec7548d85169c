"""gpclass and its peers on the same arrays, machine and minute, and beside the work that cannot be avoided.

    python -m benchmarks.scoreboard                    the reduced form, about ten minutes
    python -m benchmarks.scoreboard --environments     the same, after making the peers' environments
    python -m benchmarks.scoreboard --full             all sizes, minibatch training on MNIST included: hours

results.py        one measurement, files of them, the Markdown table
tasks.py          what is measured: data sets, sizes, methods of each library
environments.py   a virtual environment for each peer, from pinned requirements
workers/          one script for each library, which needs nothing of gpclass
measure.py        asks the workers in turn
limits.py         the work that cannot be avoided, and how cost grows
"""
