"""Groups of nodes that stand for one thing, as exporters write what is no operator of ONNX or was none.

A group that does what an operator does that is read is read as that, at its last node. Others are refused as what they
are in the field's terms, once, at the last node; the other nodes of a group are not reported.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx

from plinth.network.layers import TANH
from plinth.network.onnx.functions import ARITHMETIC, gelu_form
from plinth.network.onnx.proto import OnnxNode
from plinth.network.onnx.terms import EXACT_GELU, OPEN_GELU, OTHER_GELU, TERMS

#: Operators that make the initial state of a recurrent layer from the size of the batch, or move its time axis.
_STATE = frozenset({"Cast", "Concat", "Constant", "ConstantOfShape", "Expand", "Gather", "Identity", "Mul", "Reshape",
                    "Shape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
#: Nodes between which the longest group is looked for.
_REACH = 8
#: Tensors that may be what an activation's argument is computed of.
_SOURCES = 16


@dataclass(frozen=True)
class Pattern:
    """A group of nodes."""

    #: What is reported of the last one, and where its first input comes from.
    problem: str
    last: OnnxNode
    source: str
    members: tuple[OnnxNode, ...] = field(repr=False, default=())
    #: The node that does the same and is read in their place.
    stands_for: OnnxNode | None = field(repr=False, default=None)


class Patterns:
    """The groups of a graph.

    Parameters
    ----------
    nodes : sequence of Node
        Nodes that are read, each behind those that feed it.
    constants : mapping
        Tensors that the file holds, by name.
    ends : collection of str
        Outputs of the graph.
    """

    def __init__(self, nodes: Sequence[OnnxNode], constants: Mapping[str, Any], ends: Collection[str]) -> None:
        self._constants, self._ends = constants, ends
        self._maker = {name: node for node in nodes for name in node.proto.output if name}
        self._place = {node.key: place for place, node in enumerate(nodes)}
        self._readers: dict[str, list[OnnxNode]] = {}
        for node in nodes:
            for name in node.inputs:
                self._readers.setdefault(name, []).append(node)
        #: Groups by the name of their last node's output, and the outputs of nodes that belong to one.
        self.at: dict[str, Pattern] = {}
        self.inside: set[str] = set()
        for node in nodes:
            for match in (self._gated, self._gelu, self._layer_norm, self._group_norm, self._attention,
                          self._recurrent):
                pattern = match(node)
                if pattern is not None and pattern.last.key not in self.at:
                    self.at[pattern.last.key] = pattern
                    self.inside |= {member.key for member in pattern.members if member is not pattern.last}
        self.inside -= set(self.at)

    def _inputs(self, node: OnnxNode) -> list[str]:
        """Inputs that are no constants."""
        return [name for name in node.inputs if name and not self._held(name)]

    def _held(self, name: str) -> bool:
        return name in self._constants or (name in self._maker and self._maker[name].operator == "Constant")

    def _before(self, name: str) -> OnnxNode | None:
        return self._maker.get(name)

    def _behind(self, node: OnnxNode) -> OnnxNode | None:
        """The one node that reads a node's output, if there is one."""
        readers = self._readers.get(node.key, [])
        return readers[0] if len(readers) == 1 else None

    def _chain(self, node: OnnxNode, operators: Sequence[str], most: int = _REACH) -> Iterator[OnnxNode]:
        """Nodes one behind the other that alone read the node before them, as long as they are of some operators."""
        behind = self._behind(node)
        while behind is not None and behind.operator in operators and most > 0:
            yield behind
            most -= 1
            behind = self._behind(behind)

    def _gated(self, node: OnnxNode) -> Pattern | None:
        """x * sigmoid(x), x * tanh(softplus(x)), x * sigmoid(y)."""
        inputs = self._inputs(node)
        if node.operator != "Mul" or len(inputs) != 2:
            return None
        for gate, source in (inputs, inputs[::-1]):
            maker = self._before(gate)
            if maker is None or maker.operator not in ("Sigmoid", "HardSigmoid", "Tanh"):
                continue
            if maker.inputs[:1] == [source]:
                title = {"Sigmoid": "SiLU (swish), x * sigmoid(x)", "HardSigmoid": "hard swish, x * hard_sigmoid(x)",
                         "Tanh": "x * tanh(x)"}[maker.operator]
                return Pattern(_activation(title), node, source, (maker, node))
            inner = self._before(maker.inputs[0]) if maker.inputs else None
            if maker.operator == "Tanh" and inner is not None and inner.operator == "Softplus" and inner.inputs == [
                    source]:
                return Pattern(_activation("Mish, x * tanh(softplus(x))"), node, source, (inner, maker, node))
            if maker.operator != "Tanh":
                return Pattern("multiplies by a gate, x * sigmoid(y), as squeeze-and-excitation and gated units do, "
                               "which no layer does; leave the gate out of the model", node, source, (node,))
        return None

    def _gelu(self, node: OnnxNode) -> Pattern | None:
        """GELU by its error function, or by a tanh of a cubic."""
        source, members = self._argument(node) if node.operator in ("Erf", "Tanh") else ("", [])
        if not members:
            return None
        members.append(node)
        form = None
        for behind in self._chain(node, ("Add", "Mul"), 3):
            halves = [self._before(name) for name in behind.inputs]
            halved = [half for half in halves if half is not None and half.operator == "Mul" and source in half.inputs]
            others = [name for name in self._inputs(behind) if name not in {member.key for member in members}]
            if any(name != source and name not in {half.key for half in halved} for name in others):
                break
            members += [member for member in (*halved, behind) if member not in members]
            form = gelu_form(sorted(members, key=lambda member: self._place[member.key]), source, self._tensor)
            if form is not None:
                break
        last = members[-1]
        if last is node:
            return None
        if form != TANH:
            return Pattern(EXACT_GELU if form else OTHER_GELU, last, source, tuple(members))
        inside = {member.key for member in members}
        read = {reader.key for member in members[:-1] for reader in self._readers.get(member.key, [])}
        if not read <= inside or not inside.isdisjoint({*self._ends} - {last.key}):
            return Pattern(OPEN_GELU, last, source, tuple(members))
        proto = onnx.helper.make_node("Gelu", [source], [last.key], name=last.name, approximate=TANH)
        return Pattern("", last, source, tuple(members), OnnxNode(last.where, proto, 0))

    def _tensor(self, name: str) -> Any:
        """A tensor that the file holds, as an initializer or a Constant; None: it holds none of that name."""
        maker = self._maker.get(name)
        values = [] if maker is None else [
            attribute.t for attribute in maker.proto.attribute if attribute.name == "value"]
        return self._constants.get(name, values[0] if values else None)

    def _argument(self, node: OnnxNode) -> tuple[str, list[OnnxNode]]:
        """The nearest tensor of which alone the input of a node is computed, for a tanh by a power of it; the nodes
        between."""
        names = self._inputs(node)
        for name in names:
            between = self._between(name, node)
            powers = [power for power in between if power.operator == "Pow" or (
                power.operator == "Mul" and len(self._inputs(power)) == 2)]
            if powers or (between and node.operator == "Erf"):
                return name, between
            maker = self._before(name)
            if maker is not None and maker.operator in ARITHMETIC and len(names) < _SOURCES:
                names += self._inputs(maker)
        return "", []

    def _between(self, source: str, node: OnnxNode) -> list[OnnxNode]:
        """Nodes that compute a node's inputs of constants and a source; none if others are needed."""
        makers: list[OnnxNode] = []
        frontier = self._inputs(node)
        while frontier:
            name = frontier.pop(0)
            maker = self._before(name)
            if name == source or maker in makers:
                continue
            if maker is None or maker.operator not in ARITHMETIC or len(makers) == _REACH:
                return []
            makers.append(maker)
            frontier += self._inputs(maker)
        return makers

    def _layer_norm(self, node: OnnxNode) -> Pattern | None:
        """(x - mean) / sqrt(mean((x - mean)^2) + epsilon), then perhaps a scale and a shift."""
        if node.operator != "Sqrt":
            return None
        members = [node]
        for wanted in (("Add",), ("ReduceMean",), ("Pow", "Mul"), ("Sub",)):
            maker = next((maker for name in self._inputs(members[-1])
                          if (maker := self._before(name)) is not None and maker.operator in wanted), None)
            if maker is None:
                return None
            members.append(maker)
        centred = members[-1]
        if len(centred.inputs) != 2:
            return None
        source = centred.inputs[0]
        mean = self._before(centred.inputs[-1])
        divided = self._behind(node)
        if divided is None or divided.operator != "Div":
            return None
        tail = [divided]
        for behind in self._chain(divided, ("Mul", "Add"), 2):
            if len(self._inputs(behind)) != 1:
                break
            tail.append(behind)
        problem = f"is layer normalisation, which no layer does; {TERMS['LayerNormalization'][1]}"
        return Pattern(problem, tail[-1], source, (*members, *([mean] if mean is not None else []), *tail))

    def _group_norm(self, node: OnnxNode) -> Pattern | None:
        """Normalisation of groups, which exporters write as that of instances between two Reshapes, with its scale."""
        if node.operator != "InstanceNormalization" or not node.inputs:
            return None
        before = self._before(node.inputs[0])
        members = [before] if before is not None and before.operator == "Reshape" else []
        source = before.inputs[0] if before is not None and members and before.inputs else node.inputs[0]
        tail = []
        for behind in self._chain(node, ("Reshape", "Mul", "Add"), 3):
            if len(self._inputs(behind)) - (behind.operator == "Reshape" and len(self._inputs(behind)) > 1) != 1:
                break
            tail.append(behind)
        if not members or not tail:
            return None
        problem = f"is group normalisation, which no layer does; {TERMS['GroupNormalization'][1]}"
        return Pattern(problem, tail[-1], source, (*members, node, *tail))

    def _attention(self, node: OnnxNode) -> Pattern | None:
        """softmax(q k^T) v."""
        if node.operator != "Softmax" or not node.inputs:
            return None
        members = [node]
        before = self._before(node.inputs[0])
        while before is not None and before.operator in ("Mul", "Div", "Add", "Where") and len(members) < 4:
            members.append(before)
            before = next((maker for name in self._inputs(before) if (maker := self._before(name)) is not None and
                           maker.operator in ("MatMul", "Mul", "Div", "Add")), None)
        if before is None or before.operator != "MatMul" or len(self._inputs(before)) != 2:
            return None
        members.append(before)
        tail = list(self._chain(node, ("Dropout", "Identity", "Cast", "IsNaN", "Where"), 3))
        last = self._behind(tail[-1] if tail else node)
        if last is None or last.operator != "MatMul":
            readers = self._readers.get(node.key, [])
            last = next((reader for reader in readers if reader.operator == "MatMul"), None)
        if last is None:
            return None
        return Pattern("is attention, softmax(q k) v, products of two activations, which no layer does; use "
                       "convolutions or dense layers in its place", last, "", (*members, *tail, last))

    def _recurrent(self, node: OnnxNode) -> Pattern | None:
        """A recurrent layer with what makes its initial state and moves its time axis."""
        if node.operator not in ("LSTM", "GRU", "RNN"):
            return None
        members = [node]
        keys = {node.key}
        names = list(node.inputs[4:])
        names += [name for name in node.inputs[:1] if (maker := self._before(name)) is not None
                  and maker.operator in ("Transpose", "Identity")]
        while names:
            maker = self._before(names.pop())
            if maker is None or maker.key in keys or maker.operator not in _STATE or not all(
                    reader.key in keys for reader in self._readers.get(maker.key, [])):
                continue
            members.append(maker)
            keys.add(maker.key)
            if maker.operator not in ("Transpose", "Shape"):
                names += maker.inputs
        term, remedy = TERMS[node.operator]
        return Pattern(f"{term}, which no layer does; {remedy}", node, "", tuple(members))


def _activation(title: str) -> str:
    return f"is the activation {title}, which no layer does; {TERMS['Elu'][1]}"
