"""A plan's training step, said once, as plain data.

In the order in which data pass: ``tensors`` (who has which part, and where it lies in a place; ``weights`` for slices
of weights and their pieces, ``slots`` for what several dies send), ``vector`` (programs of the vector engine),
``granularity`` (how work is cut into pieces; ``tile_strips``), ``tasks`` (what a die does), ``operations`` (what all
dies do, as tasks of each; ``between`` them, ``sums``, and of Winograd layers ``tile_operations``, ``line_operations``
and ``kernel_sums``), ``step`` (the whole), ``operands`` (narrow copies for the matrix engine), ``copies`` and
``reductions`` (how weights are kept equal), ``layers`` (which operations a network's nodes are, a file a kind of
layer), ``build`` (the step of a plan: over all layers forwards, then backwards).
"""
