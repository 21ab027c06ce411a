"""Size and speed on an ECP5 (LFE5U-85F, speed grade 6), by Yosys and nextpnr from the locked wheels.

::

    python -m plinth_hw.fpga arith     # units and one processing element; table of docs/arith.md
    python -m plinth_hw.fpga area      # blocks of ndp-demo and fpga-demo, ends of links, codes; tables of docs/area.md
    python -m plinth_hw.fpga area fpga-demo     # of one of them
    python -m plinth_hw.fpga link      # of ends of links
    python -m plinth_hw.fpga codes     # of stages that code
    python -m plinth_hw.fpga tiles     # of what tiles take in the network, beside the stages that make them
    python -m plinth_hw.fpga host      # the host bridge; table of docs/host.md
    python -m plinth_hw.fpga optimiser # the optimiser of the board's die; table of docs/optimiser.md
    python -m plinth_hw.fpga timing    # Fmax of every block whose row is of other Verilog; table of docs/timing.md
    python -m plinth_hw.fpga timing router link     # of these
    python -m plinth_hw.fpga check     # whether areas of dies and times of blocks are of today's Verilog

- :mod:`~plinth_hw.fpga.synthesis`: a component through Yosys and nextpnr.
- :mod:`~plinth_hw.fpga.arith`, :mod:`~plinth_hw.fpga.area`, :mod:`~plinth_hw.fpga.timing`: what is measured.
- :mod:`~plinth_hw.fpga.measure`: the command.

Tables stand between markers in their pages and are replaced as a whole.
"""
