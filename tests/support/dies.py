"""The whole dies whose RTL tests simulate: another one costs half a minute of a processor or more, a third each for
Amaranth, Verilator and the compiler.

A new test takes the die that has what it needs; more than that, and other sizes, rarely matter. What only registers
decide (rates of links, the number of dies, memory) needs no other build, nor do further links where a die has fewer.
Equal fields and equal names are one build.
"""

from dataclasses import replace

from plinth_hw.isa.formats import FP16, Q3_12
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import FIXED_ENGINES, preset

#: All engines, two links, by format of the operands and machine.
NDP, MIXED, FIXED = preset("ndp-tiny"), preset("ndp-tiny", multiply_format=FP16), preset("fpga-tiny")
ROWS = preset("hypar-tiny")
ROWS_MIXED = replace(ROWS, name="hypar-tiny-mixed", multiply_format=FP16)
ROWS_FIXED = replace(ROWS, name="hypar-tiny-fixed", multiply_format=Q3_12)
#: Link layers, of three links: a ring uses two of them, an array of four dies that are all joined the third, too.
LINKED = preset("ndp-tiny-links", ports=3)
#: Winograd tiles, codes and prediction, a word a flit: any number of channels is predicted.
PREDICTING = preset("ndp-tiny-winograd", codes=True)
#: The same of two words a flit.
PREDICTING_PAIRS = preset("ndp-demo-predict", rows=4, columns=4)
#: Winograd tiles of FP16 products, of which a beat a cycle moves within, four times what a link takes.
MIXED_TILES = preset("ndp-tiny-winograd", multiply_format=FP16, transfer_words=4)

#: Nothing but tiles between dies: of up to four links, without and with transforms, and of links with own rates.
SENDING = preset("ndp-tiny", engines=frozenset({Engine.TRANSFER}), chunk_words=16, flit_words=2, ports=4)
TRANSFORMING = preset("ndp-tiny", engines=frozenset({Engine.TRANSFER}), chunk_words=16, flit_words=2, ports=3,
                      transforms=((2, 3),))
#: Tiles and reductions: routes that tasks set, and link layers.
ROUTING = preset("ndp-tiny-routes", engines=frozenset({Engine.COLLECTIVE, Engine.TRANSFER}), chunk_words=16)
LINK_TRAFFIC = preset("ndp-tiny-links", engines=frozenset({Engine.TRANSFER, Engine.COLLECTIVE}))

#: Without a network.
ALONE = preset("ndp-tiny", engines=frozenset({Engine.VECTOR}), ports=0, counters=16, die_bits=1)
#: All memory on the chip: behind registers, and behind a serial line, with 16-bit fixed point, as boards have it.
ON_CHIP = preset("ndp-tiny", multiply_format=Q3_12, block_ram_words=1 << 13, axi_ports=0)
SERIAL = preset("fpga-tiny", block_ram_words=1 << 12, axi_ports=0)

#: As they are synthesized, without initial values: all stages of the transfer engine, routes looked up ahead, and link
#: layers; and the row-stationary machine, fixed point, the optimiser, and routes looked up as packets wait.
POWERED_TILES = preset("ndp-tiny-links", transforms=((2, 3),), codes=True)
POWERED_FIXED = preset("hypar-tiny", multiply_format=Q3_12, engines=FIXED_ENGINES)
