"""Which bits of a netlist never change: constants, and what they lead to through gates, multiplexers and registers."""

from collections import deque
from itertools import product

from amaranth.hdl import _nir as nir

#: What a net may be: nothing that is known yet, always 0, always 1, either.
UNKNOWN, ZERO, ONE, EITHER = range(4)
_GATES = {"&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b}


def _choices(net: int) -> list[int]:
    return [bit for bit in (0, 1) if net >> bit & 1]


def _sum(a: list[int], b: list[int]) -> list[int]:
    """Of each bit of a sum, by bits and carries."""
    result, carry = [], ZERO
    for pair in zip(a, b, strict=True):
        sums = [sum(bits) for bits in product(*map(_choices, (*pair, carry)))]
        result.append(sum(1 << bit for bit in {value & 1 for value in sums}))
        carry = sum(1 << bit for bit in {value >> 1 for value in sums})
    return result


class ConstantBits:
    """The bits of a netlist, each taken to be constant until something shows that it is not.

    Conditions are taken to hold and not to hold, memories, instances and inputs to give anything.
    """

    def __init__(self, netlist: nir.Netlist) -> None:
        self._cells = netlist.cells
        self._found: list[list[int]] = [[] for _ in self._cells]
        users: list[list[int]] = [[] for _ in self._cells]
        for index, cell in enumerate(self._cells[1:], 1):
            for source in {net >> 16 for net in cell.input_nets() if net > 1}:
                users[source].append(index)
        ahead = deque(range(1, len(self._cells)))
        waiting = set(ahead)
        while ahead:
            index = ahead.popleft()
            waiting.discard(index)
            now = self._evaluated(index)
            if now != self._found[index]:
                self._found[index] = now
                new = [user for user in users[index] if user not in waiting]
                ahead += new
                waiting.update(new)

    def __getitem__(self, net: nir.Net) -> int:
        """What a net may be."""
        if net < 2:
            return 1 << net
        if net >> 16 == 0:
            return EITHER
        found = self._found[net >> 16]
        return found[net & 0xFFFF] if found else UNKNOWN

    def _evaluated(self, index: int) -> list[int]:
        cell = self._cells[index]
        if isinstance(cell, nir.AssignmentList):
            result = [self[net] for net in cell.default]
            for assignment in cell.assignments:
                for place, net in enumerate(assignment.value, assignment.start):
                    if place < len(result):
                        result[place] |= self[net]
            return result
        if isinstance(cell, nir.FlipFlop):
            return [1 << (cell.init >> place & 1) | self[net] for place, net in enumerate(cell.data)]
        if isinstance(cell, nir.Part):
            beyond = self[cell.value[-1]] if cell.value_signed else ZERO
            places = range(0, cell.stride << len(cell.offset), cell.stride)
            result = [UNKNOWN] * cell.width
            for bit in range(cell.width):
                for place in places:
                    result[bit] |= self[cell.value[place + bit]] if place + bit < len(cell.value) else beyond
                    if place >= len(cell.value):
                        break
            return result
        if isinstance(cell, nir.Operator):
            inputs = [[self[net] for net in value] for value in cell.inputs]
            if cell.operator in _GATES:
                gate = _GATES[cell.operator]
                return [sum(1 << bit for bit in {gate(a, b) for a, b in product(*map(_choices, pair))})
                        for pair in zip(*inputs, strict=True)]
            if cell.operator == "~":
                return [net >> 1 | (net & 1) << 1 for net in inputs[0]]
            if cell.operator == "m":
                return [a | b for a, b in zip(*inputs[1:], strict=True)]
            if cell.operator == "+":
                return _sum(*inputs)
        return [EITHER] * (1 + max((net & 0xFFFF for net in cell.output_nets(index)), default=-1))
