"""``plinth.shard``, ``plinth.partitioner``, ``plinth.get_runner`` and ``plinth.trainer``: a training loop for one
device, on as many workers as ``mpiexec`` starts (Parallax section 4.1)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from plinth.api.arguments import choice, flag, optional
from plinth.api.objects import network as network_of
from plinth.errors import UserError
from plinth.files.forms import described, is_integer
from plinth.limits import MAXIMUM_BATCH
from plinth.names import AUTO_COPIES, COPY_NAMES, SERVERS
from plinth.network.layers import Embedding
from plinth.network.network import Network
from plinth.sharding import MAXIMUM_PIECES
from plinth.update.kinds import KINDS

if TYPE_CHECKING:
    from plinth.workers.network_trainer import Trainer
    from plinth.workers.torch_asynchronous import AsynchronousRunner
    from plinth.workers.torch_runner import TorchRunner

Samples = TypeVar("Samples")
#: In how many pieces tables that are made now are cut, in a tuple; None of it: outside of any partitioner.
_PIECES: ContextVar[tuple[int | None] | None] = ContextVar("pieces", default=None)
#: By the identity of PyTorch's embeddings that a partitioner has cut.
_CUT: dict[int, int | None] = {}


def shard(samples: Samples) -> Samples:
    """This worker's part of samples: every N-th of N workers, from its own number on, of each as many.

    So N workers with batches of b samples train on the samples of one that has batches of N b.

    Parameters
    ----------
    samples : array, sequence, tuple or dict of arrays, dataset of PyTorch, or iterable
        Of a tuple or dict each part. An iterable without a length gives every N-th of its items, when it is gone over.

    Raises
    ------
    UserError
        If there are fewer samples than workers, or parts of different lengths.
    """
    from plinth.workers.group import rank_and_size

    worker, workers = rank_and_size()
    result: Any = _part(samples, worker, workers)
    return result  # type: ignore[no-any-return]


def _part(samples: Any, worker: int, workers: int) -> Any:
    if workers == 1:
        return samples
    if isinstance(samples, Mapping):
        _check_lengths(list(samples.values()))
        return {name: _part(part, worker, workers) for name, part in samples.items()}
    if isinstance(samples, tuple):
        _check_lengths(list(samples))
        return tuple(_part(part, worker, workers) for part in samples)
    torch = sys.modules.get("torch")
    if not hasattr(samples, "__len__"):
        return islice(iter(samples), worker, None, workers)
    count = len(samples) // workers
    if not count:
        raise UserError(f"{len(samples)} samples cannot be shared by {workers} workers; give each at least one")
    if torch is not None and isinstance(samples, torch.utils.data.Dataset):
        return torch.utils.data.Subset(samples, range(worker, count * workers, workers))
    return samples[worker:count * workers:workers]


def _check_lengths(parts: Sequence[Any]) -> None:
    lengths = {len(part) for part in parts if hasattr(part, "__len__")}
    if len(lengths) > 1:
        raise UserError(f"samples have parts of {', '.join(map(str, sorted(lengths)))}; give parts of one length")


@contextmanager
def partitioner(pieces: int | None = None) -> Iterator[None]:
    """Embeddings that are made in this context are cut in pieces of rows, which servers own.

    Parameters
    ----------
    pieces : int or None
        In how many pieces; None: one a machine. Several contexts may cut in different numbers.

    Raises
    ------
    UserError
        If it is no such number.
    """
    if pieces is not None and not is_integer(pieces, 1, MAXIMUM_PIECES):
        raise UserError(f"pieces must be an integer from 1 to {MAXIMUM_PIECES}, not {described(pieces)}")
    token, torch = _PIECES.set((pieces,)), sys.modules.get("torch")
    made = None if torch is None else torch.nn.Embedding.__init__

    def noting(self: Any, *arguments: Any, **options: Any) -> None:
        assert made is not None
        made(self, *arguments, **options)
        _CUT[id(self)] = pieces

    if torch is not None:
        torch.nn.Embedding.__init__ = noting
    try:
        yield
    finally:
        if torch is not None:
            torch.nn.Embedding.__init__ = made
        _PIECES.reset(token)


def trainer(network: str | Path | Network, *, update: str = "sgd", seed: int = 0, **numbers: float) -> Trainer:
    """What a training loop over a network has on one device: ``step(x, y)`` trains on a batch, in numpy.

    Parameters
    ----------
    network : str, Path or Network
        As :func:`plinth.network` takes it.
    update : str
        An update rule of :data:`plinth.update.kinds.KINDS`.
    seed : int
        Of the first weights.
    numbers
        ``rate``, ``momentum``, ``epsilon``; by default the rule's.

    Raises
    ------
    UserError
        If an argument is not what it may be, or numpy cannot run the network's step.
    """
    from plinth.api.choices import rule_of
    from plinth.array.array import ring
    from plinth.workers.network_trainer import PRESET, Trainer

    definition = network_of(network)
    if not is_integer(seed, 0, (1 << 63) - 1):
        raise UserError(f"seed must be an integer from 0 on, not {described(seed)}")
    rule = rule_of(ring(1, preset=PRESET), choice("update", update, KINDS), None, definition.name, **numbers)
    pieces = _PIECES.get()
    tables = {} if pieces is None else {layer.name: pieces[0] for layer in definition.layers
                                        if isinstance(layer, Embedding)}
    return Trainer(definition, rule, seed, pieces=tables)


def get_runner(model: Any, optimizer: Any = None, resources: Any = None, *,
               copies: str | Mapping[str, str] = AUTO_COPIES, local_aggregation: bool = True, average: bool = True,
               dense_from: float | None = None, search_steps: int = 0, staleness: int = 0
               ) -> Trainer | TorchRunner | AsynchronousRunner:
    """Keep the copies of a model's variables equal on all workers that ``mpiexec`` has started. Collective.

    Parameters
    ----------
    model : Trainer or torch.nn.Module
        What the loop trains. All workers begin with the first one's values.
    optimizer : torch.optim.Optimizer or None
        Of a module: what the loop updates with, whatever its hyper-parameters.
    resources : None, "hosts", path, or sequence of sequences of int
        Which workers share a machine: each has one of its own, by the names of hosts, a YAML file with ``machines``,
        or its value.
    copies : str or mapping of str to str
        How copies of tables are kept equal: a name of :data:`plinth.names.COPY_NAMES`, of all or of each by name.
    local_aggregation : bool
        Gradients are merged on a machine before they go over the network.
    average : bool
        Gradients of a module are means over workers; else sums.
    dense_from : float or None
        Share of touched rows from which a table is taken for dense; None: never.
    search_steps : int
        Of a module: the number of pieces of tables that ``partitioner()`` has cut is searched for at the beginning,
        with so many steps for each number that is tried (Parallax section 3.2); 0: one piece a machine.
    staleness : int
        Of a module: how many steps a worker may be ahead of another one, while servers apply each worker's update as
        it comes; 0: all update together.

    Returns
    -------
    Trainer, TorchRunner or AsynchronousRunner
        Its ``step`` takes the place of the loop's own: of a module that of ``optimizer.step()``.

    Raises
    ------
    UserError
        If an argument is not what it may be, a module uses an embedding as none can that is shared, or workers are not
        alike.
    """
    from plinth.runtime.mpi_messages import MpiMessages
    from plinth.workers.group import host_name, joined
    from plinth.workers.machines import machines_of
    from plinth.workers.network_trainer import Trainer
    from plinth.workers.torch_asynchronous import AsynchronousRunner
    from plinth.workers.torch_module import is_module
    from plinth.workers.torch_runner import TorchRunner

    local, mean = flag("local_aggregation", local_aggregation), flag("average", average)
    share = optional(_share, "dense_from", dense_from)
    if not isinstance(copies, Mapping):
        choice("copies", copies, COPY_NAMES)
    if not isinstance(model, Trainer) and not is_module(model):
        raise UserError(f"model must be a trainer of plinth.trainer, or a module of PyTorch, not {described(model)}")
    if not is_integer(search_steps, 0, MAXIMUM_BATCH):
        raise UserError(f"search_steps must be an integer from 0 to {MAXIMUM_BATCH}, not {described(search_steps)}")
    if not is_integer(staleness, 0, MAXIMUM_BATCH):
        raise UserError(f"staleness must be an integer from 0 to {MAXIMUM_BATCH}, not {described(staleness)}")
    if staleness:
        _check_own_pace(model, resources, copies, search_steps, share)
    workers = joined()
    machines = machines_of(resources, workers.size, workers.told(host_name()), local=local)
    if isinstance(model, Trainer):
        if optimizer is not None:
            raise UserError("a trainer has its own update rule; leave out optimizer")
        model.join(workers, machines, copies, share)
        return model
    if optimizer is None:
        raise UserError("a module needs the optimizer that its loop updates with; give optimizer")
    if staleness and isinstance(workers, MpiMessages):
        return AsynchronousRunner(model, optimizer, workers, staleness, average=mean)
    return TorchRunner(model, optimizer, workers, machines, pieces=_CUT, ways=copies, average=mean, dense_from=share,
                       search_steps=search_steps)


def _check_own_pace(model: Any, resources: Any, copies: Any, search_steps: int, dense_from: float | None) -> None:
    """Refuse what workers that do not wait for each other cannot have."""
    from plinth.workers.torch_module import is_module

    if not is_module(model):
        raise UserError("a trainer's steps are those of dies, which update together; leave out staleness, or train a "
                        "module of PyTorch")
    others = {"resources": resources is not None, "copies": copies not in (AUTO_COPIES, SERVERS),
              "search_steps": search_steps > 0, "dense_from": dense_from is not None}
    for name in (name for name, given in others.items() if given):
        raise UserError(f"with staleness each worker serves its share of all rows, whoever it shares a machine with; "
                        f"leave out {name}")


def _share(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise UserError(f"{name} must be a share from 0 to 1, not {described(value)}")
    return float(value)

