"""Networks in files: YAML of version 2 in and out, its schema, and finding a network by name or path."""

from pathlib import Path
from typing import Any

from plinth.errors import UserError, about, quoted
from plinth.files.documents import (
    check_choice,
    check_mapping,
    check_version,
    dump_yaml,
    nearest,
    read_yaml,
    refuse_document,
)
from plinth.files.forms import NAME_PATTERN, described
from plinth.network.layers import KINDS, Layer, Shape
from plinth.network.network import MAXIMUM_LAYERS, Network
from plinth.network.sparse.pattern import PatternForm
from plinth.network.zoo import NETWORKS

#: Version of the network file format.
NETWORK_VERSION = 2

_SHAPE_SCHEMA = {
    "description": "[features] or [channels, height, width] of one sample",
    "type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "integer", "minimum": 1},
}


def _sizes(value: Any, where: str, what: str) -> Shape:
    sizes: list[Any] = value if isinstance(value, list) else [None]
    odd = [size for size in sizes if not isinstance(size, int) or isinstance(size, bool)]
    if odd or len(sizes) not in (1, 3):
        raise UserError(f"{where}: {what} must be [features] or [channels, height, width], not "
                        f"{described(odd[0] if odd and isinstance(value, list) else value)}")
    return Shape(sizes)


def _layer_from_data(data: Any, where: str, folder: Path) -> Layer:
    """One layer; ``where`` names file and place, and paths are relative to a folder."""
    layer_class: type[Layer] | None = None
    if isinstance(data, dict):
        if isinstance(data.get("name"), str):
            where = f"{where} ({quoted(data['name'])})"
        if "kind" in data:
            layer_class = KINDS[check_choice(data["kind"], KINDS, where, "kind")]
    forms, defaults = (layer_class.forms(), layer_class.defaults()) if layer_class else ({}, {})
    data = check_mapping(data, where, f"a {layer_class.kind} layer" if layer_class else "a layer",
                         required=["name", "kind", *(key for key in forms if key not in defaults)],
                         optional=[*defaults, "inputs", "shape"])
    assert layer_class is not None, "a layer without a kind is refused above"
    settings: dict[str, Any] = {"name": data["name"]}
    for key, form in forms.items():
        if key in data:
            try:
                settings[key] = (form.parse(data[key], folder) if isinstance(form, PatternForm) else
                                 form.parse(data[key]))
            except ValueError as error:
                raise UserError(f"{where}: {key} {error}") from None
    if "inputs" in data:
        names = data["inputs"]
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise UserError(f"{where}: inputs must be a list of layers' names, not {described(names)}; write "
                            "for example [conv1]")
        settings["inputs"] = tuple(names)
    if "shape" in data:
        settings["shape"] = _sizes(data["shape"], where, "shape")
    with about(where, ValueError):
        return layer_class(**settings)


def network_from_data(data: Any, where: str, folder: Path = Path()) -> Network:
    """Make a network from what a YAML file holds.

    Parameters
    ----------
    data : object
        As :func:`network_schema` says.
    where : str
        Named in errors.
    folder : Path
        To which paths in the data are relative.

    Raises
    ------
    UserError
        If the data does not have this form, or layers do not fit; if a file of patterns that it names does not hold
        what it should.
    """
    check_version(data, where, "a network", NETWORK_VERSION,
                  "write input, and a kind for each layer, as `plinth schema network` says")
    check_mapping(data, where, "a network", required=("version", "name", "input", "layers"))
    layers = data["layers"]
    if not isinstance(layers, list) or not 1 <= len(layers) <= MAXIMUM_LAYERS:
        raise UserError(f"{where}: layers must be a list of 1 to {MAXIMUM_LAYERS} layers, not "
                        f"{len(layers) if isinstance(layers, list) else described(layers)}")
    parsed_layers = tuple(_layer_from_data(layer, f"{where}: layer {number}", folder)
                          for number, layer in enumerate(layers, start=1))
    with about(where, ValueError):
        return Network(name=data["name"], input=_sizes(data["input"], where, "input"), layers=parsed_layers)


def network_to_data(network: Network, folder: Path | None = None) -> dict[str, Any]:
    """A network as YAML holds it; what has its default is left out, also inputs that are the layer before.

    Parameters
    ----------
    folder : Path or None
        Of the file that is to hold it, to which paths are made relative; None: paths are absolute.
    """
    layers = []
    before = "input"
    for layer in network.layers:
        entry: dict[str, Any] = {"name": layer.name, "kind": layer.kind}
        if layer.inputs != (before,):
            entry["inputs"] = list(layer.inputs)
        defaults = layer.defaults()
        for key, form in layer.forms().items():
            value = getattr(layer, key)
            if key not in defaults or value != defaults[key]:
                entry[key] = form.dump(value, folder) if isinstance(form, PatternForm) else form.dump(value)
        if layer.shape is not None:
            entry["shape"] = list(layer.shape)
        layers.append(entry)
        before = layer.name
    return {"version": NETWORK_VERSION, "name": network.name, "input": list(network.input), "layers": layers}


def network_to_yaml(network: Network) -> str:
    """A network as the text of a YAML file; reading it gives the same network."""
    return dump_yaml(network_to_data(network))


def network_schema() -> dict[str, Any]:
    """The form of network files as JSON Schema."""
    name = {"type": "string", "pattern": f"^{NAME_PATTERN}$"}
    kinds = []
    for kind, layer_class in KINDS.items():
        low, high = layer_class.arity
        defaults = layer_class.defaults()
        properties: dict[str, Any] = {
            "name": name, "kind": {"const": kind},
            "inputs": {"description": "layers that feed it, or 'input'; default: the layer before",
                       "type": "array", "items": name, "minItems": low, "maxItems": high},
            "shape": {**_SHAPE_SCHEMA, "description": "shape of its output, if stated; must be what follows"},
        }
        for key, form in layer_class.forms().items():
            properties[key] = form.schema()
            if key in defaults:
                properties[key]["default"] = form.dump(defaults[key])
        kinds.append({"title": kind, "description": (layer_class.__doc__ or "").strip(), "type": "object",
                      "properties": properties, "additionalProperties": False,
                      "required": ["name", "kind", *(key for key in layer_class.forms() if key not in defaults)]})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Plinth network",
        "description": "Layers in an order in which each stands behind those that feed it; the last is the loss.",
        "type": "object", "additionalProperties": False, "required": ["version", "name", "input", "layers"],
        "properties": {
            "version": {"const": NETWORK_VERSION}, "name": name, "input": _SHAPE_SCHEMA,
            "layers": {"type": "array", "minItems": 1, "maxItems": MAXIMUM_LAYERS, "items": {"oneOf": kinds}},
        },
    }


def holds_plan(data: Any) -> bool:
    """Whether what a file holds is a plan rather than a network."""
    return isinstance(data, dict) and "fingerprint" in data


def load_network(name_or_path: str, loss: str | None = None) -> Network:
    """A network of the zoo by its name, or one read from a YAML or ONNX file.

    Parameters
    ----------
    name_or_path : str
        A name, or a path that ends in .yaml, .yml or .onnx.
    loss : str or None
        The loss of an ONNX file, which names none; default: softmax-cross-entropy.

    Raises
    ------
    UserError
        If there is no such network or file, or the file is too large or malformed.
    """
    if name_or_path in NETWORKS:
        return NETWORKS[name_or_path]
    path = Path(name_or_path)
    if path.suffix == ".onnx":
        from plinth.network.onnx.reader import read_onnx

        return read_onnx(path, loss)
    if path.suffix == ".json" and path.is_file():
        refuse_document(path, "a network", "give one by name, or a .yaml or .onnx file")
    if path.suffix not in (".yaml", ".yml"):
        raise UserError(f"network {quoted(name_or_path)} is unknown; {nearest(name_or_path, NETWORKS)}, "
                        "or give a .yaml or .onnx file")
    data = read_yaml(path)
    if holds_plan(data):
        raise UserError(f"{path}: a plan, where a network is wanted; give the network that it names, or run the plan "
                        "with `plinth train` or `plinth simulate`")
    return network_from_data(data, str(path), path.parent)
