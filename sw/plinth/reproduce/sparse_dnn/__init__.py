"""Partitioning of sparse networks (ICS 2021): what its partitions make processors send, computed anew.

``partitions``  partitions of a network, kept in the cache
``cases``       cells of Table 1: a network on so many processors, partitioned and at random
``formulas``    what rows that are dealt out at random send, expected
``figures``     the tables
``pictures``    volumes by processors
"""
