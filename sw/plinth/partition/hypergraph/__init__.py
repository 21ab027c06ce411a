"""Sparse networks: which processor owns which rows of each layer (ICS'21).

``owners`` has the partition, a value, and what parts may weigh; ``volume`` the words and messages that follow from it.
``model`` is a layer's hypergraph. ``structured`` partitions regular patterns by their rings and blocks, ``greedy``
others row by row, ``partitioner`` by Mt-KaHyPar, which runs in a process of its own, ``worker``. ``moves`` has exact
differences of moves between parts; ``sweeps`` use them with both neighbours of each layer in view. ``annealing`` moves
rows of all layers together, by a C++ program. ``partition`` is the entry, ``figures`` compares ways, and
``partition_file`` keeps a partition with the digest of its network.
"""
