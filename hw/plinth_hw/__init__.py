"""The hardware of Plinth: a logic die as RTL, and the contract that software shares with it.

A room imports those above it only:

- :mod:`~plinth_hw.isa`: number formats, task descriptors, register map, parameters of a die: plain data;
  :mod:`~plinth_hw.shapes` gives Amaranth's shapes of them.
- :mod:`~plinth_hw.terminal`: how programs, of software as well, meet people and systems: streams, signals, progress,
  tables. No hardware.
- :mod:`~plinth_hw.lib`: parts that every room uses.
- :mod:`~plinth_hw.arith`: multipliers, adders, conversions.
- :mod:`~plinth_hw.memory`: from an engine to the pins of memory, and the memories within engines.
- :mod:`~plinth_hw.control`: what starts tasks, and what the host sees.
- :mod:`~plinth_hw.comm`: the network, collectives, tiles.
- :mod:`~plinth_hw.matrix`, :mod:`~plinth_hw.vector`, :mod:`~plinth_hw.optimiser`: the engines that compute.
- :mod:`~plinth_hw.die`: all of it. :mod:`~plinth_hw.emit` writes its Verilog, :mod:`~plinth_hw.pin_paths` sees that no
  path goes from pin to pin, :mod:`~plinth_hw.fpga` measures its size and speed.
- :mod:`~plinth_hw.integrate`: constraints, a FuseSoC core and a LiteX module, for other people's designs.
- :mod:`~plinth_hw.board`: bitstreams for FPGA boards; :mod:`~plinth_hw.tools` runs the programs that make them.

Below all rooms of this and the other packages, and of no hardware:

- :mod:`~plinth_hw.installation`: where outputs and caches go, of a checkout and of an installed package.
- :mod:`~plinth_hw.cache`: results that are kept, with checksums.

``docs/glossary.md`` says what words mean in all rooms.
"""
