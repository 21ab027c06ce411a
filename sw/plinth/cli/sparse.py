"""Commands that make sparse networks: `sparse radix-net`, `irregular`, `prune` and `read`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from plinth.cli.group import cli
from plinth.errors import UserError
from plinth_hw.terminal.commands import Command, CommandGroup
from plinth_hw.terminal.options import Folder, InputFile, IntegerRange, Name, OutputFile, RealRange

if TYPE_CHECKING:
    from plinth.network.network import Network

#: Most neurons of a layer and layers of a network that these commands write.
MOST_NEURONS, MOST_LAYERS = 1 << 24, 2048


@cli.group("sparse", cls=CommandGroup)
def sparse_group() -> None:
    """Make sparse networks: a .yaml file, and beside it an .npz file with their patterns and first weights."""


sparse_group.command_class = Command


def _out(command: Any) -> Any:
    return click.option("--out", type=OutputFile(), required=True, help="the network's file, .yaml; patterns go to an "
                        ".npz file of the same name")(command)


def _seed(what: str) -> Any:
    return click.option("--seed", type=IntegerRange(0, (1 << 63) - 1), default=0, show_default=True, help=what)


def _write(out: Path, network: Network) -> None:
    from plinth.network.sparse.layers import write_sparse

    write_sparse(out, network)
    weights = sum(variable.elements for variable in network.variables.values())
    click.echo(f"network: {out} and {out.with_suffix('.npz').name}, {weights:,} parameters")


@sparse_group.command("radix-net")
@_out
@click.option("--neurons", type=IntegerRange(32, MOST_NEURONS), default=1024, show_default=True,
              help="of each layer: 16 times a power of two")
@click.option("--layers", type=IntegerRange(1, MOST_LAYERS), default=4, show_default=True)
@click.option("--biases/--no-biases", default=True, show_default=True, help="whether biases are trained, from 0 on")
@_seed("of permutations and weights")
def radix_net(out: Path, neurons: int, layers: int, biases: bool, seed: int) -> None:
    """Make a RadiX-Net of the Graph Challenge, to be trained: weights of U[-1, 1), sigmoid, mean squared error."""
    from plinth.network.sparse.layers import layered
    from plinth.network.sparse.radix_net import trained_network

    try:
        network = layered(trained_network(neurons, layers, seed=seed, biases=biases))
    except ValueError as error:
        raise UserError(str(error)) from error
    _write(out, network)


@sparse_group.command("irregular")
@_out
@click.option("--widths", required=True, metavar="N,N,..", help="neurons of the input, then of each layer")
@click.option("--density", type=RealRange(0.0, 1.0), default=0.1, show_default=True,
              help="share of the connections that there are")
@click.option("--degrees", type=click.Choice(("uniform", "power-law")), default="uniform", show_default=True,
              help="how many connections rows have")
@_seed("of connections and weights")
def irregular(out: Path, widths: str, density: float, degrees: str, seed: int) -> None:
    """Make a random network without structure, to be trained: sigmoid, mean squared error."""
    import numpy as np

    from plinth.network.sparse.activations import SparseSigmoid
    from plinth.network.sparse.irregular import IrregularNet
    from plinth.network.sparse.layers import layered
    from plinth.network.sparse.network import SparseNetwork

    sizes = widths.split(",")
    if not 2 <= len(sizes) <= MOST_LAYERS + 1 or not all(size.isascii() and size.isdigit() and len(size) < 9
                                                         for size in sizes):
        raise UserError(f"--widths must be two or more numbers of neurons with commas between, as 1024,512,10, not "
                        f"{widths[:40]!r}")
    try:
        source = IrregularNet(widths=tuple(map(int, sizes)), density=density, degrees=degrees, seed=seed)
        layers = len(sizes) - 1
        network = layered(SparseNetwork(
            name="irregular", source=source, biases=[np.zeros(int(size)) for size in sizes[1:]],
            activations=[SparseSigmoid()] * layers))
    except ValueError as error:
        raise UserError(str(error)) from error
    _write(out, network)


@sparse_group.command("prune")
@click.argument("network", type=Name())
@_out
@click.option("--weights", type=InputFile(), help="a checkpoint of the network, from `plinth train --save`; default: "
              "first values")
@click.option("--share", type=RealRange(0.0, 1.0), default=0.1, show_default=True, help="of weights that are kept")
@click.option("--per-layer", is_flag=True, help="each layer keeps this share; default: all together")
@_seed("of first values, without --weights")
def prune(network: str, out: Path, weights: Path | None, share: float, per_layer: bool, seed: int) -> None:
    """Make a network's fully connected layers sparse: they keep their largest weights, and biases begin at 0."""
    from plinth.network.file import load_network
    from plinth.network.parameters import initial_parameters
    from plinth.network.sparse.layers import pruned_network
    from plinth.train import checkpoint

    definition = load_network(network)
    parameters = (initial_parameters(definition, seed) if weights is None else
                  checkpoint.load(weights, definition).parameters)
    try:
        pruned = pruned_network(definition, parameters, share, per_layer=per_layer)
    except ValueError as error:
        raise UserError(str(error)) from error
    _write(out, pruned)


@sparse_group.command("read")
@click.argument("folder", type=Folder())
@_out
@click.option("--neurons", type=IntegerRange(1, MOST_NEURONS), required=True, help="of each layer")
@click.option("--layers", type=IntegerRange(1, MOST_LAYERS), required=True, help="files that are read, from the first")
def read(folder: Path, out: Path, neurons: int, layers: int) -> None:
    """Read the Graph Challenge's layers, text files nN-lK.tsv of a folder, to be trained: sigmoid, squared error."""
    import numpy as np

    from plinth.network.layers import Sparse
    from plinth.network.sparse.activations import SparseSigmoid
    from plinth.network.sparse.layers import layered
    from plinth.network.sparse.network import SparseNetwork
    from plinth.network.sparse.tsv import TsvLayers

    source = TsvLayers(folder, neurons, layers)
    try:
        network = layered(SparseNetwork(name=f"n{neurons}-l{layers}", source=source,
                                        biases=[np.zeros(neurons)] * layers, activations=[SparseSigmoid()] * layers))
    except ValueError as error:
        raise UserError(str(error)) from error
    connections = [layer.pattern.nonzeros for layer in network.layers if isinstance(layer, Sparse)]
    fewest = min(connections)
    if fewest != max(connections):
        click.echo(f"note: {source.path(connections.index(fewest))} has {fewest:,} connections, other layers up to "
                   f"{max(connections):,}; the Graph Challenge's layers have equal numbers: see that the file is whole",
                   err=True)
    _write(out, network)
