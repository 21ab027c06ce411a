"""Proofs of blocks, ``make prove``: what holds in every state that a block can reach, whatever its neighbours do.

``harness`` surrounds a block with free inputs, what may be assumed of them, and what is claimed; ``proof`` says what a
proof is, with the broken twins of the block that it must find; ``solver`` gives a harness to SymbiYosys; ``campaign``
runs proofs and twins; ``__main__`` is the command. ``axi4`` and ``axi_lite`` hold the standards' rules; the other
files are the proofs, a file a room.
"""
