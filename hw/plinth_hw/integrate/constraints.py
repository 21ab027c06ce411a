"""Clock, reset and I/O constraints of a component that is synthesised by itself (out of context), as SDC and XDC.

The component has the one clock ``clk`` and the synchronous reset ``rst``, which Amaranth adds to its members. Registers
of the same clock are taken to stand outside every pin: an input arrives a share of the period after the edge, an
output is there a share of it before the next (:data:`OUTSIDE`). No path goes from pin to pin. Reset is an input like
the others: it is synchronous, so that its release must meet the edge.

Both files are made of the same commands, a pin named once for each of ``-max`` and ``-min``; the SDC adds what a
technology without a model of its clock tree needs, an uncertainty.
"""

import textwrap
from fractions import Fraction
from typing import Literal

from amaranth.lib import wiring

from plinth_hw import emit

#: The two dialects of Tcl constraints.
Dialect = Literal["sdc", "xdc"]
DIALECTS: tuple[Dialect, ...] = ("sdc", "xdc")
#: Names that Amaranth gives the pins of the ``sync`` domain.
CLOCK, RESET = "clk", "rst"
#: Ports of a serial line, and what is to be said of them.
LINES = {"rx": ": registers stage0 and stage1 of the receiver settle it, and carry ASYNC_REG", "tx": ""}
#: Shares of the period that are spent outside: before an input, and after an output, which is a register's.
OUTSIDE = {"input": Fraction(3, 10), "output": Fraction(6, 10)}
#: Share of the period by which an edge of the clock may come early (SDC).
UNCERTAINTY = Fraction(1, 50)


def _pins(component: wiring.Component) -> dict[tuple[str, str], list[str]]:
    """Patterns of the pins by interface (the member's name) and direction (``input``, ``output``)."""
    groups: dict[tuple[str, str], list[str]] = {}
    for port in emit.ports(component):
        direction = "output" if port.is_output else "input"
        pattern = port.name if len(port.value) == 1 else f"{port.name}[*]"
        groups.setdefault((port.interface, direction), []).append(pattern)
    return groups


def _delays(direction: str, pins: list[str], period: Fraction) -> list[str]:
    """Both delays of pins of a direction."""
    named = " ".join(pins)
    if len(named) > 60:
        named = "\n".join(["", *textwrap.wrap(named, 110, initial_indent="    ", subsequent_indent="    "), ""])
    return [f"set_{direction}_delay -clock {CLOCK} -{which} {float(delay):.3f} [get_ports {{{named}}}]"
            for which, delay in (("max", period * OUTSIDE[direction]), ("min", Fraction(0)))]


def text(component: wiring.Component, title: str, clock_mhz: float, dialect: Dialect) -> str:
    """Constraints of a component, byte for byte the same from run to run.

    Parameters
    ----------
    title : str
        What the component is, for the first line.
    clock_mhz : float
        Clock in MHz.

    Raises
    ------
    ValueError
        If the clock is not above 0, or the dialect is unknown.
    """
    if dialect not in DIALECTS:
        raise ValueError(f"Dialect must be one of {', '.join(DIALECTS)}, not {dialect!r}")
    if not clock_mhz > 0:
        raise ValueError(f"Clock must be above 0 MHz, not {clock_mhz!r}")
    period = 1000 / Fraction(clock_mhz)
    lines = [f"# {title}, synthesised out of context for a clock of {clock_mhz:g} MHz. Times in nanoseconds.",
             "", f"create_clock -name {CLOCK} -period {float(period):.3f} [get_ports {{{CLOCK}}}]"]
    if dialect == "sdc":
        lines.append(f"set_clock_uncertainty {float(period * UNCERTAINTY):.3f} [get_clocks {{{CLOCK}}}]")
    lines += ["", "# Reset is synchronous.", *_delays("input", [RESET], period)]
    for (interface, direction), pins in _pins(component).items():
        if interface in LINES:
            way = "from" if direction == "input" else "to"
            lines += ["", f"# {interface} belongs to no clock{LINES[interface]}.",
                      f"set_false_path -{way} [get_ports {{{interface}}}]"]
            continue
        lines += ["", f"# {interface}: {direction}s", *_delays(direction, pins, period)]
    return "\n".join(lines) + "\n"
