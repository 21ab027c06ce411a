"""FPGA boards, and bitstreams for them.

- :mod:`~plinth_hw.board.pll`: dividers of a PLL for a clock.
- :mod:`~plinth_hw.board.ulx3s`: the top around a serial die: clock, reset, line, LEDs.
- :mod:`~plinth_hw.board.flow`: synthesis, placement, routing, packing.
- :mod:`~plinth_hw.board.report`: what a routed design takes, and how fast it is.
- :mod:`~plinth_hw.board.manifest`: what a bitstream is of.

``docs/board.md`` shows their use.
"""
