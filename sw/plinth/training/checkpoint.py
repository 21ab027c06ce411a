"""Weights on disk: a plain ``.npz`` of FP32 arrays and a header, read as untrusted."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plinth.errors import UserError
from plinth.model.files import check_mapping, check_version, parse_yaml
from plinth.model.forms import described, is_integer
from plinth.model.network import Network
from plinth.model.parameters import KeptVectors, Parameters
from plinth.model.update import KINDS, VECTORS, UpdateRule
from plinth.model.winograd import converted, other_forms, setting
from plinth.output import write_whole
from plinth.training.arrays import ArrayFile, array_file

#: Version of the checkpoint format.
CHECKPOINT_VERSION = 1
#: Most epochs of a run, and the largest seed.
MAXIMUM_EPOCHS, MAXIMUM_SEED = 10_000, 2**63 - 1
#: Longest header in bytes: as many names of layers as a network can have.
MAXIMUM_HEADER = 1 << 19

#: Vectors of updates that have a state, by :attr:`~plinth.model.update.UpdateRule.kept`.
UPDATES = {rule.kept: rule.vectors for kind in KINDS for wide in (False, True)
           if (rule := UpdateRule(kind, wide=wide)).vectors}

_REMEDY = "give a file that `plinth train --save` wrote"


@dataclass(frozen=True)
class Checkpoint:
    """Parameters of each layer (weights, then bias, flat), and how far training had come."""

    parameters: Parameters
    epoch: int
    seed: int
    #: What update the vectors beside the weights are the state of (``UpdateRule.kept``), and these; both may be empty.
    update: str = ""
    kept: KeptVectors = field(default_factory=dict)
    #: Of what was converted, layers whose tiles no kernel has, and how much of these the nearest one leaves out.
    left_out: dict[str, float] = field(default_factory=dict)


def _key(layer: str) -> str:
    """Name of a layer's array: its own, unless the header or an argument of numpy's is called so, or another's
    array."""
    return f"{layer}.parameters" if layer in ("header", "file", "allow_pickle") or (
        layer.endswith((".parameters", *(f":{vector}" for vector in VECTORS)))) else layer


def _kept_key(layer: str, vector: str) -> str:
    """Name of the array of a vector beside a layer's weights."""
    return f"{_key(layer)}:{vector}"


def save(path: Path, network: Network, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; a killed write leaves the former file as it was.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    arrays: dict[str, Any] = {
        _key(layer.name): values for layer, values in zip(network.weighted, checkpoint.parameters, strict=True)}
    arrays |= {_kept_key(layer, vector): values for layer, vectors in checkpoint.kept.items()
               for vector, values in vectors.items()}
    header = json.dumps({"version": CHECKPOINT_VERSION, "network": network.name, "epoch": checkpoint.epoch,
                         "seed": checkpoint.seed, "layers": [layer.name for layer in network.weighted],
                         **({"update": checkpoint.update} if checkpoint.update else {})})

    def write(place: Path) -> None:
        with place.open("wb") as file:
            np.savez(file, header=np.frombuffer(header.encode(), dtype=np.uint8), **arrays)
            file.flush()
            os.fsync(file.fileno())

    write_whole(path, write)


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
        epoch, seed, update = _header(file, network)
        if convert and update:
            raise UserError(f"{path}: holds the state of update {update!r}, which has no other form; train with it as "
                            "it is, or anew with --update sgd")
        left_out: dict[str, float] = {}
        parameters = [_array(file, _key(layer.name), network, layer.name, left_out if convert else None)
                      for layer in network.weighted]
        kept = {layer.name: {vector: _array(file, _kept_key(layer.name, vector), network, layer.name)
                             for vector in UPDATES[update]} for layer in network.weighted} if update else {}
        return Checkpoint(parameters, epoch, seed, update, kept, left_out)


def _array(file: ArrayFile, key: str, network: Network, layer: str, left_out: dict[str, float] | None = None
           ) -> NDArray[np.float32]:
    """As many numbers as a layer has parameters; with ``left_out`` of another form, too, and what it leaves out of that
    goes there."""
    form, wanted, others = file.form(key), network.layer_parameters(layer), other_forms(network, layer)
    other = form.dtype == np.float32 and len(form.shape) == 1 and form.shape[0] in others
    if other and left_out is None:
        held = others[form.shape[0]]
        what, makes = ("a kernel", "its tiles, the same function") if held is None else (
            "Winograd tiles", "those nearest to them, another function")
        raise UserError(f"{file.where}: layer {layer!r} holds {form.shape[0]} weights of {what}, but network "
                        f"{network.name!r} trains other {wanted}; say {setting(held)}, as it was trained (`plinth "
                        f"convert` makes {makes})")
    if not other and (form.dtype != np.float32 or form.shape != (wanted,)):
        raise UserError(f"{file.where}: layer {layer!r} holds {form}, not float32 [{wanted}]; {_REMEDY}")
    values = file.read(form)
    if not np.isfinite(values).all():
        raise UserError(f"{file.where}: layer {layer!r} has weights that are not finite; go back to an earlier "
                        "checkpoint, or train again at a lower --rate")
    if not other or left_out is None:
        return values
    made, left = converted(network, layer, values)
    if left:
        left_out[layer] = left
    return made


def _header(file: ArrayFile, network: Network) -> tuple[int, int, str]:
    """Epoch, seed and update, once the header is that of a checkpoint of the network."""
    form, where = file.form("header"), file.where
    if form.dtype != np.uint8 or len(form.shape) != 1 or form.shape[0] > MAXIMUM_HEADER:
        raise file.error(f"the header is {form}")
    try:
        text = file.read(form).tobytes().decode()
    except UnicodeDecodeError as error:
        raise file.error("the header is no UTF-8") from error
    # JSON as `save` writes it is YAML on one line; there is one reader of untrusted text.
    header = parse_yaml(text, f"{where}: header")
    check_version(header, where, "a checkpoint's header", CHECKPOINT_VERSION, "train again with --save")
    check_mapping(header, where, "a checkpoint's header", required=("version", "network", "epoch", "seed", "layers"),
                  optional=("update",))
    if header["network"] != network.name:
        raise UserError(f"{where}: holds network {described(header['network'])}, not {network.name!r}; name it with "
                        "--network, or train again")
    if header["layers"] != [layer.name for layer in network.weighted]:
        raise UserError(f"{where}: holds other layers than network {network.name!r} has; {_REMEDY}")
    for key, most in (("epoch", MAXIMUM_EPOCHS), ("seed", MAXIMUM_SEED)):
        if not is_integer(header[key], 0, most):
            raise UserError(f"{where}: {key} must be an integer from 0 to {most}, not {described(header[key])}; "
                            f"{_REMEDY}")
    update = header.get("update", "")
    if update not in ("", *UPDATES):
        raise UserError(f"{where}: update must be one of {', '.join(UPDATES)}, not {described(update)}; {_REMEDY}")
    return header["epoch"], header["seed"], update
