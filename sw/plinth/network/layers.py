"""Kinds of layers: their settings, variables, and the shapes that follow.

A shape is per sample: ``(channels, height, width)`` of a map, or ``(features,)``. Activations lie in memory
with channels innermost, so `flatten` yields row, column, channel. Weights are row-major with the bias behind:
fully connected ``[inputs, outputs]``, convolution ``[kernel row, kernel column, channel in, channel out]``, or, where a
convolution trains Winograd tiles, ``[tile row, tile column, channel in, channel out]``.

Settings are declared once, as annotated dataclass fields: the annotation's form (:mod:`~plinth.files.forms`) checks
values, reads and writes files, and gives the schema.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields, replace
from math import prod
from typing import Annotated, Any, ClassVar, get_type_hints

from plinth.files.forms import (
    NAME_PATTERN,
    Choice,
    Flag,
    Fraction,
    Integer,
    Padding,
    Pair,
    SettingForm,
    Shares,
    described,
)
from plinth.network.shape import Shape
from plinth.network.sparse.pattern import PatternForm, SparsePattern
from plinth.network.variables import (
    INPUTS,
    NONZEROS,
    OUTPUTS,
    ConstantValue,
    Gradient,
    Normal,
    PatternValues,
    TilesOfNormal,
    Variable,
    bias,
    deviation,
    weights,
)
from plinth_hw.isa import winograd as tiles_of
from plinth_hw.isa.winograd import form

#: Largest number of elements of one map, or of one layer's weights.
MAXIMUM_ELEMENTS = 1 << 36
#: Largest number of rows of an embedding.
MAXIMUM_ROWS = 1 << 31
#: Settings of convolutions: no Winograd tiles, or those that suit; the kernel itself is trained.
OFF, AUTO, SPATIAL = "off", "auto", "spatial"
#: Bias that layers by large Winograd tiles begin with: far beyond the roundings of such a sum, and of the side that a
#: ReLU takes of an exact 0.
TILE_BIAS = -2.0**-10
#: Elements of a tile each way up to which windows of zeros give exact zeros: F(2,3) adds them up from zeros alone.
EXACT_TILE = 4
#: Exchanges of a layer in skip code: scatters of inputs and of errors, the gather of errors of inputs.
SKIPPED = 3
#: In how many rounds gathers of tile elements may be predicted.
ROUNDS = (1, 2)
#: They are in one round, by MPT's own quantiser.
REGIONS = "regions"
#: How the distribution function of a GELU is computed.
TANH = "tanh"


#: Forms of the kinds that were asked for so far.
_FORMS: dict[type, dict[str, SettingForm]] = {}


@dataclass(frozen=True, kw_only=True)
class Layer(ABC):
    """One layer. Immutable; a network fills in ``inputs`` where it is left empty.

    Parameters
    ----------
    name : str
        Unique in the network.
    inputs : tuple of str
        Names of the layers that feed it, or ``"input"``; empty for the layer before.
    shape : Shape or None
        Shape of the output, if it is stated; it must then be the one that follows.

    Raises
    ------
    ValueError
        If a setting is out of range.
    """

    #: Name of the kind in files.
    kind: ClassVar[str]
    #: How many inputs a layer of this kind takes, at least and at most.
    arity: ClassVar[tuple[int, int]] = (1, 1)
    #: Whether it ends a network.
    is_loss: ClassVar[bool] = False
    #: Whether work is split and moved for it, as a node of a plan's graph; else it belongs to what it reads.
    is_node: ClassVar[bool] = False

    name: str
    inputs: tuple[str, ...] = ()
    shape: Shape | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(NAME_PATTERN, self.name):
            raise ValueError(f"a layer's name must be 1 to 64 letters, digits, '_', '-' or '.', not "
                             f"{described(self.name)}")
        for key, setting_form in self.forms().items():
            try:
                object.__setattr__(self, key, setting_form.parse(getattr(self, key)))
            except ValueError as error:
                raise ValueError(f"{key} of layer {self.name!r} {error}") from None
        for key, value in (("inputs", self.inputs), ("shape", () if self.shape is None else self.shape)):
            if not isinstance(value, (tuple, list)):
                raise ValueError(f"{key} of layer {self.name!r} must be a list, not {described(value)}")
        object.__setattr__(self, "inputs", tuple(self.inputs))
        if self.shape is not None:
            object.__setattr__(self, "shape", Shape(self.shape))

    @classmethod
    def forms(cls) -> dict[str, SettingForm]:
        """Form of each setting of this kind, in order."""
        if cls not in _FORMS:
            hints = get_type_hints(cls, include_extras=True)
            _FORMS[cls] = {key: hint.__metadata__[0] for key, hint in hints.items()
                           if isinstance(getattr(hint, "__metadata__", (None,))[0], SettingForm)}
        return _FORMS[cls]

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Settings that may be left out, with what they then are."""
        return {field.name: field.default for field in fields(cls)
                if field.name in cls.forms() and field.default is not MISSING}

    @abstractmethod
    def output(self, inputs: Sequence[Shape]) -> Shape:
        """Shape of the output.

        Raises
        ------
        ValueError
            If the inputs' shapes do not fit; the message names the layers and the shapes.
        """

    def variables(self, inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        """What it trains, in the order in which it lies in memory: a matrix, then what is added to each output, as far
        as it has them."""
        return ()

    def macs(self, inputs: Sequence[Shape]) -> int:
        """Multiply-adds of fprop for one sample, padded taps included; bprop and update take as many each."""
        return 0

    def split_channels(self, read: int, output: Shape) -> tuple[int, int]:
        """Of a node, the channels of what it reads and of what it gives that splits divide, where what it reads is
        owned by ``read`` channels.

        Raises
        ------
        ValueError
            If the layer cannot be split by those.
        """
        return read, read

    def refuse(self, problem: str) -> ValueError:
        """The error that this layer does not fit."""
        return ValueError(f"layer {self.name!r} ({self.kind}) {problem}")

    def _map(self, inputs: Sequence[Shape]) -> Shape:
        """The one input, which must be a map."""
        if inputs[0].flat:
            raise self.refuse(f"needs a map, channels x height x width, but {feeder(self.inputs[0])} gives "
                              f"{inputs[0]} features; give the network a map or use a dense layer")
        return inputs[0]

    def _features(self, inputs: Sequence[Shape]) -> Shape:
        """The one input, which must be features."""
        if not inputs[0].flat:
            raise self.refuse(f"needs features, but {feeder(self.inputs[0])} gives a map of {inputs[0]}; "
                              "put a flatten layer between")
        return inputs[0]


def feeder(name: str) -> str:
    """How messages call what feeds a layer."""
    return "the network's input" if name == "input" else f"layer {name!r}"


@dataclass(frozen=True, kw_only=True)
class Dense(Layer):
    """Fully connected: ``Y = X W + b``."""

    kind = "dense"
    is_node = True

    outputs: Annotated[int, Integer("output features")]
    bias: Annotated[bool, Flag("whether a bias is added")] = True

    def output(self, inputs: Sequence[Shape]) -> Shape:
        self._features(inputs)
        return Shape((self.outputs,))

    def variables(self, inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        matrix = weights(inputs[0].elements, self.outputs)
        return (matrix, bias(self.outputs)) if self.bias else (matrix,)

    def macs(self, inputs: Sequence[Shape]) -> int:
        return inputs[0].elements * self.outputs

    def split_channels(self, read: int, output: Shape) -> tuple[int, int]:
        return read, output.channels


@dataclass(frozen=True, kw_only=True)
class Sparse(Layer):
    """Features times a sparse matrix whose pattern stays: ``y = W x + b``, over the entries of W alone."""

    kind = "sparse"
    is_node = True

    pattern: Annotated[SparsePattern, PatternForm("the connections: a row an output, a column an input")]
    bias: Annotated[bool, Flag("whether a bias is added")] = True

    def output(self, inputs: Sequence[Shape]) -> Shape:
        if self._features(inputs).elements != self.pattern.columns:
            raise self.refuse(f"has a pattern of {self.pattern.columns} columns, but {feeder(self.inputs[0])} gives "
                              f"{inputs[0]} features; give a column for each")
        return Shape((self.pattern.rows,))

    def variables(self, inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        pattern = self.pattern
        first = PatternValues(pattern) if pattern.valued else Normal(
            deviation(Shape((max(1, round(pattern.nonzeros / pattern.rows)), pattern.rows))))
        matrix = Variable("weights", (NONZEROS,), Shape((pattern.nonzeros,)), first, Gradient.PATTERN)
        return (matrix, bias(pattern.rows)) if self.bias else (matrix,)

    def macs(self, inputs: Sequence[Shape]) -> int:
        return self.pattern.nonzeros

    def split_channels(self, read: int, output: Shape) -> tuple[int, int]:
        if read != self.pattern.columns:
            raise ValueError(f"layer {self.name!r} is sparse and reads a flattened map of {read} channels; give the "
                             "network features, or put a dense layer between")
        return read, output.channels


@dataclass(frozen=True, kw_only=True)
class Convolution(Layer):
    """Two-dimensional convolution (correlation) over all input channels; padding with zeros on all sides."""

    kind = "convolution"
    is_node = True

    channels: Annotated[int, Integer("output channels")]
    kernel: Annotated[tuple[int, int], Pair("taps")]
    stride: Annotated[tuple[int, int], Pair("distance of windows")] = (1, 1)
    padding: Annotated[tuple[int, ...], Padding("zeros on each side", low=0)] = (0, 0)
    bias: Annotated[bool, Flag("whether a bias is added")] = True
    winograd: Annotated[str | int, Choice(
        "outputs of a Winograd tile each way; auto: what takes the fewest products; off: direct convolution",
        ("off", "auto", 2, 4))] = OFF
    weights: Annotated[str, Choice(
        "what is trained: the kernel, or each element of its Winograd tiles", (SPATIAL, "winograd"))] = SPATIAL
    predict: Annotated[str | int, Choice(
        "rounds in which dies that gather tile elements find out which the ReLU behind needs; 0: all are sent; "
        "regions: in one, by MPT's own quantiser", (0, *ROUNDS, REGIONS))] = 0
    shares: Annotated[tuple[float, ...], Shares(
        "words expected of each part of a predicted gather, then of scatters of inputs and of errors, and of the "
        "gather of errors of inputs, over those of all elements; default: as measured", 1 + max(ROUNDS) + SKIPPED)] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        wanted = 1 + self.rounds + SKIPPED
        if self.shares and not self.rounds:
            raise ValueError(f"shares of layer {self.name!r} are those of predictions, which it does without; say "
                             "predict: 1, 2 or regions, or leave them out")
        if self.shares and len(self.shares) != wanted:
            raise ValueError(f"shares of layer {self.name!r}, of predict: {self.predict}, must be {wanted} numbers, of "
                             f"{1 + self.rounds} parts of a gather, of scatters of inputs and of errors, and of the "
                             f"gather of errors of inputs, not {len(self.shares)}")

    @property
    def direct(self) -> "Convolution":
        """The same, computed directly."""
        return replace(self, winograd=OFF, weights=SPATIAL, predict=0, shares=())

    @property
    def rounds(self) -> int:
        """In which gathers of its tile elements are predicted."""
        return 1 if self.predict == REGIONS else int(self.predict)

    def output(self, inputs: Sequence[Shape]) -> Shape:
        height, width = _windows(self, self._map(inputs), ceil=False)
        self.transform(inputs)
        return Shape((self.channels, height, width))

    def transform(self, inputs: Sequence[Shape]) -> int | None:
        """m of F(m, r), by which it is computed in the Winograd domain; None: directly. ``auto`` takes what has the
        fewest products; of layers whose tile elements are trained, m = 2, as with more one learning rate does not fit
        all elements.

        Raises
        ------
        ValueError
            If it asks for a transform that there is not, or trains tile elements without one.
        """
        if self.winograd == OFF:
            if self.weights != SPATIAL:
                raise self.refuse("trains Winograd tiles, but winograd is off; say winograd: 2, or weights: spatial")
            if self.predict:
                raise self.refuse("predicts what its Winograd tiles need, but winograd is off; say winograd: 2, or "
                                  "predict: 0")
            return None
        _, *size = self._map(inputs)
        if self.winograd != AUTO:
            try:
                self._products(int(self.winograd), size)
            except ValueError as error:
                raise self.refuse(f"cannot be computed by Winograd tiles: {error} (winograd: off)") from None
            return int(self.winograd)
        return self.fewest(inputs, tiles_of.OUTPUTS.get(self.kernel, ()))

    def fewest(self, inputs: Sequence[Shape], choices: Sequence[int]) -> int | None:
        """Of some m what ``auto`` takes; None: directly."""
        (_, *size), count = self._map(inputs), prod(self.kernel) * prod(_windows(self, inputs[0], ceil=False))
        chosen = None
        for outputs in choices:
            try:
                products = self._products(outputs, size)
            except ValueError:
                continue
            if (products < count and self.weights == SPATIAL) or (chosen is None and self.weights != SPATIAL):
                chosen, count = outputs, products
        return chosen

    def _products(self, outputs: int, size: Sequence[int]) -> int:
        """Products of a map, for each pair of channels."""
        if self.stride != (1, 1):
            raise ValueError(f"a stride of {_sizes(self.stride)} has no Winograd transform; use direct convolution")
        tiles = form(self.kernel, outputs)
        _, (down, across) = tiles.lattices((size[0], size[1]), self.padding)
        return tiles.elements * down.count * across.count

    def trained_tiles(self, inputs: Sequence[Shape]) -> int | None:
        """m of F(m, r), if its weights are elements of Winograd tiles."""
        return None if self.weights == SPATIAL else self.transform(inputs)

    def variables(self, inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        """As :meth:`Layer.variables`.

        Each output of a tile of more than :data:`EXACT_TILE` elements each way reads all inputs of the tile; those
        outside its own window cancel but for roundings. Where the window is black, these would decide whether a ReLU
        passes. Such a layer's bias begins with :data:`TILE_BIAS`, so that it does not pass, as it does not with direct
        convolution.
        """
        variable, outputs = weights(inputs[0].channels, self.channels, self.kernel), self.transform(inputs)
        sides = (0, 0) if outputs is None else form(self.kernel, outputs).sides
        if outputs is not None and self.weights != SPATIAL:
            variable = Variable(variable.name, ("tile rows", "tile columns", INPUTS, OUTPUTS),
                                Shape((*sides, inputs[0].channels, self.channels)),
                                TilesOfNormal(deviation(variable.shape), self.kernel, outputs))
        first = TILE_BIAS if max(sides) > EXACT_TILE else 0.0
        return (variable, bias(self.channels, first)) if self.bias else (variable,)

    def macs(self, inputs: Sequence[Shape]) -> int:
        outputs = self.transform(inputs)
        if outputs is not None:
            return self._products(outputs, inputs[0][1:]) * inputs[0].channels * self.channels
        return prod(self.kernel) * inputs[0].channels * self.output(inputs).elements

    def split_channels(self, read: int, output: Shape) -> tuple[int, int]:
        return read, output.channels


@dataclass(frozen=True, kw_only=True)
class Embedding(Layer):
    """Rows of a table, gathered by the row numbers that are the network's input, one behind the other."""

    kind = "embedding"
    is_node = True

    rows: Annotated[int, Integer("rows of the table", high=MAXIMUM_ROWS)]
    width: Annotated[int, Integer("elements of a row")]

    def output(self, inputs: Sequence[Shape]) -> Shape:
        if self.inputs != ("input",) or not inputs[0].flat:
            raise self.refuse(f"needs row numbers, the network's input as features, but "
                              f"{feeder(self.inputs[0])} gives {inputs[0]}; put it first")
        return Shape((inputs[0].elements * self.width,))

    def variables(self, inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        return Variable("weights", ("rows", "width"), Shape((self.rows, self.width)), Normal(1.0), Gradient.ROWS),

    def split_channels(self, read: int, output: Shape) -> tuple[int, int]:
        return self.rows, self.width


@dataclass(frozen=True, kw_only=True)
class Affine(Layer):
    """Each channel, or feature, times a factor, and a summand: ``Y = X s + b``; both are trained."""

    kind = "affine"
    is_node = True

    bias: Annotated[bool, Flag("whether something is added")] = True

    def output(self, inputs: Sequence[Shape]) -> Shape:
        return inputs[0]

    def variables(self, inputs: Sequence[Shape]) -> tuple[Variable, ...]:
        channels = inputs[0].channels
        scale = Variable("weights", (OUTPUTS,), Shape((channels,)), ConstantValue(1.0))
        return (scale, bias(channels)) if self.bias else (scale,)

    def split_channels(self, read: int, output: Shape) -> tuple[int, int]:
        if output.channels != read:
            raise ValueError(f"layer {self.name!r} scales {output.channels} features of {read} channels at several "
                             "positions, of a flattened map or of rows of an embedding; scale a map before it is "
                             "flattened, or put a dense layer between")
        return read, read


class _Window(Layer):
    """What the pools share."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, ...]
    ceil: bool

    def output(self, inputs: Sequence[Shape]) -> Shape:
        source = self._map(inputs)
        if any(2 * self.padding[side] > self.kernel[side % 2] for side in range(len(self.padding))):
            raise self.refuse(f"has a padding of {_sizes(self.padding)}, more than half its kernel of "
                              f"{_sizes(self.kernel)}; choose less padding")
        return Shape((source.channels, *_windows(self, source, ceil=self.ceil)))


@dataclass(frozen=True, kw_only=True)
class MaxPool(_Window):
    """Largest element of each window; padding never wins."""

    kind = "max-pool"

    kernel: Annotated[tuple[int, int], Pair("window")]
    stride: Annotated[tuple[int, int], Pair("distance of windows")]
    padding: Annotated[tuple[int, ...], Padding("rim on each side", low=0)] = (0, 0)
    ceil: Annotated[bool, Flag("whether a last window may hang over the edge")] = False


@dataclass(frozen=True, kw_only=True)
class MeanPool(_Window):
    """Mean of each window over those of its elements that lie inside the map."""

    kind = "mean-pool"

    kernel: Annotated[tuple[int, int], Pair("window")]
    stride: Annotated[tuple[int, int], Pair("distance of windows")]
    padding: Annotated[tuple[int, ...], Padding("rim on each side", low=0)] = (0, 0)
    ceil: Annotated[bool, Flag("whether a last window may hang over the edge")] = False


def _sizes(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))


def _windows(layer: Any, source: Shape, *, ceil: bool) -> tuple[int, int]:
    """Windows down and across a map.

    With ``ceil`` a last window may hang over the far edge if it starts inside the map or its near padding.
    """
    counts = []
    for size, kernel, stride, near, far in zip(source[1:], layer.kernel, layer.stride, layer.padding[:2],
                                               layer.padding[-2:], strict=True):
        room = size + near + far - kernel
        if room < 0:
            raise layer.refuse(f"has a kernel of {_sizes(layer.kernel)}, larger than the {source} that "
                               f"{feeder(layer.inputs[0])} gives with a padding of {_sizes(layer.padding)}; "
                               "choose a smaller kernel or more padding")
        count = room // stride + 1
        if ceil and room % stride and count * stride < size + near:
            count += 1
        counts.append(count)
    return counts[0], counts[1]


class _Same(Layer):
    """What leaves shapes as they are."""

    def output(self, inputs: Sequence[Shape]) -> Shape:
        for name, shape in zip(self.inputs, inputs, strict=True):
            if shape != inputs[0]:
                raise self.refuse(f"needs equal shapes, but {feeder(self.inputs[0])} gives {inputs[0]} and "
                                  f"{feeder(name)} gives {shape}; make them equal")
        return inputs[0]


@dataclass(frozen=True, kw_only=True)
class Relu(_Same):
    """``max(x, 0)``."""

    kind = "relu"


@dataclass(frozen=True, kw_only=True)
class LeakyRelu(_Same):
    """``max(x, slope x)``."""

    kind = "leaky-relu"

    slope: Annotated[float, Fraction("slope of negative elements")] = 0.01


@dataclass(frozen=True, kw_only=True)
class Relu6(_Same):
    """``min(max(x, 0), 6)``."""

    kind = "relu6"


@dataclass(frozen=True, kw_only=True)
class Gelu(_Same):
    """``0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))``: GELU, ``x Phi(x)``, by its tanh approximation."""

    kind = "gelu"

    approximate: Annotated[str, Choice(
        "how Phi is computed", (TANH,), "dies have no error function; tanh is less than 0.0005 off it")] = TANH


@dataclass(frozen=True, kw_only=True)
class Tanh(_Same):
    """Hyperbolic tangent."""

    kind = "tanh"


@dataclass(frozen=True, kw_only=True)
class Sigmoid(_Same):
    """``1 / (1 + exp(-x))``."""

    kind = "sigmoid"


@dataclass(frozen=True, kw_only=True)
class Add(_Same):
    """Sum of its inputs, in their order: the end of a residual block."""

    kind = "add"
    arity = (2, 16)
    is_node = True


@dataclass(frozen=True, kw_only=True)
class Join(_Same):
    """Mean of its inputs, in their order: FractalNet's join."""

    kind = "join"
    arity = (2, 16)
    is_node = True


@dataclass(frozen=True, kw_only=True)
class Concat(Layer):
    """Channels of its inputs, maps of one height and width or features, one input's behind the other's."""

    kind = "concat"
    arity = (2, 16)
    is_node = True

    def output(self, inputs: Sequence[Shape]) -> Shape:
        for name, shape in zip(self.inputs, inputs, strict=True):
            if shape[1:] != inputs[0][1:]:
                raise self.refuse(f"needs maps of one height and width, or features, but {feeder(self.inputs[0])} "
                                  f"gives {inputs[0]} and {feeder(name)} gives {shape}; make them equal")
        return Shape((sum(shape.channels for shape in inputs), *inputs[0][1:]))

    def split_channels(self, read: int, output: Shape) -> tuple[int, int]:
        return output.channels, output.channels


@dataclass(frozen=True, kw_only=True)
class Flatten(Layer):
    """A map as features: row, column, channel."""

    kind = "flatten"

    def output(self, inputs: Sequence[Shape]) -> Shape:
        return Shape((self._map(inputs).elements,))


@dataclass(frozen=True, kw_only=True)
class SoftmaxCrossEntropy(Layer):
    """Loss: cross-entropy between the softmax of the features and a class, mean over the batch."""

    kind = "softmax-cross-entropy"
    is_loss = True

    def output(self, inputs: Sequence[Shape]) -> Shape:
        self._features(inputs)
        return Shape((1,))


@dataclass(frozen=True, kw_only=True)
class MeanSquaredError(Layer):
    """Loss: mean of the squared differences to a target of the same shape, over elements and batch."""

    kind = "mean-squared-error"
    is_loss = True

    def output(self, inputs: Sequence[Shape]) -> Shape:
        return Shape((1,))


#: Every kind of layer by its name in files.
KINDS: dict[str, type[Layer]] = {
    kind.kind: kind for kind in (
        Dense, Sparse, Convolution, Affine, MaxPool, MeanPool, Relu, LeakyRelu, Relu6, Gelu, Tanh, Sigmoid, Add, Join,
        Concat, Flatten, Embedding, SoftmaxCrossEntropy, MeanSquaredError)
}
