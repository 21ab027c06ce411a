# amaranth: UnusedElaboratable=no
"""Constraints for synthesis out of context: parsed, and held against the ports of the generated Verilog."""

import re
from collections import Counter
from pathlib import Path

import pytest
from tests.support.refusal import refused

from plinth_hw.die import Die
from plinth_hw.integrate import constraints
from plinth_hw.isa.parameters import preset
from plinth_sim.rtl.elaborate import die_verilog, module_name
from plinth_sim.rtl.pins import module_ports

FOLDER = Path(__file__).resolve().parents[3] / "constraints"

_WORD = re.compile(r"\s*(?:(?P<plain>[\w.-]+)|\[(?P<call>get_\w+)\s+\{(?P<names>[^{}]*)\}\])")
#: Options of each command, in their order, each followed by a value; what it is applied to comes last.
_OPTIONS = {"create_clock": ("-name", "-period"), "set_clock_uncertainty": (),
            "set_input_delay": ("-clock", "-max|-min"), "set_output_delay": ("-clock", "-max|-min")}


def parse(text: str) -> list[tuple[str, dict[str, str], str, list[str]]]:
    """Commands of a file: (name, options, collection, patterns). Anything else than what is made is refused."""
    commands = []
    text = re.sub(r"^#[^\n]*\n", "", text, flags=re.MULTILINE)
    for line in re.findall(r"[^\n{]*(?:\{[^}]*\})?[^\n]*\n", text):
        words, position = [], 0
        while line[position:].strip():
            match = _WORD.match(line, position)
            assert match, f"not a word: {line[position:]!r}"
            words.append(match)
            position = match.end()
        if not words:
            continue
        name, *plain = (word["plain"] for word in words[:-1])
        options = {}
        for option in _OPTIONS[name]:
            key = plain.pop(0)
            assert key in option.split("|"), f"{name} {key}"
            options[key] = plain.pop(0)
        if name == "set_clock_uncertainty":
            options["uncertainty"] = plain.pop(0)
        assert not plain and words[-1]["call"], line
        commands.append((name, options, words[-1]["call"], words[-1]["names"].split()))
    return commands


def check(text: str, ports: dict[str, tuple[str, int]], period: float) -> None:
    """Every port has a clock, or both delays, exactly once; no other is named."""
    constrained: Counter[tuple[str, str]] = Counter()
    for name, options, call, patterns in parse(text):
        assert call == ("get_clocks" if name == "set_clock_uncertainty" else "get_ports")
        if name == "create_clock":
            assert (options, patterns) == ({"-name": "clk", "-period": f"{period:.3f}"}, ["clk"])
            constrained["clk", "clock"] += 1
        elif name == "set_clock_uncertainty":
            assert patterns == ["clk"] and 0 < float(options["uncertainty"]) < period / 10
        else:
            way, which = name.split("_")[1], next(key for key in options if key != "-clock")
            assert options["-clock"] == "clk"
            share = {"input": 0.3, "output": 0.6}[way] if which == "-max" else 0
            assert float(options[which]) == pytest.approx(share * period, abs=1e-3)
            for pattern in patterns:
                port = pattern.removesuffix("[*]")
                assert (ports[port][0], pattern != port) == (way, ports[port][1] > 1), pattern
                constrained[port, which] += 1
    wanted = {(port, which) for port in ports if port != "clk" for which in ("-max", "-min")} | {("clk", "clock")}
    assert constrained == Counter(wanted)


@pytest.mark.parametrize("name", ["ndp-tiny", pytest.param("ndp-tiny-links", marks=pytest.mark.slow),
                                  pytest.param("ndp-demo", marks=pytest.mark.slow)])
def test_every_port_is_constrained(name: str) -> None:
    parameters = preset(name)
    (verilog,) = die_verilog(parameters).values()
    ports = module_ports(verilog, module_name(parameters))
    for dialect in constraints.DIALECTS:
        text = constraints.text(Die(parameters), name, 250, dialect)
        check(text, ports, 4)
        with pytest.raises(AssertionError):
            check(text, ports | {"extra": ("input", 1)}, 4)
        with pytest.raises(AssertionError):
            check(text.replace("axil_awvalid", "axil_awvalid[*]"), ports, 4)
        with pytest.raises(KeyError):
            check(text, {port: ports[port] for port in ports if port != "irq"}, 4)
        assert ("uncertainty" in text) == (dialect == "sdc")


def test_files_in_the_folder_are_those_of_the_demo() -> None:
    for dialect in constraints.DIALECTS:
        file, text = f"die.{dialect}", constraints.text(Die(preset("ndp-demo")), "Die ndp-demo", 100, dialect)
        assert text == (FOLDER / file).read_text(), (
            f"copy {file} of: plinth verilog ndp-demo --constraints --out build/die.v")


def test_bad_input() -> None:
    with refused(ValueError, match="Clock must be above 0 MHz, not 0"):
        constraints.text(Die(preset("ndp-tiny")), "die", 0, "sdc")
    with refused(ValueError, match="Dialect must be one of sdc, xdc, not 'lpf'"):
        constraints.text(Die(preset("ndp-tiny")), "die", 1, "lpf")  # type: ignore[arg-type]
