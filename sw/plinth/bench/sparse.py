"""Row about products of sparse layers in numpy: dense blocks against single nonzeros by scipy, on one core."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from plinth.bench.ranks import ENVIRONMENT
from plinth.bench.row import BenchRow
from plinth.network.sparse.radix_net import UNIFORM, RadixNet
from plinth.runtime.sparse_kernels import BlockProducts, sparse_products

#: Neurons and samples of the row, and of others in its detail.
NEURONS, SAMPLES = 4096, 64
OTHERS = tuple((neurons, samples) for neurons in (1024, 4096, 16384) for samples in (1, 64, 1024)
               if (neurons, samples) != (NEURONS, SAMPLES))
#: Turns of both kernels, and multiply-adds of each turn, about.
TURNS, WORK = 7, 1 << 27
#: Relative difference that float32 sums in other orders may have.
TOLERANCE = 1e-4


def _case(neurons: int, samples: int) -> dict[str, Any]:
    """Processor time of a product, ``Y = W X`` of a layer behind a permutation, of either kernel in turn.

    Raises
    ------
    AssertionError
        If their results differ, or the layer is not computed over blocks.
    """
    network = RadixNet(neurons=neurons, layers=64, seed=0, weights=UNIFORM)
    matrix = network.rows(network.base_layers + 2, np.arange(neurons))
    products = sparse_products(matrix, samples)
    x = np.random.default_rng(0).random((neurons, samples), np.float32)
    y, weights = np.empty((neurons, samples), np.float32), products.pack(matrix.data)

    def blocks() -> None:
        products.forward(weights, x, y)

    expected = matrix @ x
    blocks()
    if not isinstance(products, BlockProducts) or np.abs(y - expected).max() > TOLERANCE * np.abs(expected).max():
        raise AssertionError(f"the product of {neurons} neurons over blocks differs from scipy's")
    repeats = max(1, WORK // (matrix.nnz * samples))

    def seconds(what: Callable[[], Any]) -> float:
        began = time.process_time()
        for _ in range(repeats):
            what()
        return (time.process_time() - began) / repeats

    turns = [(seconds(lambda: matrix @ x), seconds(blocks)) for _ in range(TURNS)]
    ratios = sorted(scipy / block for scipy, block in turns)
    return {"neurons": neurons, "samples": samples, "ratio": median(ratios), "least": ratios[0], "most": ratios[-1],
            "seconds": min(block for _, block in turns), "seconds_scipy": min(scipy for scipy, _ in turns),
            "useful": products.cover.useful}


def print_cases() -> None:
    """Run the part of :func:`sparse_kernel_ratio` that has one BLAS thread: print its cases."""
    print(json.dumps([_case(*case) for case in ((NEURONS, SAMPLES), *OTHERS)]))


def sparse_kernel_ratio() -> list[BenchRow]:
    """How much faster a RadiX-Net layer of 4,096 neurons is over dense blocks than by scipy's compressed rows, 64
    samples, one core: processor time, the median of turns. Other sizes are in the detail."""
    run = subprocess.run([sys.executable, "-c", "from plinth.bench.sparse import print_cases; print_cases()"],
                         text=True, stdout=subprocess.PIPE, check=True, env=os.environ | ENVIRONMENT)
    case, *others = json.loads(run.stdout)
    return [BenchRow("sparse_kernel_ratio", case["ratio"], "processor time of scipy / of blocks",
                     "gathers of operands, each word twice a layer, and small products, a call of BLAS each",
                     case | {"others": others})]


#: Names and functions of these rows.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {"sparse_kernel_ratio": sparse_kernel_ratio}
