"""The smallest dies, and Verilog tops of whole ones of ndp-tiny, for cocotb."""

from plinth_hw.isa.formats import Q3_12
from plinth_hw.isa.parameters import DieParameters, preset
from plinth_sim.rtl.cocotb_device import array_wrapper
from plinth_sim.rtl.cosim import ring
from plinth_sim.rtl.elaborate import die_verilog, module_name

#: The smallest die of each machine, of FP32 and of fixed point.
TINY_DIES = {"ndp": preset("ndp-tiny"), "ndp-fixed": preset("fpga-tiny"),
             "hypar": preset("hypar-tiny"), "hypar-fixed": preset("hypar-tiny", multiply_format=Q3_12)}
#: A die whose memory is on the chip alone.
ON_CHIP = preset("ndp-tiny", block_ram_words=1 << 11, axi_ports=0)


def die_top(dies: int, parameters: DieParameters = TINY_DIES["ndp"]) -> tuple[dict[str, str], str]:
    """Sources and top module of one die, or of a ring whose links have five registers."""
    sources, top = die_verilog(parameters), module_name(parameters)
    if dies == 1:
        return sources, top
    text = sources[f"{top}.sv"]
    return {**sources, "array.sv": array_wrapper(text, top, dies, ring(dies), latency=5)}, "array"
