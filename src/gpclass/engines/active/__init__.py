"""The informative vector machine: EP on an active set of rows that is chosen greedily.

    ivm         IVM and ActiveFit
    selection   the choice of rows: scores, ties, a bound on memory
    criterion   the evidence of an active set, and its derivatives with sites held
    update      new rows by assumed-density filtering
"""
