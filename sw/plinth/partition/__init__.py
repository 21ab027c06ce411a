"""What plans split, and what a split means.

``graph`` is the network as planners see it. ``cuts`` cut an axis by levels or by list, ``groups`` are dies that belong
together, ``axes`` has regions (products of cut axes) and what they have in common, ``regions`` those of a network's
nodes, ``blocks`` Winograd layers whose tiles move together, ``lines`` what of these goes half transformed,
``exchanges`` who sends what to whom, and ``predicted`` how much of what data decide. ``row_costs`` has the words of
each way to keep copies of a variable equal (Parallax, Table 3), and ``pieces`` the search for the number of pieces of
a table.
"""
