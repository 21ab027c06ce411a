"""How the dies of an array are joined, as their registers hold it: output ports and rates of links."""

from collections.abc import Sequence

from plinth.array.array import Array, ring
from plinth.array.routes import Link, routes
from plinth.driver.program import Program
from plinth.errors import UserError
from plinth_hw.isa.limits import rate_word
from plinth_hw.isa.registers import LINK_RATES, ROUTES, Register

#: The array whose links, routes and rates the dies have; or links, with routes that follow from them and one rate.
Wiring = Array | Sequence[Link]


def wiring_registers(wiring: Wiring | None, program: Program) -> list[list[tuple[int, int]]]:
    """For each die addresses and values of LINK_RATE, of LINK_RATES where links differ from it, and of its routes; of
    dies without a network none. Default: a ring, as :func:`plinth.array.array.ring`.

    Raises
    ------
    UserError
        If a link names a die or a port that there is not, a die cannot be reached, a rate does not fit its register, or
        a link has a rate of its own and dies have one for all.
    """
    die, dies = program.parameters, range(program.dies)
    common = [(int(Register.LINK_RATE), rate_word(die.link_rate))] if die.ports else []
    registers = [list(common) for _ in dies]
    if isinstance(wiring, Array):
        for (number, port), words in wiring.port_rates.items():
            rate = words / die.flit_words
            if rate != die.link_rate:
                if not die.has_port_rates:
                    raise ValueError(f"port_rates of preset {die.name!r} must be set where link {port} of die {number} "
                                     f"carries {words} words a cycle and others do not")
                registers[number].append((LINK_RATES + 4 * port, rate_word(rate)))
    for number, row in enumerate(_table(wiring, program)):
        registers[number] += [(ROUTES + 4 * other, port) for other, port in enumerate(row) if port is not None]
    return registers


def _table(wiring: Wiring | None, program: Program) -> Sequence[Sequence[int | None]]:
    """Output port of each die towards each other."""
    joined = ring(program.dies).directed() if wiring is None else wiring
    links = joined.directed() if isinstance(joined, Array) else joined

    most = program.parameters.ports
    for link in links:
        for die, port in (link[:2], link[2:4]):
            if not 0 <= die < program.dies:
                raise UserError(f"link {tuple(link)} names die {die}, but the array has dies 0 to {program.dies - 1}; "
                                "correct the links")
            if not 0 <= port < most:
                raise UserError(f"link {tuple(link)} uses port {port} of die {die}, but its router has ports 0 to "
                                f"{most - 1}; correct the links, or choose dies of more ports")
    if isinstance(wiring, Array):
        return wiring.route_table
    try:
        return routes(links, program.dies)
    except ValueError as error:
        raise UserError(f"{error}; join all dies by links") from None
