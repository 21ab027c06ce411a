"""ONNX messages as they come: bytes to a model within limits, nodes, and small constants."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from plinth.errors import UserError, quoted
from plinth.files.forms import MAXIMUM_SIZE, is_integer

#: Largest file that is read, in bytes: VGG-E with its weights has 575 million.
MAXIMUM_BYTES = 640 << 20
#: Most nodes of a graph, and most initializers.
MAXIMUM_NODES = 8192
#: Oldest operator set.
OLDEST_OPSET = 13
#: Most elements of a constant whose values are read.
MAXIMUM_VALUES = 64

_TENSOR = onnx.TensorProto
#: Kinds of small constants: their form in bytes, and the field that holds them otherwise.
_FORMS = {_TENSOR.INT64: ("<i8", "int64_data"), _TENSOR.INT32: ("<i4", "int32_data"),
          _TENSOR.FLOAT: ("<f4", "float_data"), _TENSOR.DOUBLE: ("<f8", "double_data"),
          _TENSOR.BOOL: ("?", "int32_data")}
#: Kinds of small constants that hold sizes.
INTEGERS = (_TENSOR.INT64, _TENSOR.INT32)


class OnnxNode:
    """A node with its attributes, and errors that name it.

    Parameters
    ----------
    where : str
        The file, for messages.
    proto : onnx.NodeProto
        The node.
    number : int
        Its place in the file, which names it if nothing else does.
    """

    def __init__(self, where: str, proto: Any, number: int) -> None:
        self.where, self.proto = where, proto
        self.operator = f"{proto.domain}.{proto.op_type}" if proto.domain not in ("", "ai.onnx") else proto.op_type
        self.name = proto.name or f"{proto.op_type}{number}"
        self.inputs = list(proto.input)
        while self.inputs and not self.inputs[-1]:
            self.inputs.pop()
        self.attributes: dict[str, Any] = {}
        #: What is wrong with it, as far as it can be read on.
        self.problems: list[str] = []
        #: What it would give if it were supported, so that the nodes behind it can be checked.
        self.stand_in: Any = None

    def error(self, problem: str) -> UserError:
        """The error that this node cannot be read."""
        return UserError(f"{self.where}: node {quoted(self.name)} ({self.operator[:64]}): {problem}")

    @property
    def key(self) -> str:
        """Name of the first output; empty if it has none."""
        return str(self.proto.output[0]) if self.proto.output else ""

    @property
    def output(self) -> str:
        """Name of the first output (UserError if it has none)."""
        if not self.proto.output or not self.proto.output[0]:
            raise self.error("its output has no name; mend the file")
        return str(self.proto.output[0])

    def read_attributes(self, known: frozenset[str]) -> None:
        """Keep the attributes as plain values; refuse those that are not ``known``."""
        for attribute in self.proto.attribute:
            if attribute.name not in known:
                self.problems.append(f"attribute {quoted(attribute.name)} is not supported; export without it")
                continue
            if attribute.name in self.attributes:
                raise self.error(f"attribute {quoted(attribute.name)} is given twice; mend the file")
            kinds = onnx.AttributeProto
            values = {kinds.INT: "i", kinds.INTS: "ints", kinds.FLOAT: "f", kinds.STRING: "s", kinds.TENSOR: "t"}
            if attribute.type not in values:
                raise self.error(f"attribute {quoted(attribute.name)} has a type that is not supported")
            setting = getattr(attribute, values[attribute.type])
            self.attributes[attribute.name] = list(setting) if attribute.type == kinds.INTS else setting

    def integer(self, key: str, default: int) -> int:
        """An attribute that is an integer."""
        setting = self.attributes.get(key, default)
        if not isinstance(setting, int):
            raise self.error(f"{key} must be an integer, not {str(setting)[:60]}")
        return setting

    def integers(self, key: str, count: int, default: int) -> list[int]:
        """An attribute that is a list of ``count`` sizes."""
        sizes = self.attributes.get(key, [default] * count)
        if not isinstance(sizes, list) or len(sizes) != count or not all(is_integer(v, 0, MAXIMUM_SIZE) for v in sizes):
            raise self.error(f"{key} must be {count} integers from 0 to {MAXIMUM_SIZE}, not {str(sizes)[:60]}; mend "
                             "the file")
        return sizes

    def expect(self, key: str, wanted: Any, setting: Any, remedy: str) -> None:
        """Refuse a setting that is not the only supported one, and read on."""
        if setting != wanted:
            self.problems.append(f"{key} must be {wanted}, not {str(setting)[:60]}; {remedy}")


def small_values(tensor: Any) -> list[Any] | None:
    """Values of a constant of at most one dimension and :data:`MAXIMUM_VALUES` elements; None if they are not there."""
    form, field = _FORMS.get(tensor.data_type, (None, ""))
    if form is None or len(tensor.dims) > 1 or is_external(tensor):
        return None
    count = tensor.dims[0] if tensor.dims else 1
    if not 0 <= count <= MAXIMUM_VALUES:
        return None
    if tensor.HasField("raw_data"):
        whole = len(tensor.raw_data) == count * np.dtype(form).itemsize
        return list(np.frombuffer(tensor.raw_data, form).tolist()) if whole else None
    values = list(getattr(tensor, field))
    return values if len(values) == count else None


def is_uniform(tensor: Any) -> bool:
    """Whether a constant's values are in the file and all the same, as an initialiser sets biases and scales."""
    if is_external(tensor) or len(tensor.dims) != 1:
        return False
    count = tensor.dims[0]
    if tensor.HasField("raw_data"):
        content = tensor.raw_data
        width, rest = divmod(len(content), count) if count > 0 else (0, 0)
        return width > 0 and rest == 0 and content[width:] == content[:-width]
    values = tensor.float_data or tensor.double_data
    return 0 < count == len(values) and all(value == values[0] for value in values)


def is_external(tensor: Any) -> bool:
    """Whether its values lie in another file, which is never opened."""
    return bool(tensor.data_location == _TENSOR.EXTERNAL or tensor.external_data)


def _texts(graph: Any) -> Iterator[Any]:
    """Every name in a graph; protobuf gives bytes for one that is no UTF-8."""
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
    for named in (*graph.initializer, *graph.input, *graph.output, *graph.value_info):
        yield named.name


def parse(content: bytes, where: str) -> Any:
    """The graph of a model whose versions are known and which is within the limits.

    Raises
    ------
    UserError
        If the bytes are no whole ONNX file, or break a limit.
    """
    try:
        model = onnx.ModelProto.FromString(content)
    except (DecodeError, MemoryError, RecursionError) as error:
        raise UserError(f"{where}: not a whole ONNX file (truncated or damaged); export it again") from error
    if not model.HasField("graph") or not model.graph.node:
        raise UserError(f"{where}: holds no ONNX graph; export it again")
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    newest = onnx.defs.onnx_opset_version()
    if not OLDEST_OPSET <= opset <= newest:
        raise UserError(f"{where}: operator set {opset} is not supported; export with opset {OLDEST_OPSET} to {newest}")
    for what, count in (("nodes", len(model.graph.node)), ("initializers", len(model.graph.initializer))):
        if count > MAXIMUM_NODES:
            raise UserError(f"{where}: {count} {what}, more than {MAXIMUM_NODES}; the network is too large")
    if not all(isinstance(text, str) for text in _texts(model.graph)):
        raise UserError(f"{where}: a name is no UTF-8 text (damaged); export it again")
    if model.graph.sparse_initializer:
        raise UserError(f"{where}: sparse initializers are not supported; export dense weights")
    return model.graph


def fixed(dimensions: Any) -> list[int | None]:
    """Sizes of dimensions; None for a dynamic one."""
    return [dimension.dim_value if dimension.HasField("dim_value") else None for dimension in dimensions]
