"""Weights on disk: a plain ``.npz`` of FP32 arrays and a header, read as untrusted.

Arrays have the names and shapes of the network's variables, and a vector beside one its name behind a colon. The header
says the network, how far training had come (epochs, and steps of the epoch that was begun), seed and
settings of the run, the update whose state lies beside the weights, and on each die the state of its generator of
random bits within an epoch. Versions 1 and 2, whose arrays have the variables of a layer as one, flat, are read;
version 1 has neither settings nor steps: what it does not say is None or 0.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from plinth.errors import UserError, quoted
from plinth.files.documents import check_mapping, check_version, parse_yaml
from plinth.files.forms import described, is_integer
from plinth.files.npz import ArrayFile, MemberForm, array_file
from plinth.limits import MAXIMUM_EPOCHS, MAXIMUM_SEED
from plinth.network.network import Network
from plinth.network.parameters import KeptVectors, LayerVector, Parameters, layer_vectors
from plinth.network.winograd import converted, other_forms, setting
from plinth.output import write_arrays
from plinth.train.settings import RunSettings
from plinth.update.rule import FORMS, VECTORS

#: Version of the checkpoint format, and those that are read as well.
CHECKPOINT_VERSION, OLDER_VERSIONS = 3, (2, 1)
#: Most steps of an epoch, and most dies.
MAXIMUM_STEPS, MAXIMUM_GENERATORS = 2**31 - 1, 1 << 16
#: Largest factor of states: more than errors are scaled by in any format, squared.
MAXIMUM_STATE_SCALE = 2.0**32
#: Longest header in bytes: as many names of layers as a network can have.
MAXIMUM_HEADER = 1 << 19

#: Vectors of updates that have a state, by :attr:`~plinth.update.rule.UpdateRule.kept`.
UPDATES = {rule.kept: rule.vectors for rule in FORMS.values() if rule.vectors}

_REMEDY = "give a file that `plinth train --save` wrote"


class NotFiniteError(UserError):
    """What a checkpoint would hold has an infinity or NaN, with which it would not be read again.

    Attributes
    ----------
    what : str
        "weights", or the "states" beside them.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} are not finite, and no checkpoint has such; train again at a lower rate=")
        self.what = what


def array_name(array: str, vector: str) -> str:
    """Name in a file of a vector beside a variable, or beside a layer's flat array."""
    return f"{array}:{vector}"


@dataclass(frozen=True)
class Checkpoint:
    """Parameters by name, and how far training had come."""

    parameters: Parameters
    #: Finished epochs.
    epoch: int
    seed: int
    #: Steps of the epoch behind these.
    step: int = 0
    #: None: not known.
    settings: RunSettings | None = None
    #: On each die the state of its generator of random bits; empty if there is none, or at an epoch's end.
    generators: tuple[int, ...] = ()
    #: What update the vectors beside the weights are the state of (``UpdateRule.kept``), and these; both may be empty.
    update: str = ""
    kept: KeptVectors = field(default_factory=dict)
    #: Factor of the states among these over states of the loss's own gradients; None: that of the run's format.
    state_scale: float | None = None
    #: Of what was converted, layers whose tiles no kernel has, and how much of these the nearest one leaves out.
    left_out: dict[str, float] = field(default_factory=dict)

    @property
    def progress(self) -> str:
        """How far training had come, in words."""
        steps = f" and {self.step} step{'s' * (self.step != 1)}" if self.step else ""
        return f"{self.epoch} epoch{'s' * (self.epoch != 1)}{steps}"

    def arrays(self) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Weights and states, by their names in a file."""
        yield from self.parameters.items()
        for name, vectors in self.kept.items():
            yield from ((array_name(name, vector), values) for vector, values in vectors.items())

    @property
    def digest(self) -> str:
        """SHA-256 of the weights, and of what goes with them: vectors and generators."""
        digest = hashlib.sha256(repr(self.generators).encode())
        kept = {f"{name} {vector}": values for name, vectors in self.kept.items() for vector, values in vectors.items()}
        for name in sorted({*self.parameters, *kept}):
            # One at a time: first values may be read from files.
            values = kept[name] if name in kept else self.parameters[name]
            digest.update(f"{name} {values.shape} {values.dtype}".encode())
            digest.update(values.tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Header:
    """What a checkpoint says of itself."""

    version: int
    network: str
    layers: list[str]
    epoch: int
    seed: int
    step: int
    settings: RunSettings | None
    generators: tuple[int, ...]
    update: str
    state_scale: float | None


def check_state(saved: "Header | Checkpoint", where: Path) -> None:
    """Refuse to go on from a checkpoint without the state of its update; evaluation needs none.

    Raises
    ------
    UserError
        If there is none.
    """
    if saved.settings is not None and saved.settings.rule.kept and not saved.update:
        raise UserError(f"{where}: holds no state of update {saved.settings.rule.kept!r}, by which it was trained; go "
                        "back to an earlier checkpoint, or train again")


def _flat_key(layer: str) -> str:
    """Name of a layer's array in files of versions 1 and 2: its own, unless the header or an argument of numpy's is
    called so, or another's array."""
    return f"{layer}.parameters" if layer in ("header", "file", "allow_pickle") or (
        layer.endswith((".parameters", *(array_name("", vector) for vector in VECTORS)))) else layer


def save(path: Path | None, network: Network, checkpoint: Checkpoint,
         arrays: Iterable[tuple[str, NDArray[np.float32]]] | None = None) -> None:
    """Write a checkpoint; a killed write leaves the former file as it was.

    Parameters
    ----------
    path : Path or None
        None: only see whether all arrays are finite.
    arrays : iterable of (str, array) or None
        Weights and states, by :meth:`Checkpoint.arrays`' names, in place of the checkpoint's own: each is asked for
        when the one before it is written, so that not all need be held.

    Raises
    ------
    UserError
        If the file cannot be written.
    NotFiniteError
        If an array is not finite; the file is left as it was.
    """
    finite = _finite(network, checkpoint.arrays() if arrays is None else arrays)
    if path is None:
        for _ in finite:
            pass
        return
    header = json.dumps({"version": CHECKPOINT_VERSION, "network": network.name, "epoch": checkpoint.epoch,
                         "step": checkpoint.step, "seed": checkpoint.seed,
                         "layers": [layer.name for layer in network.weighted],
                         **({"update": checkpoint.update} if checkpoint.update else {}),
                         **({} if checkpoint.state_scale is None else {"state_scale": checkpoint.state_scale}),
                         **({"generators": checkpoint.generators} if checkpoint.generators else {}),
                         **({"settings": checkpoint.settings.to_data()} if checkpoint.settings else {})})
    write_arrays(path, chain([("header", np.frombuffer(header.encode(), dtype=np.uint8))], finite))


def _finite(network: Network, arrays: Iterable[tuple[str, NDArray[np.float32]]]
            ) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Arrays, until one is not finite."""
    for name, values in arrays:
        if not np.isfinite(values).all():
            raise NotFiniteError("weights" if name in network.variables else "states")
        yield name, values


def load(path: Path, network: Network, *, convert: bool = False) -> Checkpoint:
    """Read a checkpoint of ``network``; with ``convert`` kernels become Winograd tiles where the network trains those,
    and tiles kernels.

    Raises
    ------
    UserError
        If the file is missing, too large, damaged, or of another network, or weights are not finite, or of kernels
        where the network trains tiles, or have a state that cannot be converted.
    """
    with array_file(path, "a checkpoint", _REMEDY) as file:
        header = _header(file)
        _check_network(header, network, file.where)
        update = header.update
        if convert and update:
            raise UserError(f"{path}: holds the state of update {update!r}, which has no other form; train with it as "
                            "it is, or anew with update=sgd")
        if header.version == CHECKPOINT_VERSION:
            known = {"header", *(name + behind for name in network.variables for behind in
                                 ("", *(array_name("", vector) for vector in (UPDATES[update] if update else ()))))}
            if further := sorted(set(file.names) - known):
                raise UserError(f"{file.where}: holds array {quoted(further[0])}, which is nothing of network "
                                f"{network.name!r}; {_REMEDY}")
        left_out: dict[str, float] = {}
        parameters: dict[str, NDArray[np.float32]] = {}
        kept: dict[str, dict[str, NDArray[np.float32]]] = {}
        for layer in layer_vectors(network):
            parameters |= _weights(file, header, network, layer, left_out if convert else None)
            for vector in UPDATES[update] if update else ():
                for name, values in _arrays(file, header, [layer], array_name("", vector))[1].items():
                    kept.setdefault(name, {})[vector] = values
        return Checkpoint(parameters, header.epoch, header.seed, header.step, header.settings, header.generators,
                          update, kept, header.state_scale, left_out)


def load_header(path: Path) -> Header:
    """What a checkpoint says of itself, whatever its network; arrays are not read.

    Raises
    ------
    UserError
        If the file is missing, too large or damaged, or its header no checkpoint's.
    """
    with array_file(path, "a checkpoint", _REMEDY) as file:
        return _header(file)


def _arrays(file: ArrayFile, header: Header, choices: Sequence[LayerVector], behind: str = ""
            ) -> tuple[LayerVector, dict[str, NDArray[np.float32]]]:
    """What a file holds of a layer, by name: of some forms of its variables, the network's first, which one it is, and
    its arrays; ``behind`` their names in the file."""
    own = choices[0]
    if header.version < CHECKPOINT_VERSION:
        form = file.form(_flat_key(own.layer) + behind)
        vector = next((choice for choice in choices if form.shape == (choice.elements,)), own)
        _check_form(file, f"layer {own.layer!r}", form, (vector.elements,))
        arrays = vector.split(file.read(form))
    else:
        first = file.form(own.names[0] + behind)
        vector = next((choice for choice in choices if first.shape == choice.variables[0].shape), own)
        arrays = {}
        for name, variable in zip(vector.names, vector.variables, strict=True):
            form = file.form(name + behind)
            _check_form(file, repr(name + behind), form, variable.shape)
            arrays[name] = file.read(form)
    for name, values in arrays.items():
        if not np.isfinite(values).all():
            raise UserError(f"{file.where}: {name + behind!r} has values that are not finite; go back to an earlier "
                            "checkpoint, or train again at a lower rate=")
    return vector, arrays


def _check_form(file: ArrayFile, what: str, form: MemberForm, shape: tuple[int, ...]) -> None:
    if form.dtype != np.float32 or form.shape != shape:
        raise UserError(f"{file.where}: {what} holds {form}, not float32 {list(shape)}; {_REMEDY}")


def _weights(file: ArrayFile, header: Header, network: Network, layer: LayerVector, left_out: dict[str, float] | None
             ) -> dict[str, NDArray[np.float32]]:
    """Variables of a layer; with ``left_out`` also of weights of another form, and what the network's leaves out of
    that goes there."""
    others, (weights, *further) = other_forms(network, layer.layer), layer.variables
    vector, arrays = _arrays(file, header, [layer, *(
        LayerVector(layer.layer, (replace(weights, shape=shape), *further)) for shape in others)])
    if vector is layer:
        return arrays
    if left_out is None:
        held = others[vector.variables[0].shape]
        what, makes = ("a kernel", "its tiles, the same function") if held is None else (
            "Winograd tiles", "those nearest to them, another function")
        raise UserError(f"{file.where}: layer {layer.layer!r} holds {vector.variables[0].elements} weights of {what}, "
                        f"but network {network.name!r} trains other {weights.elements}; say {setting(held)}, as it "
                        f"was trained (`plinth convert` makes {makes})")
    name = weights.qualified(layer.layer)
    arrays[name], left = converted(network, layer.layer, arrays[name])
    if left:
        left_out[layer.layer] = left
    return arrays


def _check_network(header: Header, network: Network, where: str) -> None:
    """Refuse a checkpoint of another network."""
    if header.network != network.name:
        named = quoted(header.network) if isinstance(header.network, str) else described(header.network)
        raise UserError(f"{where}: holds network {named}, not {network.name!r}; name its network, or train again")
    if header.layers != [layer.name for layer in network.weighted]:
        raise UserError(f"{where}: holds other layers than network {network.name!r} has; {_REMEDY}")


def _header(file: ArrayFile) -> Header:
    """The header, once it is that of a checkpoint."""
    form, where = file.form("header"), file.where
    if form.dtype != np.uint8 or len(form.shape) != 1 or form.shape[0] > MAXIMUM_HEADER:
        raise file.error(f"the header is {form}")
    try:
        text = file.read(form).tobytes().decode()
    except UnicodeDecodeError as error:
        raise file.error("the header is no UTF-8") from error
    # JSON as `save` writes it is YAML on one line; there is one reader of untrusted text.
    data = parse_yaml(text, f"{where}: header")
    check_version(data, where, "a checkpoint's header", CHECKPOINT_VERSION, "train again with save=", OLDER_VERSIONS)
    first = data["version"] == 1
    check_mapping(data, where, "a checkpoint's header",
                  required=("version", "network", "epoch", *(() if first else ("step",)), "seed", "layers"),
                  optional=("update", *(() if first else ("state_scale", "generators", "settings"))))
    for key, most in (("epoch", MAXIMUM_EPOCHS), ("seed", MAXIMUM_SEED), ("step", MAXIMUM_STEPS)):
        if not is_integer(data.get(key, 0), 0, most):
            raise UserError(f"{where}: {key} must be an integer from 0 to {most}, not {described(data[key])}; "
                            f"{_REMEDY}")
    update, generators, scale = data.get("update", ""), data.get("generators", []), data.get("state_scale")
    if update not in ("", *UPDATES):
        raise UserError(f"{where}: update must be one of {', '.join(UPDATES)}, not {described(update)}; {_REMEDY}")
    if not isinstance(generators, list) or len(generators) > MAXIMUM_GENERATORS or not all(
            is_integer(state, 1, 2**32 - 1) for state in generators):
        raise UserError(f"{where}: generators must be a list of integers from 1 to {2**32 - 1}, not "
                        f"{described(generators)}; {_REMEDY}")
    if scale is not None and not (isinstance(scale, float) and 0 < scale <= MAXIMUM_STATE_SCALE):
        raise UserError(f"{where}: state_scale must be a number above 0 and up to {MAXIMUM_STATE_SCALE}, not "
                        f"{described(scale)}; {_REMEDY}")
    settings = RunSettings.from_data(data["settings"], where) if "settings" in data else None
    return Header(data["version"], data["network"], data["layers"], data["epoch"], data["seed"], data.get("step", 0),
                  settings, tuple(generators), update, scale)
