# amaranth: UnusedElaboratable=no
"""A die: control block, engines, network and memory access.

::

    axil -> control <-> engines (matrix, vector, collective, transfer, optimiser)
               |            |                     |
               |            |        network interface, router <-> links
               +---- crossbar ----> AXI4 ports, block RAM, or both by address

    pins of axil and AXI4 <-> register slices <-> control, AXI adaptor

Engines that the parameters leave out are absent, with their memory ports, and so are the network interface and the
router of a die without links. All but control and what is behind the crossbar, whose accesses end as they must, is
reset when the die is stopped (:mod:`~plinth_hw.control.recovery`). In Verilog each of these parts is a module whose
reset comes from a register of its own, and does so a cycle late (:func:`~plinth_hw.emit.instance`); so ``rst`` has to
last for :data:`~plinth_hw.isa.parameters.RESET_CYCLES`.
Top-level ports are listed in docs/architecture.md. Source: MPT section VI.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from plinth_hw import emit
from plinth_hw.comm.collective import CollectiveEngine
from plinth_hw.comm.flit import LinkSignature
from plinth_hw.comm.interface import NetworkInterface
from plinth_hw.comm.link import LinkLayer, WiresSignature
from plinth_hw.comm.router import Router
from plinth_hw.comm.transfer import TransferEngine
from plinth_hw.control.control import Control
from plinth_hw.control.dispatch import engine_order
from plinth_hw.control.registers import SLICED_FIELDS, AXI4LiteSignature
from plinth_hw.isa.formats import Fixed
from plinth_hw.isa.operations import Engine
from plinth_hw.isa.parameters import ROW_STATIONARY, SYSTOLIC, DieParameters
from plinth_hw.lib.channels import slice_channels
from plinth_hw.matrix.ends import SumsAtEnds
from plinth_hw.matrix.engine import MatrixEngine
from plinth_hw.matrix.row_stationary.engine import RowStationaryEngine
from plinth_hw.memory.axi import AXIAdaptor, axi_signature, connect_pins
from plinth_hw.memory.block_ram import BlockMemory
from plinth_hw.memory.crossbar import MemoryCrossbar
from plinth_hw.memory.port import ReadPort, WritePort
from plinth_hw.memory.split import AddressSplit
from plinth_hw.optimiser.engine import OptimiserEngine
from plinth_hw.vector.engine import VectorEngine

#: What runs matrix tasks, by machine.
MATRIX_ENGINES = {SYSTOLIC: MatrixEngine, ROW_STATIONARY: RowStationaryEngine}
#: What runs the tasks of other kinds.
ENGINES = {Engine.VECTOR: VectorEngine, Engine.COLLECTIVE: CollectiveEngine, Engine.TRANSFER: TransferEngine,
           Engine.OPTIMISER: OptimiserEngine}

#: Faults of awaited answers that the AXI adaptor tells of.
MEMORY_FAULTS = ("read_error", "read_not_last", "write_error")

#: Pins that tell how the die is.
STATUS_PINS = ("irq", "busy", "done", "error")


def make_engine(kind: Engine, parameters: DieParameters) -> Any:
    """What runs the tasks of a kind."""
    return (MATRIX_ENGINES[parameters.machine] if kind is Engine.MATRIX else ENGINES[kind])(parameters)


#: A port to memory: its name as one of the crossbar's, whose it is, and the engine's side.
Client = tuple[str, Engine, Any]
#: Clients of the crossbar that the memory window is, the last ones.
WINDOW_CLIENTS = ("window_read", "window_store")


def memory_clients(engines: Mapping[Engine, Any]) -> list[Client]:
    """Whatever ports to memory the engines have."""
    return [(f"{kind.name.lower()}_{name}", kind, getattr(component, name))
            for kind, component in engines.items()
            for name, member in component.signature.members.items()
            if member.is_signature and isinstance(member.signature, ReadPort | WritePort)]


def make_control(parameters: DieParameters, clients: Sequence[Client]) -> Control:
    """The control block of a die with these clients, after those of the scheduler."""
    return Control(parameters, [None, *(owner for _, owner, port in clients if _reads(port))],
                   [None, *(owner for _, owner, port in clients if not _reads(port))])


def make_crossbar(parameters: DieParameters, clients: Sequence[Client]) -> MemoryCrossbar:
    """The crossbar of a die with these clients, between those of the scheduler and the memory window."""
    last_reader, last_writer = ((name,) for name in WINDOW_CLIENTS) if parameters.has_window else ((), ())
    return MemoryCrossbar(parameters, ["fetch", *(name for name, _, port in clients if _reads(port)), *last_reader],
                          ["record", *(name for name, _, port in clients if not _reads(port)), *last_writer])


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
    link_out_0 ..., link_in_0 ... : Out, In(LinkSignature); with a link layer of WiresSignature
        Links to other dies.
    irq : Out(1)
        Done or error.
    busy, done, error : Out(1)
        As in STATUS.
    """

    def __init__(self, parameters: DieParameters):
        self.parameters = parameters
        link = WiresSignature(parameters, parameters.link_phits) if parameters.link_phits else LinkSignature(parameters)
        super().__init__({
            "axil": In(AXI4LiteSignature()),
            **{f"axi_{port}": Out(axi_signature(parameters)) for port in range(parameters.axi_ports)},
            **{f"link_out_{port}": Out(link) for port in range(parameters.ports)},
            **{f"link_in_{port}": In(link) for port in range(parameters.ports)},
            **{name: Out(1) for name in STATUS_PINS},
        })

    def elaborate(self, platform: object) -> Module:
        m = Module()
        parameters = self.parameters
        engines: dict[Engine, Any] = {kind: make_engine(kind, parameters) for kind in engine_order(parameters)}
        clients = memory_clients(engines)
        control, crossbar = make_control(parameters, clients), make_crossbar(parameters, clients)
        emit.part(m, platform, control, "control")
        emit.part(m, platform, crossbar, "crossbar", reset=control.flush)

        connect(m, control.fetch_memory, crossbar.fetch)
        connect(m, control.record_memory, crossbar.record)
        for name in WINDOW_CLIENTS if parameters.has_window else ():
            connect(m, getattr(control, name), getattr(crossbar, name))
        for name, _, port in clients:
            connect(m, port, getattr(crossbar, name))
        for position, (kind, component) in enumerate(engines.items()):
            emit.part(m, platform, component, kind.name.lower(), reset=control.reset)
            connect(m, component.engine, getattr(control, f"engine_{position}"))
        slice_channels(m, "axil", self.axil, control.axil, SLICED_FIELDS)
        self._memory(m, platform, crossbar)
        m.d.comb += [
            *(getattr(self, name).eq(getattr(control, name)) for name in STATUS_PINS),
            crossbar.limit.eq(control.limit), crossbar.drain.eq(control.drain), control.drained.eq(crossbar.drained),
            control.read_fault.eq(crossbar.read_fault), control.write_fault.eq(crossbar.write_fault),
            control.read_failed.eq(crossbar.read_failed), control.write_failed.eq(crossbar.write_failed),
            control.words_read.eq(crossbar.words_read), control.words_written.eq(crossbar.words_written),
        ]
        m.d.comb += control.verilog_digest.eq(emit.text_digest(m, platform))
        if isinstance(parameters.multiply_format, Fixed):
            self._ends(m, control, engines.get(Engine.MATRIX), [
                engine.ends for kind, engine in engines.items() if kind is not Engine.MATRIX])
        if parameters.ports:
            self._network(m, platform, control, engines.get(Engine.COLLECTIVE), engines.get(Engine.TRANSFER))
        else:
            self._alone(m, control)
        return m

    def _memory(self, m: Module, platform: object, crossbar: MemoryCrossbar) -> None:
        """What is behind the crossbar: AXI4 ports, block RAM, or both by address."""
        parameters = self.parameters
        beats = parameters.block_ram_words // parameters.beat_words
        memory: Any = None
        if beats:
            memory = BlockMemory(parameters, beats)
            emit.part(m, platform, memory, "block_ram")
        if parameters.axi_ports:
            m.submodules.axi = axi = AXIAdaptor(parameters)
            for port in range(parameters.axi_ports):
                connect_pins(m, f"axi_{port}", getattr(axi, f"axi_{port}"), getattr(self, f"axi_{port}"))
            if memory is None:
                memory, idle = axi, crossbar.read_idle
            else:
                m.submodules.split = split = AddressSplit(parameters, beats)
                for part, way in ((memory, "low"), (axi, "high")):
                    connect(m, getattr(split, f"{way}_read"), part.read)
                    connect(m, getattr(split, f"{way}_write"), part.write)
                m.d.comb += [getattr(split, f"high_{name}").eq(getattr(axi, name)) for name in MEMORY_FAULTS]
                memory, idle = split, split.high_read_idle
            m.d.comb += [
                axi.read_idle.eq(idle), *(getattr(crossbar, name).eq(getattr(memory, name)) for name in MEMORY_FAULTS),
                crossbar.read_stray.eq(axi.read_stray), crossbar.write_stray.eq(axi.write_stray),
            ]
        connect(m, crossbar.memory_read, memory.read)
        connect(m, crossbar.memory_write, memory.write)

    def _ends(self, m: Module, control: Control, matrix: Any, results: list[Value]) -> None:
        """What of fixed-point numbers comes to an end of its format."""
        if matrix is not None:
            m.submodules.ends = ends = SumsAtEnds(self.parameters)
            beats = matrix.store_memory.data
            m.d.comb += [ends.valid.eq(beats.valid & beats.ready), ends.data.eq(beats.payload.data),
                         ends.strobe.eq(beats.payload.strobe), control.sums_at_ends.eq(ends.count)]
        m.d.comb += control.results_beyond.eq(sum(results))

    def _alone(self, m: Module, control: Control) -> None:
        """Of a die without a network advances of its own counters come back; those of another's have no route."""
        sent, own = control.advance_out, Signal(name="own_advance")
        m.d.comb += [
            own.eq(sent.payload.die == control.die),
            control.advance_in.valid.eq(sent.valid & own), control.advance_in.payload.eq(sent.payload.counter),
            sent.ready.eq(~own | control.advance_in.ready),
            control.lost.valid.eq(sent.valid & ~own), control.lost.die.eq(sent.payload.die),
        ]

    def _network(self, m: Module, platform: object, control: Control, collective: CollectiveEngine | None,
                 transfer: TransferEngine | None) -> None:
        """Router, network interface, and what uses them."""
        parameters = self.parameters
        router = Router(parameters)
        emit.part(m, platform, router, "router", reset=control.reset)
        if collective is not None:
            m.d.comb += collective.dies.eq(control.dies)
        interface = NetworkInterface(parameters)
        emit.part(m, platform, interface, "interface", reset=control.reset)
        for port in range(parameters.ports):
            if parameters.link_phits:
                self._link(m, port, router, control)
            else:
                self._wires(m, port, router, control.apart)
        connect(m, interface.inject, router.inject)
        for number in range(parameters.classes):
            connect(m, getattr(router, f"eject_{number}"), getattr(interface, f"eject_{number}"))
        for name in ("advance_out", "advance_in", "error_in"):
            connect(m, getattr(control, name), getattr(interface, name))
        for number in range(parameters.classes - 1):
            receive = getattr(interface, f"receive_{number}")
            if number < parameters.reduce_blocks and collective is not None:
                connect(m, receive, getattr(collective, f"receive_{number}"))
                connect(m, getattr(collective, f"send_{number}"), getattr(interface, f"send_{number}"))
            elif number + 1 == parameters.transfer_class and transfer is not None:
                connect(m, receive, transfer.receive)
                connect(m, transfer.send, getattr(interface, f"send_{number}"))
                connect(m, transfer.tile_advance, interface.tile_advance)
                m.d.comb += [transfer.die.eq(control.die), transfer.dies.eq(control.dies),
                             transfer.limit.eq(control.limit), control.receive_fault.eq(transfer.fault)]
            else:
                m.d.comb += receive.ready.eq(1)
        m.d.comb += [
            interface.error_out.eq(control.error_out), interface.error_source.eq(control.error_source),
            interface.die.eq(control.die), router.die.eq(control.die),
            router.rates.eq(control.rates),
            *self._route_writes(router, control, collective), control.lost.eq(router.lost),
            control.injected_words.eq(router.injected_words),
            control.transit_words.eq(router.transit_words), control.port_words.eq(router.port_words),
        ]

    def _route_writes(self, router: Router, control: Control, collective: CollectiveEngine | None) -> list[Any]:
        """Statements by which routes are written: by the host, and of dies that set routes by tasks."""
        host, write = control.route_write, router.route_write
        if not self.parameters.sets_routes or collective is None:
            return [write.eq(host)]
        return [
            *(write[name].eq(Mux(host.valid, host[name], collective.route_write[name]))
              for name in ("destination", "port")), write.clears.eq(host.clears),
            write.traffic.eq(Mux(host.valid, ~0, collective.route_write.traffic)),
            write.valid.eq(host.valid | collective.route_write.valid), collective.quiet.eq(router.quiet),
        ]

    def _link(self, m: Module, port: int, router: Router, control: Control) -> None:
        """A port of the router by a link layer to pins; it begins anew while the die is apart.

        From the link's loss to then, or from an error while it is not up, nothing passes: what the router sends is
        thrown away, so that what goes elsewhere, ERROR packets first of all, does not wait behind it."""
        m.submodules[f"link_{port}"] = link = LinkLayer(self.parameters, self.parameters.link_phits)
        out, into = (getattr(router, f"link_{way}_{port}") for way in ("out", "in"))
        gone, loses = Signal(name=f"link_gone_{port}"), Signal(name=f"link_loses_{port}")
        taken = Signal(name=f"link_taken_{port}")
        m.d.sync += taken.eq(link.i.valid & link.i.ready)
        with m.If(control.apart):
            m.d.sync += gone.eq(0)
        with m.Elif(loses | (control.halted & ~link.up)):
            m.d.sync += gone.eq(1)
        connect(m, link.wires_out, flipped(getattr(self, f"link_out_{port}")))
        connect(m, link.wires_in, flipped(getattr(self, f"link_in_{port}")))
        m.d.comb += [
            link.restart.eq(control.apart), router.paused[port].eq(~link.room & ~gone), router.drops[port].eq(gone),
            link.i.valid.eq(out.valid & ~gone), link.i.payload.eq(out.flit), out.credit.eq(link.credit),
            into.valid.eq(link.o.valid & ~gone), into.flit.eq(link.o.flit), link.freed.eq(Mux(gone, 0, into.credit)),
            # The flit that the link takes as it goes down is lost, too, and those on their way from the router.
            loses.eq(~gone & ~control.apart & (link.lost | (taken & ~link.up) | (link.i.valid & ~link.i.ready))),
            control.links_up[port].eq(link.up & ~gone), control.links_lost[port].eq(loses),
            control.bad_frames[port].eq(link.bad_frames), control.replays[port].eq(link.replays),
        ]

    def _wires(self, m: Module, port: int, router: Router, apart: Value) -> None:
        """A port of the router to pins: nothing comes in while the die is apart."""
        pins_out, pins_in = (getattr(self, f"link_{way}_{port}") for way in ("out", "in"))
        out, into = (getattr(router, f"link_{way}_{port}") for way in ("out", "in"))
        m.d.comb += [
            pins_out.valid.eq(out.valid), pins_out.flit.eq(out.flit), pins_in.credit.eq(into.credit),
            into.valid.eq(pins_in.valid & ~apart), into.flit.eq(pins_in.flit),
            out.credit.eq(Mux(apart, 0, pins_out.credit)),
        ]


def _reads(port: Any) -> bool:
    return isinstance(port.signature, ReadPort)
