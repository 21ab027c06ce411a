"""A die: control block, engines, network and memory access.

::

    axil -> control <-> engines (matrix, vector, collective, transfer)
               |            |                     |
               |            |        network interface, router <-> links
               +---- crossbar ----> AXI4 ports

Engines that the parameters leave out are absent, with their memory ports. Top-level ports are listed in
docs/architecture.md. Source: MPT section VI.
"""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from plinth_hw.control.control import Control
from plinth_hw.control.dispatch import engine_order
from plinth_hw.control.registers import AXI4LiteSignature
from plinth_hw.isa.parameters import DieParameters
from plinth_hw.isa.tasks import Engine
from plinth_hw.matrix.engine import MatrixEngine
from plinth_hw.memory.axi import AXIAdaptor, axi_signature
from plinth_hw.memory.crossbar import MemoryCrossbar
from plinth_hw.memory.port import ReadPort
from plinth_hw.memory.transfer import TransferEngine


class Die(wiring.Component):
    """One die.

    Parameters
    ----------
    parameters : DieParameters

    Members
    -------
    axil : In(AXI4LiteSignature)
        Registers.
    axi_0 ... : Out(AXI4Signature)
        Memory.
    irq : Out(1)
        Done or error.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        super().__init__({
            "axil": In(AXI4LiteSignature()),
            **{f"axi_{port}": Out(axi_signature(parameters)) for port in range(parameters.axi_ports)},
            "irq": Out(1),
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parameters = self.parameters
        kinds = {Engine.MATRIX: MatrixEngine, Engine.TRANSFER: TransferEngine}
        engines = {engine: kinds[engine](parameters) for engine in engine_order(parameters)}
        # Memory clients: the scheduler's, then whatever ports the engines have.
        clients: list[tuple[str, Engine | None, object]] = []
        for kind, component in engines.items():
            for name, member in component.signature.members.items():
                if name != "engine" and member.is_port is False:
                    clients.append((f"{kind.name.lower()}_{name}", kind, getattr(component, name)))
        m.submodules.control = control = Control(
            parameters,
            [None, *(owner for _, owner, port in clients if _reads(port))],
            [None, *(owner for _, owner, port in clients if not _reads(port))])
        clients[:0] = [("fetch", None, control.fetch_memory), ("record", None, control.record_memory)]
        m.submodules.crossbar = crossbar = MemoryCrossbar(
            parameters, [name for name, _, port in clients if _reads(port)],
            [name for name, _, port in clients if not _reads(port)])
        m.submodules.axi = axi = AXIAdaptor(parameters)

        for name, _, port in clients:
            connect(m, port, getattr(crossbar, name))
        for position, (kind, component) in enumerate(engines.items()):
            m.submodules[kind.name.lower()] = component
            connect(m, component.engine, getattr(control, f"engine_{position}"))
        connect(m, crossbar.memory_read, axi.read)
        connect(m, crossbar.memory_write, axi.write)
        connect(m, flipped(self.axil), control.axil)
        for port in range(parameters.axi_ports):
            connect(m, flipped(getattr(self, f"axi_{port}")), getattr(axi, f"axi_{port}"))
        m.d.comb += [
            self.irq.eq(control.irq),
            crossbar.limit.eq(control.limit),
            control.read_fault.eq(crossbar.read_fault), control.write_fault.eq(crossbar.write_fault),
            control.memory_fault.eq(axi.fault),
            control.words_read.eq(crossbar.words_read), control.words_written.eq(crossbar.words_written),
        ]
        return m


def _reads(port: object) -> bool:
    return isinstance(port.signature, ReadPort)  # type: ignore[attr-defined]
