"""Cycles of a product on the systolic array: what a walk through its tiles and panels takes
(:mod:`plinth.machine.systolic_walk`).

Long products are not walked to their end: a loop of many turns goes on as its last turns did, of which two are walked
if each has :data:`LONG` panels, else :data:`WALKED`.
"""

from dataclasses import replace
from functools import lru_cache
from math import ceil, gcd

from plinth.machine.systolic_walk import ProductCost, ProductShape, ProductWalk
from plinth.machine.tiles import interleave_m_log2, tile_shape
from plinth_hw.isa.parameters import DieParameters

#: Turns of a loop that are walked, if they have few panels.
WALKED = 5
#: Panels of a turn from which on turns are alike: the second shows what one more takes.
LONG = 4


def row_step(parameters: DieParameters, stride: int) -> int:
    """Words at whose multiples rows of so many words' stride begin, of those of a beat; 0: on beats."""
    return gcd(stride, parameters.beat_words) % parameters.beat_words


def shape(parameters: DieParameters, product: str, m: int, n: int, k: int, run: int) -> ProductShape:
    """A product of m x k and k x n as lowering makes its task; matrices lie row behind row.

    Parameters
    ----------
    product : str
        "fprop", "bprop" or "update", with "convolution-" before it if it is one.
    run : int
        Elements of a window that lie next to each other; 0 of a fully connected layer.
    """
    transpose_a, transpose_b = product.endswith("update"), product.endswith("bprop")

    def step(columns: int, packing: int = parameters.packing) -> int:
        return row_step(parameters, ceil(columns / packing))

    log2 = tile_shape(parameters, m, n)[1] if run else interleave_m_log2(parameters, m, n)
    return ProductShape(m, n, k, log2, transpose_a, transpose_b, run, step(run or (m if transpose_a else k)),
                        step(k if transpose_b else n), step(n, 1))


@lru_cache(maxsize=1 << 16)
def cost(parameters: DieParameters, product: ProductShape, slow: float = 1.0) -> ProductCost:
    """Cycles and beats of a product if nothing else uses the memory, or if others leave it a beat in ``slow`` cycles.
    """
    found = _extend(parameters, product, list(product.spans(parameters).items()), slow)
    return found._replace(alone=max(found.alone, found.row))


def _extend(parameters: DieParameters, product: ProductShape, loops: list[tuple[str, int]], slow: float
            ) -> ProductCost:
    """The walk, with the loops that are too long cut, and what was cut added at the pace of the last turns."""
    if not loops:
        return ProductWalk(parameters, product, slow).cost()
    (name, span), rest = loops[0], loops[1:]
    size = getattr(product, name)
    # Buffers have two halves: turns of few panels differ in pairs.
    walked, last = (2, 1) if product.panels(rest) >= LONG else (WALKED, 2)
    turns = ceil(size / span)
    if turns <= walked:
        return _extend(parameters, product, rest, slow)
    short = size - (turns - walked) * span
    longer = _extend(parameters, replace(product, **{name: short}), rest, slow)
    shorter = _extend(parameters, replace(product, **{name: short - last * span}), rest, slow)
    return ProductCost(*(cycles + (turns - walked) / last * (cycles - before)
                         for cycles, before in zip(longer, shorter, strict=True)))


def exposed(parameters: DieParameters, product: ProductShape) -> float:
    """Cycles that a further product in a row takes more where each beat that it reads takes two."""
    return max(0.0, cost(parameters, product, 2.0).row - cost(parameters, product).row)


def matrix_formula(parameters: DieParameters, m: int, n: int, k: int, run: int = 0, product: str = "fprop"
                   ) -> tuple[float, float]:
    """Cycles of one product on a systolic die alone, and of a further one in a row.

    Parameters
    ----------
    run : int
        Elements of the first operand that lie next to each other; 0: all.
    """
    return cost(parameters, shape(parameters, product, m, n, k, run))[:2]


def matrix_memory(parameters: DieParameters, m: int, n: int, k: int, run: int = 0, product: str = "fprop"
                  ) -> tuple[float, float]:
    """Words of the beats that a product moves, and the share of its time in a row that memory takes for them."""
    if not (m and n and k):
        return 0.0, 0.0
    product_cost = cost(parameters, shape(parameters, product, m, n, k, run))
    words = parameters.beat_words * (product_cost.reads + product_cost.writes)
    return words, max(words / float(parameters.memory_words_per_cycle), product_cost.reads) / product_cost.row
