"""The child process in which Mt-KaHyPar runs, as it may crash: ``python worker.py PROBLEM.npz PARTS.npy``.

The problem has the arrays ``weights``, ``fixed``, ``starts``, ``pins``, ``costs`` and ``limits`` of a
:class:`plinth.partition.hypergraph.model.Hypergraph` and its parts' limits, ``seed``, and ``default``: whether the
default preset is asked for, else a deterministic one. One thread: the same problem and seed have the same parts.
"""

import sys

import mtkahypar
import numpy as np


def main(problem: str, result: str) -> None:
    """Read a problem, write the part of each vertex."""
    with np.load(problem) as arrays:
        weights, fixed, starts, pins, costs, limits, seed, default = (
            arrays[name] for name in ("weights", "fixed", "starts", "pins", "costs", "limits", "seed", "default"))
    mtkahypar.set_seed(int(seed))
    library = mtkahypar.initialize(1, False)
    preset = mtkahypar.PresetType.DEFAULT if default else mtkahypar.PresetType.DETERMINISTIC_QUALITY
    context = library.context_from_preset(preset)
    context.set_partitioning_parameters(len(limits), 0.0, mtkahypar.Objective.KM1)
    context.set_individual_target_block_weights(limits.tolist())
    context.logging = False
    nets = [net.tolist() for net in np.split(pins, starts[1:-1])]
    graph = library.create_hypergraph(context, len(weights), len(nets), nets, weights.tolist(), costs.tolist())
    if (fixed >= 0).any():
        graph.add_fixed_vertices(fixed.tolist(), len(limits))
    parts = np.array(graph.partition(context).get_partition(), dtype=np.int64)
    with open(result, "wb") as file:
        np.save(file, parts)


if __name__ == "__main__":
    main(*sys.argv[1:])
