"""The informative vector machine: EP on an active set of rows that is chosen greedily.

    ivm         IVM and ActiveFit
    scores      what a row's inclusion gains, exactly and roughly, and its site
    candidates  rows that can still be included, and the best of them
    selection   one inclusion after the other, within a limit of memory
    sweeps      EP sweeps over the active set after its selection
    criterion   the evidence of an active set, and its derivatives with sites held
    update      new rows by assumed-density filtering
"""
