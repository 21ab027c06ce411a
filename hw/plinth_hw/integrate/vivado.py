"""What Vivado needs to take a die as an IP: attributes of the ports, and a script that packages it.

Attributes name the interface that a port belongs to, and what it is there (Xilinx UG1118, "Inferring clock and reset
interfaces" and the ones behind it), so that `ipx::package_project` finds AXI ports with their clock, the interrupt and
the serial line, and leaves alone what is none of them: links and status.
"""

from collections.abc import Iterator, Mapping

from amaranth.lib import wiring

from plinth_hw import emit
from plinth_hw.integrate.constraints import CLOCK, RESET

#: Part of the projects that are made where nobody says another.
PART = "xcku5p-ffvb676-2-e"
_BUS = "xilinx.com:interface:aximm:1.0"
#: Ports that are an interface by themselves: its kind, the port's name there, parameters.
_LONE = {"irq": ("xilinx.com:signal:interrupt:1.0 irq INTERRUPT", "SENSITIVITY LEVEL_HIGH"),
         "rx": ("xilinx.com:interface:uart:1.0 uart RxD", ""), "tx": ("xilinx.com:interface:uart:1.0 uart TxD", "")}
#: Pins of AXI by which its interfaces are known, and whose widths are theirs.
_DATA, _ADDRESS, _BURST = "wdata", "araddr", "arlen"


def buses(component: wiring.Component) -> dict[str, Mapping[str, emit.ModulePort]]:
    """The AXI interfaces of a component: their ports by pin, by their names."""
    found: dict[str, dict[str, emit.ModulePort]] = {}
    for port in emit.ports(component):
        found.setdefault(port.interface, {})[port.pin] = port
    return {name: pins for name, pins in found.items() if _DATA in pins}


def _attribute(info: str, parameters: str = "") -> str:
    name = info.split()[1]
    given = f', X_INTERFACE_PARAMETER = "XIL_INTERFACENAME {name}, {parameters}"' if parameters else ""
    return f'(* X_INTERFACE_INFO = "{info}"{given} *)'


def _bus_parameters(pins: Mapping[str, emit.ModulePort]) -> str:
    return (f"PROTOCOL {'AXI4' if _BURST in pins else 'AXI4LITE'}, DATA_WIDTH {len(pins[_DATA].value)}, "
            f"ADDR_WIDTH {len(pins[_ADDRESS].value)}")


def attributes(component: wiring.Component) -> dict[str, str]:
    """The attributes of a die's ports, as Verilog, by the names of ports, clock and reset among them.

    Parameters
    ----------
    component : wiring.Component
        A :class:`~plinth_hw.die.Die`, or one with a host bridge (:class:`~plinth_hw.host.top.SerialDie`).
    """
    found = buses(component)
    associated = f"ASSOCIATED_BUSIF {':'.join(found)}, " if found else ""
    result = {CLOCK: _attribute(f"xilinx.com:signal:clock:1.0 {CLOCK} CLK", f"{associated}ASSOCIATED_RESET {RESET}"),
              RESET: _attribute(f"xilinx.com:signal:reset:1.0 {RESET} RST", "POLARITY ACTIVE_HIGH")}
    for name, pins in found.items():
        for pin, port in pins.items():
            result[port.name] = _attribute(f"{_BUS} {name} {pin.upper()}",
                                           _bus_parameters(pins) if pin == _ADDRESS else "")
    return result | {port.name: _attribute(*_LONE[port.name]) for port in emit.ports(component) if port.name in _LONE}


def _commands(component: wiring.Component, stem: str, top: str, description: str, version: str) -> Iterator[str]:
    yield from (
        "set folder [file dirname [file normalize [info script]]]",
        f"set part [expr {{$argc > 0 ? [lindex $argv 0] : \"{PART}\"}}]",
        f"create_project -force {stem}_ip $folder/{stem}_ip -part $part",
        f"add_files [list $folder/{stem}.v]",
        f"set_property top {top} [current_fileset]",
        f"ipx::package_project -root_dir $folder/{stem}_ip/ip -vendor plinth -library die -taxonomy /UserIP "
        "-import_files -set_current true -force",
        "set core [ipx::current_core]",
        f"set_property name {top} $core",
        f"set_property version {version} $core",
        f"set_property display_name {{Plinth {top}}} $core",
        f"set_property description {{{description}}} $core",
        # For other families than that of the project's part, too.
        "set_property auto_family_support_level level_2 $core")
    for name in buses(component):
        yield f"ipx::associate_bus_interfaces -busif {name} -clock {CLOCK} $core"
    yield from ("ipx::create_xgui_files $core", "ipx::update_checksums $core", "ipx::check_integrity $core",
                "ipx::save_core $core", "close_project")


def packaging(component: wiring.Component, stem: str, top: str, description: str, version: str) -> str:
    """Tcl that makes an IP of ``STEM.v``, beside which it stands, in a folder ``STEM_ip`` there.

    Parameters
    ----------
    top : str
        Top module.
    description : str
        A line.
    version : str
        Of the project; of its numbers Vivado takes the first two.
    """
    head = (f"# Packages {stem}.v for Vivado's IP integrator: vivado -mode batch -source {stem}_ip.tcl "
            "[-tclargs PART]")
    number = ".".join(version.split(".")[:2])
    return "\n".join([head, *_commands(component, stem, top, description, number), ""])
