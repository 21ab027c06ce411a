"""What takes a die into other people's designs.

- :mod:`~plinth_hw.integrate.constraints`: clock, reset and I/O constraints, as SDC and XDC.
- :mod:`~plinth_hw.integrate.core_file`: a FuseSoC core around the generated Verilog.
- :mod:`~plinth_hw.integrate.vivado`: attributes of the ports, and a script that makes an IP.
- :mod:`~plinth_hw.integrate.package`: all of these beside the Verilog of a die.
- :mod:`~plinth_hw.integrate.litex_die`: a die on the buses of a LiteX SoC; the only part that needs LiteX.

``docs/integration.md`` shows their use.
"""
