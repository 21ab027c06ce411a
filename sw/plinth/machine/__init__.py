"""How products lie on the two matrix machines: the choices that descriptors and costs follow from.

``convolution`` (shapes, feature maps, tasks of the systolic machine), ``tiles`` (its interleave shapes), ``systolic``
and ``row_stationary`` (tasks of a product on each machine), ``mappings`` (mappings onto the row-stationary machine:
which there are, what they cost, which one is taken), ``products`` (either machine's tasks).
"""
