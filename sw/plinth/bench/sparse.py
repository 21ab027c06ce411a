"""Row about products of sparse layers in numpy: dense blocks against single nonzeros by scipy, on one core."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from plinth.bench.row import BenchRow
from plinth.network.sparse.radix_net import UNIFORM, RadixNet
from plinth.output import json_text
from plinth.runtime.launcher import ENVIRONMENT
from plinth.runtime.sparse_kernels import BlockProducts, sparse_products

#: Neurons and samples of the row, and of others in its detail.
NEURONS, SAMPLES = 4096, 64
OTHERS = tuple((neurons, samples) for neurons in (1024, 4096, 16384) for samples in (1, 64, 1024)
               if (neurons, samples) != (NEURONS, SAMPLES))
#: Turns of both kernels, and multiply-adds of each turn, about.
TURNS, WORK = 7, 1 << 26
#: Relative difference that float32 sums in other orders may have.
TOLERANCE = 1e-4


def _ratios(scipy: Callable[[], Any], blocks: Callable[[], Any], repeats: int) -> dict[str, Any]:
    """Processor time of either in turn: the ratios, and the least seconds."""
    def seconds(what: Callable[[], Any]) -> float:
        began = time.process_time()
        for _ in range(repeats):
            what()
        return (time.process_time() - began) / repeats

    turns = [(seconds(scipy), seconds(blocks)) for _ in range(TURNS)]
    ratios = sorted(theirs / ours for theirs, ours in turns)
    return {"ratio": median(ratios), "least": ratios[0], "most": ratios[-1],
            "seconds": min(ours for _, ours in turns), "seconds_scipy": min(theirs for theirs, _ in turns)}


def _case(neurons: int, samples: int) -> dict[str, Any]:
    """Products of a layer behind a permutation, ``Y = W X`` and, as ``backward``, ``D = W^T E``.

    Raises
    ------
    AssertionError
        If results differ from scipy's, or the layer is not computed over blocks.
    """
    network = RadixNet(neurons=neurons, layers=64, seed=0, weights=UNIFORM)
    matrix = network.rows(network.base_layers + 2, np.arange(neurons))
    products = sparse_products(matrix, samples)
    if not isinstance(products, BlockProducts):
        raise AssertionError(f"products of {neurons} neurons are not computed over blocks")
    x = np.random.default_rng(0).random((neurons, samples), np.float32)
    y, weights = np.empty((neurons, samples), np.float32), products.pack(matrix.data)
    repeats = max(1, WORK // (matrix.nnz * samples))
    found = []
    for factor, product in ((matrix, products.forward), (matrix.T, products.backward)):
        expected = factor @ x
        product(weights, x, y)
        if np.abs(y - expected).max() > TOLERANCE * np.abs(expected).max():
            raise AssertionError(f"products of {neurons} neurons over blocks differ from scipy's")
        found.append(_ratios(partial(factor.__matmul__, x), partial(product, weights, x, y), repeats))
    return {"neurons": neurons, "samples": samples, **found[0], "backward": found[1], "useful": products.cover.useful}


def print_cases() -> None:
    """Run the part of :func:`sparse_kernel_ratio` that has one BLAS thread: print its cases."""
    print(json_text([_case(*case) for case in ((NEURONS, SAMPLES), *OTHERS)]))


def sparse_kernel_ratio() -> list[BenchRow]:
    """How much faster a RadiX-Net layer of 4,096 neurons is over dense blocks than by scipy's compressed rows, 64
    samples, one core: processor time, the median of turns. Other sizes, and the way back, are in the detail."""
    run = subprocess.run([sys.executable, "-c", "from plinth.bench.sparse import print_cases; print_cases()"],
                         text=True, stdout=subprocess.PIPE, check=True, env=os.environ | ENVIRONMENT)
    case, *others = json.loads(run.stdout)
    return [BenchRow("sparse_kernel_ratio", case["ratio"], "processor time of scipy / of blocks",
                     "gathers of operands, each word twice a layer, and small products, a call of BLAS each",
                     case | {"others": others})]


#: Names and functions of these rows.
BENCHES: dict[str, Callable[[], list[BenchRow]]] = {"sparse_kernel_ratio": sparse_kernel_ratio}
