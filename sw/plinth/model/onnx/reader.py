"""Reading an ONNX file: its nodes, each behind those that feed it, one after the other."""

import heapq
import re
from pathlib import Path

from plinth.errors import UserError, quoted
from plinth.model.files import nearest, read_file
from plinth.model.layers import KINDS, SoftmaxCrossEntropy
from plinth.model.network import Network
from plinth.model.onnx.graph import Graph
from plinth.model.onnx.operators import OPERATORS
from plinth.model.onnx.proto import MAXIMUM_BYTES, Node, fixed, parse

#: Losses by their names in files.
LOSSES = tuple(kind for kind, made in KINDS.items() if made.is_loss)


def _sorted(graph: Graph) -> list[Node]:
    """The nodes, each behind those that feed it.

    Raises
    ------
    UserError
        If a tensor is defined twice or the graph has a cycle.
    """
    nodes = [Node(graph.where, proto, number) for number, proto in enumerate(graph.proto.node, start=1)]
    makers: dict[str, int] = {}
    for place, node in enumerate(nodes):
        for name in filter(None, node.proto.output):
            if name in makers or name in graph.constants or name in graph.values:
                raise node.error(f"its output {quoted(name)} is defined twice; mend the file")
            makers[name] = place
    missing = [len({makers[name] for name in node.inputs if name in makers}) for node in nodes]
    readers: list[list[int]] = [[] for _ in nodes]
    for place, node in enumerate(nodes):
        for maker in {makers[name] for name in node.inputs if name in makers}:
            readers[maker].append(place)
    ready = [place for place, count in enumerate(missing) if count == 0]
    found = []
    while ready:
        place = heapq.heappop(ready)
        found.append(nodes[place])
        for reader in readers[place]:
            missing[reader] -= 1
            if missing[reader] == 0:
                heapq.heappush(ready, reader)
    if len(found) < len(nodes):
        stuck = next(node for place, node in enumerate(nodes) if missing[place])
        raise stuck.error("lies on a cycle or behind one; a network has no cycles")
    return found


def _read(graph: Graph, node: Node) -> None:
    """Make of one node what it stands for."""
    operator = OPERATORS.get(node.operator)
    if operator is None:
        raise node.error(f"operator is not supported; supported are {', '.join(OPERATORS)}")
    low, high = operator.inputs
    if not low <= len(node.inputs) <= high or not all(node.inputs[:low]):
        raise node.error(f"has {len(node.inputs)} inputs; {low} to {high} are supported")
    node.read_attributes(operator.attributes)
    sizes = [graph.sizes[name] for name in node.inputs if name in graph.sizes]
    if operator.fold is not None and 0 < len(sizes) == len(node.inputs):
        graph.sizes[node.output] = operator.fold(node, sizes)
    elif operator.read is not None:
        operator.read(graph, node)
    else:
        raise node.error("operator is supported only where it computes the sizes of a Reshape")


def _check_stated(graph: Graph) -> None:
    """Compare the dimensions that the file states with those that follow."""
    for stated in (*graph.proto.value_info, *graph.proto.output):
        value = graph.values.get(stated.name)
        tensor = stated.type.tensor_type
        if value is None or not tensor.HasField("shape"):
            continue
        sizes = fixed(tensor.shape.dim)[1:]
        follows = list(value.view)
        if len(sizes) != len(follows) or any(size not in (None, follow)
                                             for size, follow in zip(sizes, follows, strict=True)):
            raise graph.error(f"tensor {quoted(stated.name)} is stated as {sizes[:8]!s} behind the batch, but "
                              f"{follows} follows from layer {value.layer!r}; mend one of them")


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
        If the file cannot be read, is damaged or too large, or holds what is not supported; the node is named.
    """
    where = str(path)
    if loss is not None and loss not in LOSSES:
        raise UserError(f"loss {loss!r} is unknown; {nearest(loss, LOSSES)}")
    graph = Graph(where, parse(read_file(path, MAXIMUM_BYTES), where))
    shape = graph.read_input()
    for node in _sorted(graph):
        _read(graph, node)
    _check_stated(graph)
    outputs = [value.name for value in graph.proto.output]
    if len(outputs) != 1 or outputs[0] not in graph.values:
        raise graph.error(f"has {len(outputs)} outputs that layers give; networks with one are supported")
    end = graph.values[outputs[0]]
    if end.view not in (tuple(end.shape), () if end.shape.elements == 1 else None):
        raise graph.error(f"its output has dimensions {list(end.view)} behind the batch, but layer {end.layer!r} gives "
                          f"{end.shape}; end in a layer's own dimensions")
    if end.softmax and loss not in (None, SoftmaxCrossEntropy.kind):
        raise graph.error(f"ends in Softmax, which loss {loss!r} cannot follow; export without it")
    final = KINDS[loss or SoftmaxCrossEntropy.kind](name=graph.free_name("loss"), inputs=(end.layer,))
    name = re.sub(r"[^A-Za-z0-9_.\-]+", "-", path.stem).strip("-_.")[:64]
    try:
        return Network(name=name or "network", input=shape, layers=(*graph.layers.values(), final))
    except ValueError as error:
        raise UserError(f"{where}: {error}") from error
