"""From the port list of a Verilated die to the C++ accessors that the harness is compiled with.

The harness works for every die whose top-level ports follow docs/architecture.md, whatever their widths, with any
number of AXI4 ports, or none; pins that the protocol allows to leave out (``arid``, ``arburst`` ...) may be absent.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from plinth_hw.isa.parameters import RESET_CYCLES

#: Pins of an AXI4 port: those that must exist, then those that may be absent.
_AXI_NEEDED = ("awaddr", "awlen", "awvalid", "awready", "wdata", "wlast", "wvalid", "wready", "bresp",
               "bvalid", "bready", "araddr", "arlen", "arvalid", "arready", "rdata", "rresp", "rlast",
               "rvalid", "rready")
_AXI_OPTIONAL = ("awid", "awsize", "awburst", "wstrb", "bid", "arid", "arsize", "arburst", "rid")
_LITE_NEEDED = ("awaddr", "awvalid", "awready", "wdata", "wvalid", "wready", "bresp", "bvalid", "bready",
                "araddr", "arvalid", "arready", "rdata", "rresp", "rvalid", "rready")
_LITE_OPTIONAL = ("wstrb",)
#: Pins of a serial line, which a die with a host bridge has in place of AXI4-Lite.
_SERIAL = ("rx", "tx")
#: Pins of a link; those of one with a link layer, which stand for them, with their names.
_LINK = ("valid", "flit", "credit")
_WIRES = {"valid": "start", "flit": "phit"}


def module_ports(verilog: str, top: str) -> dict[str, tuple[str, int]]:
    """Ports of module ``top``: name to (``input`` or ``output``, bits).

    Raises
    ------
    ValueError
        If the text has no such module.
    """
    match = re.search(rf"\bmodule\s+{re.escape(top)}\b(.*?)\bendmodule\b", verilog, re.DOTALL)
    if not match:
        raise ValueError(f"the Verilog has no module {top!r}")
    body = re.sub(r"//[^\n]*|/\*.*?\*/|\(\*.*?\*\)", " ", match[1], flags=re.DOTALL)
    ports: dict[str, tuple[str, int]] = {}
    pattern = re.compile(r"\b(input|output)\s+(?:wire\s+|reg\s+|logic\s+)?(?:signed\s+)?"
                         r"(?:\[\s*(\d+)\s*:\s*(\d+)\s*\]\s*)?((?:\w+)(?:\s*,\s*(?!input\b|output\b)\w+)*)")
    for direction, high, low, names in pattern.findall(body):
        bits = int(high) - int(low) + 1 if high else 1
        for name in names.split(","):
            ports[name.strip()] = (direction, bits)
    return ports


def _struct(head: str, ports: Mapping[str, tuple[str, int]], prefix: str, pins: tuple[str, ...],
            extra: str = "", names: Mapping[str, str] = MappingProxyType({})) -> str:
    lines = [f"{head} {{", extra] if extra else [f"{head} {{"]
    for pin in pins:
        name = "_".join(part for part in (prefix, names.get(pin, pin)) if part)
        target = f"model.{name}" if name in ports else "absent"
        lines.append(f"    static auto& {pin}([[maybe_unused]] Vmodel& model) {{ return {target}; }}")
    return "\n".join([*lines, "};", ""])


def accessors(ports: Mapping[str, tuple[str, int]]) -> str:
    """Text of ``ports.h``.

    Raises
    ------
    ValueError
        If a port that the harness needs is missing.
    """
    axi_ports = len([name for name in ports if re.fullmatch(r"axi_\d+_arvalid", name)])
    layer = "link_out_0_start" in ports
    link_names = _WIRES if layer else {pin: pin for pin in _LINK}
    links = len([name for name in ports if re.fullmatch(rf"link_out_\d+_{link_names['valid']}", name)])
    serial = _SERIAL[0] in ports
    needed = ["clk", "rst", "irq", *(_SERIAL if serial else (f"axil_{pin}" for pin in _LITE_NEEDED)),
              *(f"axi_{p}_{pin}" for p in range(axi_ports) for pin in _AXI_NEEDED),
              *(f"link_{way}_{q}_{pin}" for way in ("in", "out") for q in range(links)
                for pin in link_names.values())]
    missing = [name for name in needed if name not in ports]
    if missing:
        raise ValueError(f"the die has no port {missing[0]}" +
                         (f" (and {len(missing) - 1} more are missing)" if len(missing) > 1 else ""))
    slice_bits = ports["axi_0_rdata"][1] if axi_ports else 0
    link_bits = ports[f"link_out_0_{link_names['flit']}"][1] if links else 0
    parts = ["// Made from the port list of the die.", "#pragma once", '#include "pins.h"', "",
             "inline Absent absent;", f"constexpr uint64_t RESET_CYCLES = {RESET_CYCLES};",
             f"constexpr size_t AXI_PORTS = {axi_ports};",
             f"constexpr size_t BEAT_BITS = {slice_bits * axi_ports};",
             f"constexpr size_t LINKS = {links};", f"constexpr bool LINK_LAYER = {str(layer).lower()};",
             f"constexpr size_t LINK_BITS = {link_bits};", f"constexpr bool SERIAL = {str(serial).lower()};", "",
             "// Zeros at all inputs.", "inline Vmodel& silence(Vmodel& model) {",
             *(f"    std::memset(&model.{name}, 0, sizeof model.{name});"
               for name, (direction, _) in ports.items() if direction == "input"), "    return model;", "}", "",
             _struct("struct AxiLite", ports, "axil", (*_LITE_NEEDED, *_LITE_OPTIONAL)),
             _struct("struct SerialPins", ports, "", _SERIAL),
             "template <size_t P> struct AxiPins;", "template <size_t P> struct LinkOut;",
             "template <size_t P> struct LinkIn;"]
    for p in range(axi_ports):
        bits = ports[f"axi_{p}_rdata"][1]
        parts.append(_struct(f"template <> struct AxiPins<{p}>", ports, f"axi_{p}",
                             (*_AXI_NEEDED, *_AXI_OPTIONAL),
                             f"    static constexpr size_t DATA_BITS = {bits};"))
    for q in range(max(1, links)):
        parts.append(_struct(f"template <> struct LinkOut<{q}>", ports, f"link_out_{q}", _LINK, names=link_names))
        parts.append(_struct(f"template <> struct LinkIn<{q}>", ports, f"link_in_{q}", _LINK, names=link_names))
    return "\n".join(parts)
