"""What a user would use instead of gpclass, on tables of real data: `make tables-of-others`.

`tables.py` has the tables and their splits, `methods.py` the methods, `cells.py` one measurement and the file of them,
`summary.py` what they come to. Tables are of two groups: those of the papers and of scikit-learn, on which defaults of
gpclass may be chosen, and held-out ones, which are never to be looked at while choosing.
"""
