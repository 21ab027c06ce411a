"""A network: layers with shapes, as plain data.

A network is a chain of fully connected layers, each followed by ReLU but the last, which feeds softmax
with cross-entropy. Weights are ``[inputs, outputs]``, row-major; a layer computes ``Y = X W + b``.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from plinth.errors import UserError

#: Version of the network file format.
NETWORK_VERSION = 1
#: Largest network file that is read, in bytes.
MAXIMUM_FILE_BYTES = 1 << 20
#: Largest width of a layer.
MAXIMUM_WIDTH = 1 << 16
#: Most layers of a network.
MAXIMUM_LAYERS = 256


@dataclass(frozen=True, kw_only=True)
class Dense:
    """Fully connected layer with bias.

    Raises
    ------
    ValueError
        If a width is not between 1 and :data:`MAXIMUM_WIDTH`.
    """

    name: str
    inputs: int
    outputs: int
    #: "relu" or "softmax-cross-entropy" (last layer only).
    activation: str

    def __post_init__(self) -> None:
        for what, value in (("inputs", self.inputs), ("outputs", self.outputs)):
            if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAXIMUM_WIDTH:
                raise ValueError(f"{what} of layer {self.name!r} must be an integer from 1 to "
                                 f"{MAXIMUM_WIDTH}, not {value!r}")

    @property
    def parameters(self) -> int:
        """Weights and biases."""
        return (self.inputs + 1) * self.outputs


@dataclass(frozen=True, kw_only=True)
class Network:
    """Layers from input to loss.

    Raises
    ------
    ValueError
        If neighbouring layers do not fit, or an activation stands where it cannot.
    """

    name: str
    layers: tuple[Dense, ...] = field()

    def __post_init__(self) -> None:
        if not self.layers:
            raise ValueError(f"network {self.name!r} has no layers")
        for one, two in pairwise(self.layers):
            if one.outputs != two.inputs:
                raise ValueError(f"layer {two.name!r} takes {two.inputs} inputs but layer {one.name!r} "
                                 f"gives {one.outputs}")
            if one.activation != "relu":
                raise ValueError(f"layer {one.name!r} must end in relu, not {one.activation!r}")
        if self.layers[-1].activation != "softmax-cross-entropy":
            raise ValueError(f"the last layer must end in softmax-cross-entropy, not "
                             f"{self.layers[-1].activation!r}")

    @property
    def inputs(self) -> int:
        """Features of a sample."""
        return self.layers[0].inputs

    @property
    def classes(self) -> int:
        """Outputs of the last layer."""
        return self.layers[-1].outputs

    @property
    def parameters(self) -> int:
        """Weights and biases of all layers."""
        return sum(layer.parameters for layer in self.layers)


def perceptron(name: str, widths: tuple[int, ...]) -> Network:
    """A multi-layer perceptron with the given widths, input first.

    Raises
    ------
    ValueError
        If a width is out of range.
    """
    pairs = list(pairwise(widths))
    return Network(name=name, layers=tuple(
        Dense(name=f"fc{index + 1}", inputs=inputs, outputs=outputs,
              activation="relu" if index + 1 < len(pairs) else "softmax-cross-entropy")
        for index, (inputs, outputs) in enumerate(pairs)))


#: Networks known by name.
ZOO: dict[str, Network] = {
    network.name: network for network in (
        # The job of `make train`: 8x8 handwritten digits, 10 classes.
        perceptron("digits-mlp", (64, 128, 64, 10)),
    )
}


def _expect(condition: bool, where: str, what: str) -> None:
    if not condition:
        raise UserError(f"{where}: {what}")


def network_from_data(data: Any, where: str) -> Network:
    """Make a network from what a YAML file holds.

    Parameters
    ----------
    data : object
        ``{version: 1, name: str, layers: [{name, inputs, outputs, activation}, ...]}``.
    where : str
        Named in errors.

    Raises
    ------
    UserError
        If the data does not have this form.
    """
    _expect(isinstance(data, dict), where, f"a network is a mapping, not {type(data).__name__}")
    unknown = sorted(set(map(str, data)) - {"version", "name", "layers"})
    _expect(not unknown, where,
            f"unknown key {unknown[0] if unknown else ''!r}; known are version, name, layers")
    _expect(data.get("version") == NETWORK_VERSION, where,
            f"version must be {NETWORK_VERSION}, not {data.get('version')!r}")
    _expect(isinstance(data.get("name"), str), where, f"name must be text, not {data.get('name')!r}")
    layers = data.get("layers")
    if not isinstance(layers, list) or not 1 <= len(layers) <= MAXIMUM_LAYERS:
        raise UserError(f"{where}: layers must be a list of 1 to {MAXIMUM_LAYERS} layers")
    made = []
    for index, layer in enumerate(layers):
        place = f"{where}: layer {index + 1}"
        _expect(isinstance(layer, dict), place, f"must be a mapping, not {type(layer).__name__}")
        keys = {"name", "inputs", "outputs", "activation"}
        odd = sorted(keys.symmetric_difference(map(str, layer)))
        _expect(not odd, place, f"key {odd[0] if odd else ''!r} is missing or unknown; "
                                "a layer has name, inputs, outputs, activation")
        _expect(isinstance(layer["name"], str), place, f"name must be text, not {layer['name']!r}")
        try:
            made.append(Dense(**layer))
        except ValueError as error:
            raise UserError(f"{place}: {error}") from error
    try:
        return Network(name=data["name"], layers=tuple(made))
    except ValueError as error:
        raise UserError(f"{where}: {error}") from error


def load_network(name_or_path: str) -> Network:
    """A network of the zoo by its name, or one read from a YAML file.

    Raises
    ------
    UserError
        If there is no such network or file, or the file is too large or malformed.
    """
    if name_or_path in ZOO:
        return ZOO[name_or_path]
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        raise UserError(f"network {name_or_path!r} is unknown; choose one of {', '.join(ZOO)}, "
                        "or give a .yaml file")
    try:
        if path.stat().st_size > MAXIMUM_FILE_BYTES:
            raise UserError(f"{path}: larger than {MAXIMUM_FILE_BYTES} bytes; a network file is small")
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}, line {mark.line + 1}" if mark else str(path)
        raise UserError(f"{place}: not valid YAML ({getattr(error, 'problem', None) or 'unreadable'}); "
                        "mend the file") from error
    return network_from_data(data, str(path))
