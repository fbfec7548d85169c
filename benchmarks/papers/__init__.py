"""The papers' tables and figures beside ours.

names.py           papers, tables and their titles
pieces.py          results of long runs, stored one by one, so that a run can be taken up again
rows.py            one figure of a table, ours and theirs, and the verdict that follows from the numbers
show.py            rows as Markdown
figures.py         figures drawn from stored pieces
<paper>_tables.py  what is run for each table of a paper
"""
