"""Units of arithmetic and one processing element: their table in ``docs/arith.md``, size and speed."""

import statistics
from pathlib import Path
from typing import Any

from plinth_hw.arith.adder import FloatAdder
from plinth_hw.arith.convert import FloatConverter
from plinth_hw.arith.fixed import FixedAdder, FixedMultiplier, FixedRounder, FixedScaler
from plinth_hw.arith.multiplier import FloatMultiplier
from plinth_hw.arith.reference import ReferenceAdder, ReferenceMultiplier
from plinth_hw.fpga.synthesis import Bench, Size, clock_mhz, placed, replace_table, synthesise
from plinth_hw.isa.formats import FP16, FP32, Q3_12
from plinth_hw.isa.parameters import preset
from plinth_hw.matrix.pe import ProcessingElement

#: Seeds of placement; the median tells.
SEEDS = (1, 2, 3)
#: nextpnr's usual placer, which is at its best with small designs.
PLACER = "heap"


class ReferenceElement(ProcessingElement):
    """A processing element of the textbook units, which have the same latencies."""

    def __init__(self, interleave: int) -> None:
        super().__init__(FP32, FP32, interleave)
        self._multiplier = ReferenceMultiplier(FP32)  # type: ignore[assignment]
        self._adder = ReferenceAdder(FP32)  # type: ignore[assignment]


def arith_units() -> dict[str, tuple[str, Any]]:
    """Name of the design to its title and maker."""
    interleave = preset("ndp-demo").interleave
    return {
        "multiply_fp32": ("FP32 multiplier", lambda: FloatMultiplier(FP32, FP32)),
        "multiply_fp16": ("FP16 x FP16 into FP32 multiplier", lambda: FloatMultiplier(FP16, FP32)),
        "add_fp32": ("FP32 adder", lambda: FloatAdder(FP32)),
        "narrow": ("FP32 to FP16", lambda: FloatConverter(FP32, FP16)),
        "widen": ("FP16 to FP32", lambda: FloatConverter(FP16, FP32)),
        "element_fp32": ("FP32 PE", lambda: ProcessingElement(FP32, FP32, interleave)),
        "element_mixed": ("FP16/FP32 PE", lambda: ProcessingElement(FP16, FP32, interleave)),
        "multiply_fixed": (f"{Q3_12} multiplier", lambda: FixedMultiplier(Q3_12, Q3_12.sums)),
        "add_fixed": (f"{Q3_12.sums} adder", lambda: FixedAdder(Q3_12.sums)),
        "scale_fixed": (f"{Q3_12} multiple", lambda: FixedScaler(Q3_12)),
        "round_fixed": (f"{Q3_12.sums} to {Q3_12}", lambda: FixedRounder(Q3_12.sums, Q3_12)),
        "element_fixed": (f"{Q3_12}/{Q3_12.sums} PE", lambda: ProcessingElement(Q3_12, Q3_12.sums, interleave)),
        "multiply_reference": ("textbook FP32 multiplier", lambda: ReferenceMultiplier(FP32)),
        "add_reference": ("textbook FP32 adder", lambda: ReferenceAdder(FP32)),
        "element_reference": ("FP32 PE of textbook units", lambda: ReferenceElement(interleave)),
    }


def fmax(name: str) -> float:
    """Median over the seeds of the clock in MHz that a synthesised design reaches."""
    return statistics.median(clock_mhz(placed(name, seed, PLACER)) for seed in SEEDS)


def arith(page: Path) -> None:
    """Measure the units and write their table."""
    lines = ["| unit | LUT4 | LUT RAM | FF | MULT18X18D | Fmax (MHz) |",
             "| --- | ---: | ---: | ---: | ---: | ---: |"]
    for name, (title, make) in arith_units().items():
        size = Size.of(synthesise(make(), name)[name])
        synthesise(Bench(make()), f"{name}_bench")
        lines.append(f"| {title} | {size.lut4:,} | {size.lut_ram or '-'} | {size.ff:,} | {size.dsp or '-'} "
                     f"| {fmax(f'{name}_bench'):.0f} |")
        print(lines[-1], flush=True)
    replace_table(page, "fpga-arith", lines)
