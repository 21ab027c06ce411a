"""Lint of presets: units that several have are linted once, and what is wrong with one is told of each."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from plinth_sim.rtl import lint, verilator

PART = "module plinth_part(input a, output b);\n  assign b = a;\nendmodule\n"
FAULTY = "module plinth_part(input a, output [1:0] b);\n  assign b[0] = c;\n  assign b[1] = a;\nendmodule\n"


def _die(name: str, part: str, bits: int) -> str:
    """A die with two of the part."""
    return (f"module {name}(input [1:0] a, output [{2 * bits - 1}:0] b);\n"
            f"  plinth_part one (.a(a[0]), .b(b[{bits - 1}:0]));\n"
            f"  plinth_part other (.a(a[1]), .b(b[{2 * bits - 1}:{bits}]));\nendmodule\n{part}")


@pytest.fixture
def linted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Names of units as Verilator gets them. The dies of two presets have a faulty part, others a clean one."""
    runs, real = tmp_path / "runs", verilator.lint

    def counted(sources: Iterable[Path], top: str, waivers: Iterable[Path]) -> None:
        with runs.open("a") as file:
            file.write(f"{top}\n")
        real(list(sources), top, list(waivers))

    def verilog(parameters: object, array_form: str) -> dict[str, str]:
        name = lint.module_name(parameters)
        faulty = name.startswith("hypar")
        return {f"{name}.sv": _die(name, FAULTY if faulty else PART, 2 if faulty else 1)}

    monkeypatch.setenv("PLINTH_BUILD", str(tmp_path))
    monkeypatch.setattr(verilator, "lint", counted)
    monkeypatch.setattr(lint, "die_verilog", verilog)
    return runs


def test_a_unit_is_linted_once_and_its_fault_told_of_each(linted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lint.main(["ndp-tiny", "hypar-tiny", "ndp-demo", "hypar-demo"]) == 2
    assert sorted(linted.read_text().split()) == [
        "hypar_demo", "hypar_tiny", "ndp_demo", "ndp_tiny", "plinth_part", "plinth_part"]
    out, err = capsys.readouterr()
    assert sorted(out.splitlines()) == ["lint: ndp-demo: clean", "lint: ndp-tiny: clean"]
    first, second = sorted(err.splitlines())
    assert first.startswith("lint: hypar-demo: ") and second.startswith("lint: hypar-tiny: ")
    assert all(all(word in line for word in ("%Error", "plinth_part.v", "'c'")) for line in (first, second))


def test_a_whole_die_is_one_unit(linted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lint.main(["--whole", "ndp-tiny"]) == 0
    assert linted.read_text().split() == ["ndp_tiny"]
    assert capsys.readouterr().out == "lint: ndp-tiny: clean\n"


def test_an_unknown_preset_is_told_beside_the_others(linted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lint.main(["ndp-tiny", "ndp-tinny"]) == 2
    out, err = capsys.readouterr()
    assert out == "lint: ndp-tiny: clean\n"
    assert err.startswith("lint: ndp-tinny: preset must be one of ndp-tiny, ") and err.endswith("not 'ndp-tinny'\n")
