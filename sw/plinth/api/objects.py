"""Networks and arrays by name, by file, or as objects, and Verilog by name: the least of the library."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from plinth import defaults
from plinth.api.arguments import choice, integer, optional, real, shown
from plinth.api.choices import array_of, die_of, with_settings
from plinth.array.array import Array
from plinth.errors import UserError
from plinth.limits import MAXIMUM_DIES
from plinth.network.file import load_network
from plinth.network.network import Network

#: What the settings of Winograd layers may be, by argument.
TILES: dict[str, tuple[Any, ...]] = {"winograd": ("off", "auto", 2, 4, "2", "4"), "weights": ("spatial", "winograd"),
                                     "predict": (0, 1, 2, "regions", "0", "1", "2")}


def tile_settings(winograd: Any, weights: Any, predict: Any, shares: Any) -> dict[str, Any]:
    """Check the arguments that :func:`plinth.api.choices.with_settings` takes, and return them by name.

    Raises
    ------
    UserError
        If one is not what it may be.
    """
    settings = {"winograd": winograd, "weights": weights, "predict": predict}
    checked = {name: optional(choice, name, value, TILES[name]) for name, value in settings.items()}
    if shares is None:
        return checked | {"shares": None}
    try:
        numbers = () if isinstance(shares, (str, bytes)) else tuple(shares)
    except TypeError:
        numbers = ()
    if not numbers:
        raise UserError(f"shares must be numbers from 0 to 1, not {shown(shares)}")
    return checked | {"shares": tuple(real("shares", share, 0, 1) for share in numbers)}


def named(name: str, value: Any) -> str:
    """A name or path as text.

    Raises
    ------
    UserError
        If it is none.
    """
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str):
        raise UserError(f"{name} must be a name, a path, or an object of the library, not {shown(value)}")
    return os.fspath(value)


def network(network: str | Path | Network | None = None, *, winograd: str | int | None = None,
            weights: str | None = None, predict: str | int | None = None,
            shares: Iterable[float] | None = None) -> Network:
    """A network, with the settings of its convolutions.

    Parameters
    ----------
    network : str, Path, Network or None
        A name of the zoo, the path of a YAML or ONNX file, or a network itself; None: ``digits-mlp``.
    winograd : {"off", "auto", 2, 4} or None
        m of Winograd tiles F(m x m, r x r), where a convolution has such a transform. None: as the network says, as for
        all that follow.
    weights : {"spatial", "winograd"} or None
        What Winograd layers train: kernels, or elements of tiles.
    predict : {0, 1, 2, "regions"} or None
        Rounds of messages that find tile elements which the next ReLU zeroes.
    shares : iterable of float or None
        Shares of all words that are sent where such elements are left out, each from 0 to 1.

    Raises
    ------
    UserError
        If there is no such network, or it has no convolution with these settings.
    """
    settings = tile_settings(winograd, weights, predict, shares)
    if network is None:
        network = defaults.NETWORK
    return with_settings(network if isinstance(network, Network) else load_network(named("network", network)),
                         **settings)


def array(array: str | Path | Array | None = None, *, dies: int | None = None, machine: str | None = None,
          format: str | None = None) -> Array:
    """An array of dies.

    Parameters
    ----------
    array : str, Path, Array or None
        A name (``torus-2x4``), the path of a YAML file, or an array itself; None: a ring.
    dies : int or None
        Dies of the ring, from 1 to 1,024; None: 4, or 1 of a preset for one.
    machine : str or None
        ``ndp``, ``hypar``, ``fpga``, or a die preset in full; None: the array's, or ``ndp``.
    format : {"fp32", "mixed", "fixed"} or None
        FP32; FP16 products with FP32 sums; Q3.12 throughout. None: the first that the machine has.

    Raises
    ------
    UserError
        If there is no such array, or it cannot have so many dies or dies of this kind.
    """
    dies = optional(integer, "dies", dies, 1, MAXIMUM_DIES)
    number_format = optional(choice, "format", format, defaults.FORMATS)
    machine = None if machine is None else named("machine", machine)
    return array_of(array_given(array), dies, machine, number_format)


def array_given(array: Any) -> str | Array | None:
    """Check an argument ``array``: return an array as it is, and a name or path as text.

    Raises
    ------
    UserError
        If it is neither.
    """
    return array if array is None or isinstance(array, Array) else named("array", array)


def verilog(preset: str) -> str:
    """The synthesizable Verilog of a die, whose top module has the preset's name with underscores.

    Parameters
    ----------
    preset : str
        Name of a die preset, such as ``ndp-demo``.

    Raises
    ------
    UserError
        If there is no such preset, or a tool is missing or fails.
    """
    from plinth.runtime.verilog import synthesizable_verilog

    return synthesizable_verilog(die_of(named("preset", preset)))
