"""The informative vector machine: EP on an active set of rows that is chosen greedily.

    ivm         IVM and ActiveFit
    scores      scores of rows that could be included, exact and rough, and their sites
    candidates  rows that can still be included, and the choice of the best
    selection   one inclusion after the other, within a limit of memory
    sweeps      EP sweeps over the active set after its selection
    criterion   the evidence of an active set, and its derivatives with fixed sites
    update      new rows by assumed-density filtering
"""
