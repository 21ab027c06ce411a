"""What a plan needs of the dies' memories."""

import numpy as np

from plinth.plan.partition import Region, bounds, weight_words
from plinth.plan.plan import Plan


def memory_bytes(plan: Plan) -> int:
    """Bytes of the fullest die: weights and their gradients; inputs, sums and maps, and the errors of each."""
    words = np.zeros(plan.dies, dtype=np.int64)
    for node, here in zip(plan.graph.nodes, plan.layouts, strict=True):
        if node.weighted:
            weights, bias = weight_words(node, here, plan.levels)
            words += 2 * (weights + bias)
        read = ((Region(here.input.batch, ()), 1) if node.gathers else (here.input, node.input_channels))
        for region, channels, elements in ((*read, node.input_elements),
                                           (here.output, node.output_channels, node.raw_elements)):
            (low, high), (first, last) = (bounds(plan.batch, region.batch, plan.levels),
                                          bounds(channels, region.channels, plan.levels))
            words += 2 * (high - low) * (last - first) * (elements // channels)
    return 4 * int(words.max())
