"""Published results computed anew, beside what their papers print.

``paper``   a paper's numbers as data, each with a status; rows, tables and counts
``tables``  tables on a terminal and in ``docs/reproduce.md``
``NAME.yaml`` and ``NAME/``  a paper: what it prints, and what computes it
"""
