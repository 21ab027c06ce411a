"""The physics of one die: how products lie on the two matrix machines, and what tasks take.

Whoever lowers, predicts, simulates or chooses reads it here; no room above has constants of its own.

Products: ``convolution`` (shapes, feature maps, bodies of convolutions), ``tiles`` (interleave shapes of the systolic
machine), ``choices`` of ``mappings`` (onto the row-stationary machine: which there are, what they cost, which one is
taken), ``systolic_tasks`` and ``row_stationary_tasks`` (tasks of a product on each machine), ``products`` (either
machine's). Of sparse layers: ``blocks`` (a pattern as dense blocks, and how weights lie packed in them), ``covers``
(which blocks cover a pattern at the least cost).

Cycles: ``memory`` (latencies, beats), ``control`` (descriptors, queues, waits, reductions), ``links`` (routers),
``systolic_cycles`` (a product: ``systolic_walk`` goes through it panel by panel), ``vector`` (programs), ``copies``
(tiles, rows by their numbers), ``transforms`` (Winograd stages), ``codes`` (coding, predicting), ``optimiser``;
``record`` has what a piece of work takes, and ``die`` asks for all of a preset; what was asked once is ``known``.
``host`` has the same of a host that does the step in numpy.
"""
