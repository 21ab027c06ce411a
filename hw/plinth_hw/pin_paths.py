"""Combinational paths from inputs to outputs of modules, by Amaranth's netlists.

Each module's netlist is looked at once, as its Verilog is made, and of it only what is in front of outputs. Modules
that it has instances of are joined afterwards::

    netlist --Paths.add()--> paths within a module --Paths.through()--> paths through modules

Ports are looked at whole: an output depends on all that one of its bits does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from amaranth.hdl import _nir as nir

#: A port of an instance, by the number of its cell; of the module itself by :data:`SELF`.
Pin = tuple[int, str]
SELF = 0


@dataclass(frozen=True)
class _Module:
    #: For each output of the module, and each input of an instance that can reach one: the inputs of the module and the
    #: outputs of instances that drive it combinationally.
    drivers: Mapping[Pin, frozenset[Pin]]
    #: Outputs of the module whose bits are those of registers, constants, or outputs of instances.
    direct: frozenset[str]
    #: Modules of instances.
    modules: Mapping[int, str]


def _driving(netlist: nir.Netlist, nets: Iterable[nir.Net], sources: Mapping[nir.Net, Pin]) -> frozenset[Pin]:
    """The sources that drive some nets combinationally."""
    found, seen, ahead = set(), set(), list(nets)
    while ahead:
        net = ahead.pop()
        if net in seen or net.is_const:
            continue
        seen.add(net)
        if (pin := sources.get(net)) is not None:
            found.add(pin)
            continue
        cell = netlist.cells[net.cell]
        if isinstance(cell, nir.FlipFlop):
            ahead.append(cell.arst)
        elif not isinstance(cell, nir.SyncReadPort):
            ahead += (source for source, _ in cell.comb_edges_to(net.bit))
    return frozenset(found)


class Paths:
    """Paths through modules, some of which have instances of others."""

    def __init__(self) -> None:
        self._modules: dict[str, _Module] = {}
        self._through: dict[str, dict[str, frozenset[str]]] = {}

    def add(self, name: str, netlist: nir.Netlist) -> None:
        """Note the paths within module ``name``."""
        instances = {number: cell for number, cell in enumerate(netlist.cells) if isinstance(cell, nir.Instance)}
        sources = {nir.Net.from_cell(number, bit): (number, port)
                   for number, ports in ((SELF, netlist.top.ports_i),
                                         *((number, cell.ports_o) for number, cell in instances.items()))
                   for port, (start, width) in ports.items() for bit in range(start, start + width)}
        drivers: dict[Pin, frozenset[Pin]] = {}
        ahead = [(SELF, port) for port in netlist.top.ports_o]
        while ahead:
            number, port = pin = ahead.pop()
            if pin in drivers:
                continue
            nets = netlist.top.ports_o[port] if number == SELF else instances[number].ports_i[port]
            drivers[pin] = _driving(netlist, nets, sources)
            for instance in {source for source, _ in drivers[pin]} - {SELF}:
                ahead += ((instance, name) for name in instances[instance].ports_i)
        direct = frozenset(port for port, nets in netlist.top.ports_o.items() if all(
            net.is_const or isinstance(netlist.cells[net.cell], nir.FlipFlop | nir.Instance) for net in nets))
        self._modules[name] = _Module(drivers, direct, {number: cell.type for number, cell in instances.items()})

    def through(self, name: str) -> Mapping[str, frozenset[str]]:
        """The inputs that reach each output of module ``name`` combinationally. Instances of modules that were not
        added are taken to pass every input of theirs on.

        Raises
        ------
        KeyError
            If the module was not added.
        """
        if name not in self._through:
            module = self._modules[name]
            self._through[name] = {port: self._inputs(module, (SELF, port))
                                   for number, port in module.drivers if number == SELF}
        return self._through[name]

    def is_register(self, name: str, output: str) -> bool:
        """Whether the bits of an output of module ``name`` are outputs of registers, or constants.

        Raises
        ------
        KeyError
            If the module was not added.
        """
        module = self._modules[name]
        return output in module.direct and all(
            module.modules[number] in self._modules and self.is_register(module.modules[number], port)
            for number, port in module.drivers[SELF, output] if number != SELF)

    def _inputs(self, module: _Module, output: Pin) -> frozenset[str]:
        found, seen, ahead = set(), set(), [output]
        while ahead:
            pin = ahead.pop()
            if pin in seen:
                continue
            seen.add(pin)
            for number, port in module.drivers[pin]:
                if number == SELF:
                    found.add(port)
                    continue
                inside = module.modules[number]
                if inside in self._modules:
                    ahead += ((number, source) for source in self.through(inside)[port])
                else:
                    ahead += (sink for sink in module.drivers if sink[0] == number)
        return frozenset(found)
