"""FPGA boards, and bitstreams for them.

- :mod:`~plinth_hw.board.boards`: what boards there are, as data.
- :mod:`~plinth_hw.board.top`: the top around a serial die: clock, reset, line, LEDs.
- :mod:`~plinth_hw.board.pll`, :mod:`~plinth_hw.board.mmcm`: dividers for a clock, of an ECP5 and of Xilinx' 7 series.
- :mod:`~plinth_hw.board.flow`: synthesis, placement, routing, packing.
- :mod:`~plinth_hw.board.report`: what a routed design takes, and how fast it is.
- :mod:`~plinth_hw.board.manifest`: what a bitstream is of.

``docs/board.md`` shows their use.
"""
