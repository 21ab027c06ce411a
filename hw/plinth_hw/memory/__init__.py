"""Between engines and memory, and the memories within engines.

From an engine to the pins:

- :mod:`~plinth_hw.memory.channel`: matrices of memory as beats with position and mask, row by row
  (:mod:`~plinth_hw.memory.rows`).
- :mod:`~plinth_hw.memory.port`: the internal ports, in which all engines speak.
- :mod:`~plinth_hw.memory.crossbar`: joins the ports of all engines to one each way.
- :mod:`~plinth_hw.memory.axi`, :mod:`~plinth_hw.memory.block_ram`: what is behind them: AXI4, or RAM on the chip;
  :mod:`~plinth_hw.memory.split`: both, by address.

Within an engine:

- :mod:`~plinth_hw.memory.banks`: RAMs side by side, each with its own line.
- :mod:`~plinth_hw.memory.scratchpad`: vector memory, which reads and writes rows and columns in a cycle; with
  :mod:`~plinth_hw.memory.rotators` between lanes and banks.
- :mod:`~plinth_hw.memory.line_tracker`: where in it a walk over a matrix is.
"""
