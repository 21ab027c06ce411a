"""Bodies of transfers that transform, from lattices of a layer."""

from typing import Any

import numpy as np

from plinth_hw.isa.winograd import OUTPUTS, PLAIN_NUMBERS, TRANSFORMS, Lattice, form

Pair = tuple[int, int]


def of_map(side: str, pair: tuple[Lattice, Lattice], shape: Pair, channels: int) -> dict[str, int]:
    """A side that is a map ``[rows, columns, channels]``."""
    down, across = pair
    origin = (down.first * shape[1] + across.first) * channels
    return {f"{side}_origin": origin & 0xFFFFFFFF, f"{side}_down": shape[1] * channels, f"{side}_across": channels,
            f"{side}_row": down.first, f"{side}_column": across.first, f"{side}_rows": shape[0],
            f"{side}_columns": shape[1], f"{side}_row_step": down.step, f"{side}_column_step": across.step,
            f"{side}_row_stride": across.step * channels, f"{side}_plane_stride": down.step * shape[1] * channels}


def of_tiles(side: str, sizes: Pair, counts: Pair, channels: int) -> dict[str, int]:
    """A side that holds tiles, ``[T, T', tiles, channels]``."""
    pitch = counts[0] * counts[1] * channels
    return {f"{side}_down": sizes[1] * pitch, f"{side}_across": pitch, f"{side}_rows": sizes[0],
            f"{side}_columns": sizes[1], f"{side}_row_stride": channels, f"{side}_plane_stride": counts[1] * channels}


def random_transform(rng: np.random.Generator, transforms: tuple[Pair, ...], side: int,
                     channels: int, words: int) -> dict[str, Any]:
    """A scatter or a gather of a layer's inputs, outputs or their errors, without addresses: inputs of at most ``side``
    x ``side`` places of ``channels`` channels, ``words`` of tiles."""
    while True:
        drawn = _drawn(rng, transforms, side, channels)
        if drawn.pop("words") <= words:
            return drawn


def random_plain(rng: np.random.Generator, channels: int, words: int) -> dict[str, Any]:
    """A block whose places go as they are, without addresses: at most ``words`` of places of ``channels``."""
    while True:
        sizes = tuple(int(size) for size in rng.choice(list(PLAIN_NUMBERS), 2))
        counts, count = tuple(rng.integers(1, 4, 2).tolist()), int(rng.integers(1, channels + 1))
        if sizes[0] * sizes[1] * counts[0] * counts[1] * count <= words:
            return {"planes": counts[0], "rows": counts[1], "columns": count, "down": PLAIN_NUMBERS[sizes[0]],
                    "across": PLAIN_NUMBERS[sizes[1]], "down_first": int(rng.integers(2)),
                    **of_tiles("source", sizes, counts, count), **of_tiles("destination", sizes, counts, count)}


def _drawn(rng: np.random.Generator, transforms: tuple[Pair, ...], side: int, channels: int) -> dict[str, Any]:
    outputs, taps = transforms[int(rng.integers(len(transforms)))]
    kernels = [kernel for kernel in OUTPUTS if max(kernel) == taps and outputs in OUTPUTS[kernel]]
    kernel = kernels[int(rng.integers(len(kernels)))]
    shape, count = tuple(rng.integers(taps, side + 1, 2).tolist()), int(rng.integers(1, channels + 1))
    inputs, out_lattices = form(kernel, outputs).lattices(shape, tuple(int(rng.integers(size)) for size in kernel))
    of_inputs, scatters = bool(rng.integers(2)), bool(rng.integers(2))
    pair, sides = (inputs, shape) if of_inputs else (out_lattices, tuple(
        side - 2 * lattice.first - size + 1 for side, lattice, size in zip(shape, inputs, kernel, strict=True)))
    number = 1 + 4 * TRANSFORMS.index((outputs, taps)) + (not of_inputs) + 2 * (not scatters)
    counts, sizes = (inputs[0].count, inputs[1].count), (inputs[0].size, inputs[1].size)
    map_side, tile_side = ("source", "destination") if scatters else ("destination", "source")
    return {"words": sizes[0] * sizes[1] * counts[0] * counts[1] * count,
            "planes": counts[0], "rows": counts[1], "columns": count, "down": number if kernel[0] > 1 else 0,
            "across": number if kernel[1] > 1 else 0, "down_first": int(not scatters),
            **of_map(map_side, pair, sides, count), **of_tiles(tile_side, sizes, counts, count)}
