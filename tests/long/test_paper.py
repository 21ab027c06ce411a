"""The paper's dies, 64x64 FP32 and 96x96 FP16 and FP32, as wholes: a GEMM of two by two tiles, bit-exact."""

import numpy as np
import pytest
from tests.support.back_ends import check_equal, images

from plinth.lower.builder import GraphBuilder
from plinth.lower.program import assemble, ring_setup
from plinth_hw.isa.operations import Engine, MatrixOperation
from plinth_hw.isa.parameters import preset
from plinth_sim.golden.array import GoldenArray
from plinth_sim.rtl.cosim import CosimArray

pytestmark = pytest.mark.long

MEMORY_WORDS = 1 << 20


@pytest.mark.parametrize(("name", "m", "n", "k"), [("ndp-paper", 128, 128, 64), ("ndp-paper-mixed", 192, 192, 64)])
def test_a_gemm_on_the_paper_die(name: str, m: int, n: int, k: int) -> None:
    parameters = preset(name)
    builder = GraphBuilder(parameters)
    narrow = parameters.packing > 1
    a, b, c = (builder.allocate(name, *shape, packed=packed) for name, shape, packed in (
        ("a", (m, k), narrow), ("b", (k, n), narrow), ("c", (m, n), False)))
    builder.add("gemm", Engine.MATRIX, MatrixOperation.GEMM, {
        "a": a.pointer, "a_stride": a.stride, "b": b.pointer, "b_stride": b.stride, "c": c.pointer,
        "c_stride": c.stride, "m": m, "n": n, "k": k, "interleave_m_log2": 1}, reads=[a, b], writes=[c])
    program = assemble([ring_setup(parameters, [0], 0, 0)], [builder], memory_words=MEMORY_WORDS)
    with CosimArray(parameters, 1, MEMORY_WORDS) as rtl:
        golden = GoldenArray(parameters, 1, MEMORY_WORDS)
        rtl_images, wanted = (list(images(array, program, [a, b, c], 3, memory_words=MEMORY_WORDS, steps=1))
                              for array in (rtl, golden))
    for image, expected in zip(rtl_images, wanted, strict=True):
        check_equal(image, expected, program)
        assert np.any(image[0, c.address:c.address + c.words])
