# amaranth: UnusedElaboratable=no
"""Elaborating leaves nothing behind: a component that is elaborated again gives the same netlist."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Value
from amaranth.hdl import _nir as nir
from amaranth.hdl._ir import PortDirection
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, Signature

import plinth_hw
from plinth_hw.comm.collective import CollectiveEngine
from plinth_hw.comm.interface import NetworkInterface
from plinth_hw.comm.router import Router
from plinth_hw.comm.transfer import TransferEngine
from plinth_hw.control.control import Control
from plinth_hw.die import Die, make_engine
from plinth_hw.emit import Emission, netlist, text_digest
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import preset
from plinth_hw.memory.axi import AXIAdaptor
from plinth_hw.optimiser.engine import OptimiserEngine

PARAMETERS = preset("ndp-tiny")
SOURCES = sorted(Path(next(iter(plinth_hw.__path__))).rglob("*.py"))


class _Netlists(Emission):
    """Emits netlists, which are much faster made than the Verilog that follows from them."""

    def register(self, module: str, component: wiring.Component, make: Callable[[], str]) -> None:
        super().register(module, component, lambda: netlist(component, module, self))


def _netlist(component: wiring.Component) -> str:
    platform = _Netlists()
    return "\n".join([netlist(component, "top", platform), *platform.texts()])


@pytest.mark.parametrize("component", [
    pytest.param(lambda: Router(PARAMETERS), id="router"),
    pytest.param(lambda: NetworkInterface(PARAMETERS), id="interface"),
    pytest.param(lambda: TransferEngine(PARAMETERS), id="transfer"),
    pytest.param(lambda: CollectiveEngine(PARAMETERS), id="collective"),
    pytest.param(lambda: OptimiserEngine(preset("fpga-tiny")), id="optimiser"),
    pytest.param(lambda: Control(PARAMETERS, [None], [None]), id="control"),
    pytest.param(lambda: AXIAdaptor(PARAMETERS), id="axi"),
    *(pytest.param(lambda name=name, kind=kind: make_engine(kind, preset(name)), id=f"{kind.name.lower()}, {name}",
                   marks=pytest.mark.slow)
      for name, kind in (("ndp-tiny", Engine.MATRIX), ("hypar-tiny", Engine.MATRIX), ("ndp-tiny", Engine.VECTOR))),
    pytest.param(lambda: Die(preset("fpga-tiny", engines=frozenset({Engine.COLLECTIVE, Engine.TRANSFER,
                                                                   Engine.OPTIMISER}))), id="die",
                 marks=pytest.mark.slow)])
def test_elaborated_twice(component) -> None:
    instance = component()
    # Not `assert first == second`: the difference of two netlists of megabytes takes minutes to print.
    same = _netlist(instance) == _netlist(instance)
    assert same


def test_a_netlist_is_amaranths_own() -> None:
    """Whose checks of nets are back once it is made, or has failed."""
    checked = nir.Value.__new__
    own, same = AXIAdaptor(PARAMETERS), AXIAdaptor(PARAMETERS)
    directed = {"_".join(map(str, path)): (Value.cast(value), PortDirection(
        "output" if member.flow is Out else "input")) for path, member, value in same.signature.flatten(same)}
    assert netlist(own, "axi") == rtlil.convert(same, "axi", ports=directed, emit_src=False)
    with pytest.raises(ValueError, match="two ports would be named 'a_b'"):
        netlist(wiring.Component({"a_b": In(1), "a": Out(Signature({"b": In(1)}))}), "twice")
    assert nir.Value.__new__ is checked


def test_only_constructors_set_attributes() -> None:
    """So of every component, those of no die too."""
    assignments = []
    for path in SOURCES:
        for kind in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(kind, ast.ClassDef) or "Component" not in {ast.unparse(base).rpartition(".")[2]
                                                                         for base in kind.bases}:
                continue
            assignments += [f"{path.name}:{node.lineno} {kind.name}.{method.name}: self.{node.attr}"
                            for method in kind.body
                            if isinstance(method, ast.FunctionDef) and method.name != "__init__"
                            for node in ast.walk(method)
                            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
                            and ast.unparse(node.value) == "self"]
    assert len(SOURCES) > 100
    assert assignments == []


@pytest.mark.parametrize("platform", [None, Emission()])
def test_a_digest_has_all_of_its_bits(platform: Emission | None) -> None:
    """The highest one, too, of every second text."""
    assert len(text_digest(Module(), platform)) == 32
