"""Reading an ONNX file: the nodes that reach its output, each behind those that feed it, one after the other."""

import heapq
import re
from pathlib import Path

from plinth.errors import UserError, about, one_line, quoted
from plinth.files.documents import nearest, read_file
from plinth.network.layers import KINDS, Layer, SoftmaxCrossEntropy
from plinth.network.network import Network
from plinth.network.onnx.graph import OnnxGraph, UnknownError
from plinth.network.onnx.layout import Value
from plinth.network.onnx.operators import OPERATORS
from plinth.network.onnx.patterns import Pattern, Patterns
from plinth.network.onnx.proto import MAXIMUM_BYTES, OnnxNode, fixed, parse
from plinth.network.onnx.terms import SAME_DIMENSIONS, described

#: Losses by their names in files.
LOSSES = tuple(kind for kind, layer_class in KINDS.items() if layer_class.is_loss)
#: Most faults of a file that are listed.
MAXIMUM_FAULTS = 20
#: Most nodes that a note names.
_NAMED = 3
#: Operators that give what is as large as their inputs, whether or not they are read.
_ELEMENTWISE = SAME_DIMENSIONS | {"Add", "Sub", "Mul", "Div", "Relu", "LeakyRelu", "Clip", "Gelu", "Tanh",
                                  "Sigmoid"}


def _sorted(graph: OnnxGraph) -> tuple[list[OnnxNode], int]:
    """The nodes that reach an output, each behind those that feed it, and how many do not.

    Raises
    ------
    UserError
        If a tensor is defined twice or the graph has a cycle.
    """
    nodes = [OnnxNode(graph.where, proto, number) for number, proto in enumerate(graph.proto.node, start=1)]
    makers: dict[str, int] = {}
    for place, node in enumerate(nodes):
        for name in filter(None, node.proto.output):
            if name in makers or name in graph.constants or name in graph.values:
                raise node.error(f"its output {quoted(name)} is defined twice; mend the file")
            makers[name] = place
    before = [{makers[name] for name in node.inputs if name in makers} for node in nodes]
    reached: set[int] = set()
    frontier = [makers[value.name] for value in graph.proto.output if value.name in makers]
    while frontier:
        place = frontier.pop()
        if place not in reached:
            reached.add(place)
            frontier += before[place]
    missing = {place: len(before[place]) for place in reached}
    readers: dict[int, list[int]] = {place: [] for place in reached}
    for place in reached:
        for maker in before[place]:
            readers[maker].append(place)
    ready = [place for place, count in missing.items() if count == 0]
    heapq.heapify(ready)
    ordered = []
    while ready:
        place = heapq.heappop(ready)
        ordered.append(nodes[place])
        for reader in readers[place]:
            missing[reader] -= 1
            if missing[reader] == 0:
                heapq.heappush(ready, reader)
    if len(ordered) < len(reached):
        stuck = nodes[min(place for place, count in missing.items() if count)]
        raise stuck.error("lies on a cycle or behind one; a network has no cycles")
    return ordered, len(nodes) - len(reached)


def _read(graph: OnnxGraph, node: OnnxNode) -> None:
    """Make of one node what it stands for.

    Raises
    ------
    UserError
        If that is not supported.
    UnknownError
        If it is not known, since a node before it is refused.
    """
    operator = OPERATORS.get(node.operator)
    if operator is None:
        raise node.error(described(node.operator))
    low, high = operator.inputs
    if not low <= len(node.inputs) <= high or not all(node.inputs[:low]):
        raise node.error(f"has {len(node.inputs)} inputs; {low} to {high} are supported")
    node.read_attributes(operator.attributes)
    sizes = [graph.sizes[name] for name in node.inputs if name in graph.sizes]
    if operator.fold is not None and not graph.unknown.isdisjoint(node.inputs) and not any(
            name in graph.values or name in graph.activations for name in node.inputs):
        raise UnknownError
    if operator.fold is not None and 0 < len(sizes) == len(node.inputs):
        graph.sizes[node.output] = operator.fold(node, sizes)
    elif operator.read is not None:
        operator.read(graph, node)
    else:
        raise node.error(described(node.operator))


def _read_ends(graph: OnnxGraph) -> list[UserError]:
    """Define the graph's input; what is wrong with it and with the number of outputs."""
    faults = []
    try:
        graph.read_input()
    except UserError as error:
        faults.append(error)
        graph.hide_inputs()
    if len(graph.proto.output) > 1:
        faults.append(graph.error(f"has {len(graph.proto.output)} outputs; networks with one are supported: export the "
                                  "one that is trained"))
    return faults


def _read_all(graph: OnnxGraph, nodes: list[OnnxNode], faults: list[UserError]) -> None:
    """Make of all nodes what they stand for; ``faults`` are those of the graph.

    Raises
    ------
    UserError
        If some are not supported, with a note for each if there are several.
    """
    patterns = Patterns(nodes, {name: constant.tensor for name, constant in graph.constants.items()},
                        {value.name for value in graph.proto.output})
    for node in nodes:
        if node.key in patterns.inside:
            graph.hide(node)
            continue
        count = len(faults)
        known = True
        pattern = patterns.at.get(node.key)
        if pattern is not None and pattern.stands_for is not None:
            node, pattern = pattern.stands_for, None
        try:
            if pattern is not None:
                node.stand_in = graph.values.get(pattern.source)
                raise _refused(pattern)
            _read(graph, node)
        except UnknownError:
            known = False
        except UserError as error:
            faults.append(error)
        faults[count:count] = [node.error(problem) for problem in node.problems]
        if len(faults) > count or not known:
            if node.stand_in is None and node.operator in _ELEMENTWISE:
                node.stand_in = next((graph.values[name] for name in node.inputs if name in graph.values), None)
            graph.stand_in(node)
    if len(faults) == 1:
        raise faults[0]
    if faults:
        where = f"{one_line(graph.where)}: "
        lines = [str(fault).removeprefix(where) for fault in faults[:MAXIMUM_FAULTS]]
        if len(faults) > MAXIMUM_FAULTS:
            lines.append(f"and {len(faults) - MAXIMUM_FAULTS} more")
        raise UserError(f"{graph.where}: {len(faults)} faults, a line each", notes=lines)


def _refused(pattern: Pattern) -> UserError:
    """The error that a group of nodes is not supported."""
    members = pattern.members
    if len(members) < 2:
        return pattern.last.error(pattern.problem)
    operators = ", ".join(dict.fromkeys(member.operator[:64] for member in members))
    return UserError(f"{pattern.last.where}: {len(members)} nodes up to {quoted(pattern.last.name)} "
                     f"({operators[:120]}): {pattern.problem}")


def _check_stated(graph: OnnxGraph) -> None:
    """Compare the dimensions that the file states with those that follow."""
    for stated in (*graph.proto.value_info, *graph.proto.output):
        value = graph.values.get(stated.name)
        tensor = stated.type.tensor_type
        if value is None or not tensor.HasField("shape"):
            continue
        sizes = fixed(tensor.shape.dim)[1:]
        follows = list(value.dimensions)
        if len(sizes) != len(follows) or any(size not in (None, follow)
                                             for size, follow in zip(sizes, follows, strict=True)):
            raise graph.error(f"tensor {quoted(stated.name)} is stated as {sizes[:8]!s} behind the batch, but "
                              f"{follows} follows from layer {value.layer!r}; mend one of them")


def _end(graph: OnnxGraph, loss: str | None) -> Value:
    """What the graph's one output is, which the loss reads."""
    outputs = [value.name for value in graph.proto.output]
    if len(outputs) != 1 or outputs[0] not in graph.values:
        raise graph.error(f"has {len(outputs)} outputs that layers give; networks with one are supported")
    end = graph.values[outputs[0]]
    count = len(end.view)
    last = end.transposed((count - 1, *range(count - 1))) if count > 1 else None
    layout = end.spatial() is not None or (last is not None and last.spatial() is not None)
    if end.zeros or (end.view not in (tuple(end.shape), () if end.shape.elements == 1 else None) and not layout):
        raise graph.error(f"its output has dimensions {list(end.dimensions)} behind the batch, but layer {end.layer!r} "
                          f"gives {end.shape}; end in a layer's own dimensions")
    if end.softmax and loss not in (None, SoftmaxCrossEntropy.kind):
        raise graph.error(f"ends in Softmax, which loss {loss!r} cannot follow; export without it")
    return end


def _reaching(graph: OnnxGraph, end: str) -> list[Layer]:
    """The layers that reach the end; a layer of which only the shape is read does not."""
    wanted = {end}
    for layer in reversed(graph.layers.values()):
        if layer.name in wanted:
            wanted.update(layer.inputs)
    return [layer for layer in graph.layers.values() if layer.name in wanted]


#: What became of nodes that leave no layer, by operator.
_BECAME = {
    "BatchNormalization": "folded into the layers before, whose bias and weights take it up: nothing is normalised "
                          "while training",
    "Mul": "folded into the layers before: a scale of each channel is part of their weights",
    "Dropout": "left out: nothing is dropped while training",
    "Transpose": "left out: maps have one layout here",
    "Pad": "made the padding of convolutions",
}


def _notes(graph: OnnxGraph, ignored: int, shape: tuple[int, ...], end: Value) -> tuple[str, ...]:
    """What was made of the file that its reader may not expect."""
    notes = []
    for (operator, became), names in graph.left_out.items():
        shown = ", ".join(map(quoted, names[:_NAMED])) + (", ..." if len(names) > _NAMED else "")
        what = became or _BECAME.get(operator, "left out: nothing changes")
        notes.append(f"{len(names)} {operator} ({shown}) {what}")
    if ignored:
        notes.append(f"{ignored} node{'s' if ignored > 1 else ''} ignored that reach{'' if ignored > 1 else 'es'} no "
                     "output")
    if graph.input_view not in (shape, ()):
        notes.append(f"input of {list(graph.input_view)} read as {list(shape)}"
                     f"{' [channels, height, width]' if len(shape) > 1 else ''}, as which samples are given")
    if not end.ascending:
        notes.append("outputs are numbered row, column, channel here, which the file has in another order: number "
                     "classes, or order targets, so")
    return tuple(map(one_line, notes))


def read_onnx(path: Path, loss: str | None = None) -> Network:
    """A network from an ONNX file.

    Parameters
    ----------
    path : Path
        The file.
    loss : str or None
        One of :data:`LOSSES`; None: softmax-cross-entropy, whether or not the graph ends in a Softmax.

    Raises
    ------
    UserError
        If the file cannot be read, is damaged or too large, or holds what is not supported. Nodes are named; of several
        that are not supported, each has a line of its own in the error's ``notes``, up to :data:`MAXIMUM_FAULTS`.
    """
    where = str(path)
    if loss is not None and loss not in LOSSES:
        raise UserError(f"loss {loss!r} is unknown; {nearest(loss, LOSSES)}")
    graph = OnnxGraph(where, parse(read_file(path, MAXIMUM_BYTES), where))
    faults = _read_ends(graph)
    nodes, ignored = _sorted(graph)
    graph.count_readers(nodes)
    _read_all(graph, nodes, faults)
    _check_stated(graph)
    end = _end(graph, loss)
    final = KINDS[loss or SoftmaxCrossEntropy.kind](name=graph.free_name("loss"), inputs=(end.layer,))
    name = re.sub(r"[^A-Za-z0-9_.\-]+", "-", path.stem).strip("-_.")[:64]
    shape = graph.input_shape()
    with about(where, ValueError):
        return Network(name=name or "network", input=shape, layers=(*_reaching(graph, end.layer), final),
                       notes=_notes(graph, ignored, tuple(shape), end))
