"""Weights on disk: a plain ``.npz`` of FP32 arrays and integers, read as untrusted."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plinth.errors import UserError
from plinth.model.network import Network
from plinth.model.parameters import Parameters
from plinth.training.arrays import untrusted_npz

#: Version of the checkpoint format.
CHECKPOINT_VERSION = 1


@dataclass(frozen=True)
class Checkpoint:
    """Parameters of each layer (weights, then bias, flat), and how far training had come."""

    parameters: Parameters
    epoch: int
    seed: int


def _key(layer: str) -> str:
    """Name of a layer's array: its own, unless the header or an argument of numpy's is called so."""
    return f"{layer}.parameters" if layer in ("header", "file", "allow_pickle") else layer


def save(path: Path, network: Network, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; a killed write leaves the former file as it was.

    Raises
    ------
    UserError
        If the file cannot be written.
    """
    arrays: dict[str, Any] = {
        _key(layer.name): values for layer, values in zip(network.weighted, checkpoint.parameters, strict=True)}
    header = json.dumps({"version": CHECKPOINT_VERSION, "network": network.name, "epoch": checkpoint.epoch,
                         "seed": checkpoint.seed, "layers": [layer.name for layer in network.weighted]})
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            np.savez(file, header=np.frombuffer(header.encode(), dtype=np.uint8), **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(f"{path}: cannot be written ({error.strerror}); choose another place") from error


def load(path: Path, network: Network) -> Checkpoint:
    """Read a checkpoint of ``network``.

    Raises
    ------
    UserError
        If the file is missing, too large, damaged, or of another network.
    """
    with untrusted_npz(path, "a checkpoint", "give a file that `plinth train --save` wrote") as file:
        header = json.loads(bytes(file["header"]).decode())
        if not isinstance(header, dict) or header.get("version") != CHECKPOINT_VERSION:
            raise UserError(f"{path}: not a checkpoint of version {CHECKPOINT_VERSION}; train again with --save")
        if header.get("network") != network.name:
            raise UserError(f"{path}: holds network {header.get('network')!r}, not {network.name!r}")
        parameters = []
        for layer in network.weighted:
            wanted = network.layer_parameters(layer.name)
            values = file[_key(layer.name)]
            if values.dtype != np.float32 or values.shape != (wanted,):
                raise UserError(f"{path}: layer {layer.name!r} holds {values.dtype} "
                                f"{list(values.shape)}, not float32 [{wanted}]")
            parameters.append(values)
        epoch, seed = header.get("epoch"), header.get("seed")
        if not isinstance(epoch, int) or not isinstance(seed, int) or epoch < 0 or seed < 0:
            raise UserError(f"{path}: epoch and seed must be integers from 0")
        return Checkpoint(parameters, epoch, seed)
