"""``plinth.shard``, ``plinth.partitioner``, ``plinth.get_runner`` and ``plinth.trainer``: a training loop for one
device, on as many workers as ``mpiexec`` starts (Parallax section 4.1)."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from plinth.api.arguments import choice, flag, integer, optional, path, real
from plinth.api.objects import network as network_of
from plinth.errors import UserError
from plinth.files.forms import described
from plinth.limits import MAXIMUM_BATCH, MAXIMUM_SEED
from plinth.names import AUTO_COPIES, COPY_NAMES, SERVERS
from plinth.network.layers import Embedding
from plinth.network.network import Network
from plinth.sharding import MAXIMUM_PIECES
from plinth.update.kinds import KINDS

if TYPE_CHECKING:
    from plinth.workers.group import Group
    from plinth.workers.network_trainer import Trainer
    from plinth.workers.torch_asynchronous import AsynchronousRunner
    from plinth.workers.torch_runner import TorchRunner

Samples = TypeVar("Samples")


class _Partitioner(NamedTuple):
    """A context of :func:`partitioner` that has been entered.

    Parameters
    ----------
    pieces : int or None
        In how many pieces it cuts tables; None: one a machine.
    loaded : bool
        PyTorch was loaded when it was entered.
    """

    pieces: int | None
    loaded: bool


#: The innermost context; None: outside of any.
_PARTITIONER: ContextVar[_Partitioner | None] = ContextVar("partitioner", default=None)


def shard(samples: Samples) -> Samples:
    """This worker's part of samples: every N-th of N workers, from its own number on, of each as many.

    So N workers with batches of b samples train on the samples of one that has batches of N b.

    Parameters
    ----------
    samples : array, sequence, tuple or dict of arrays, dataset of PyTorch, or iterable
        Of a tuple or dict each part. An iterable without a length gives every N-th of its items, each time that it is
        gone over; what is left of it behind the last N goes to nobody.

    Raises
    ------
    UserError
        If there are fewer samples than workers, parts of different lengths, or no samples by number.
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
        parts = [_part(part, worker, workers) for part in samples]
        return type(samples)(*parts) if hasattr(samples, "_fields") else tuple(parts)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(samples, torch.utils.data.DataLoader):
        raise UserError("a DataLoader's batches are of all samples, and in an order of its own; share its dataset: "
                        "DataLoader(plinth.shard(dataset), ...)")
    if not hasattr(samples, "__len__") and hasattr(samples, "__iter__"):
        return _Items(samples, worker, workers)
    try:
        count = len(samples) // workers
    except TypeError:
        count = -1
    if count < 0 or not hasattr(samples, "__getitem__"):
        raise UserError("samples must be an array, a sequence, a tuple or dict of these, a dataset, or an iterable, "
                        f"not {described(samples)}")
    if not count:
        raise UserError(f"{len(samples)} samples cannot be shared by {workers} workers; give each at least one")
    if torch is not None and isinstance(samples, torch.utils.data.Dataset):
        return torch.utils.data.Subset(samples, range(worker, count * workers, workers))
    return samples[worker:count * workers:workers]


class _Items:
    """Every N-th item of an iterable, each time that it is gone over."""

    def __init__(self, items: Iterable[Any], worker: int, workers: int) -> None:
        self._items, self._worker, self._workers = items, worker, workers

    def __iter__(self) -> Iterator[Any]:
        for number, item in enumerate(self._items):
            if number % self._workers == self._worker:
                own = item
            if number % self._workers == self._workers - 1:
                yield own


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
    from plinth.workers.torch_module import cut

    pieces = optional(integer, "pieces", pieces, 1, MAXIMUM_PIECES)
    _cut_made()
    torch = sys.modules.get("torch")
    token = _PARTITIONER.set(_Partitioner(pieces, torch is not None))
    made = None if torch is None else torch.nn.Embedding.__init__

    def cutting(self: Any, *arguments: Any, **options: Any) -> None:
        assert made is not None
        made(self, *arguments, **options)
        cut(self, pieces)

    if torch is not None:
        torch.nn.Embedding.__init__ = cutting
    try:
        yield
    finally:
        if torch is not None:
            torch.nn.Embedding.__init__ = made
        _cut_made()
        _PARTITIONER.reset(token)


def _cut_made() -> None:
    """Cut the embeddings that exist, if the innermost context was entered before PyTorch was loaded: all were made in
    it, or in one within it, which has cut them."""
    from plinth.workers.torch_module import cut, cut_of

    context, torch = _PARTITIONER.get(), sys.modules.get("torch")
    if context is None or context.loaded or torch is None:
        return
    for thing in gc.get_objects():
        # isinstance would ask things that stand for others what they are.
        if issubclass(type(thing), torch.nn.Embedding) and cut_of(thing) is None:
            cut(thing, context.pieces)


def trainer(network: str | Path | Network, *, update: str = "sgd", seed: int = 0,
            rate: float | None = None, momentum: float | None = None, epsilon: float | None = None) -> Trainer:
    """What a training loop over a network has on one device: ``step(x, y)`` trains on a batch, in numpy.

    Parameters
    ----------
    network : str, Path or Network
        As :func:`plinth.network` takes it.
    update : str
        An update rule of :data:`plinth.update.kinds.KINDS`.
    seed : int
        Of the first weights.
    rate, momentum, epsilon : float or None
        None: the rule's.

    Raises
    ------
    UserError
        If an argument is not what it may be, or numpy cannot run the network's step.
    """
    from plinth.api.choices import rule_of
    from plinth.array.array import ring
    from plinth.workers.network_trainer import PRESET, Trainer

    definition, seed = network_of(network), integer("seed", seed, 0, MAXIMUM_SEED)
    numbers = {name: optional(real, name, value) for name, value in (
        ("rate", rate), ("momentum", momentum), ("epsilon", epsilon))}
    rule = rule_of(ring(1, preset=PRESET), choice("update", update, KINDS), None, definition.name, **numbers)
    context = _PARTITIONER.get()
    tables = {} if context is None else {layer.name: context.pieces for layer in definition.layers
                                         if isinstance(layer, Embedding)}
    return Trainer(definition, rule, seed, pieces=tables)


def get_runner(model: Any, optimizer: Any = None, resources: Any = None, *,
               copies: str | Mapping[str, str] = AUTO_COPIES, local_aggregation: bool = True, average: bool = True,
               touched: float | Mapping[str, float] | None = None, dense_from: float | None = None,
               search_steps: int = 0, staleness: int = 0
               ) -> Trainer | TorchRunner | AsynchronousRunner:
    """Keep the copies of a model's variables equal on all workers that ``mpiexec`` has started. Collective.

    Parameters
    ----------
    model : Trainer or torch.nn.Module
        What the loop trains. All workers begin with the first one's values.
    optimizer : torch.optim.Optimizer or None
        Of a module: what the loop updates with, whatever its hyper-parameters.
    resources : None, "hosts", path, or sequence of sequences of int
        Which workers share a machine: each has one of its own, by the names of hosts, a YAML file with ``machines``
        (and, if they are known, ``gigabits`` and ``microseconds`` of the network), or its value.
    copies : str or mapping of str to str
        How copies of tables are kept equal: a name of :data:`plinth.names.COPY_NAMES`, of all or of each by name. By
        name too of other matrices of a module, whose rows a step reads by number: gathered, rings, or auto.
    touched : float, mapping of str to float, or None
        Share of rows that a worker's samples touch in a step, of all tables or of each by name: with ``copies="auto"``
        a table is kept equal the way of the fewest words then (Table 3), or of the least time, where ``resources``
        says what the network carries. By name of other matrices of a module, too:
        gathered rows or rings. None: nobody knows; tables have servers, and steps find such matrices.
    local_aggregation : bool
        Gradients are merged on a machine before they go over the network.
    average : bool
        Gradients of a module are means over workers; else sums.
    dense_from : float or None
        The share of ``touched`` from which a table is taken for dense; None: never.
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
    from plinth.workers.torch_module import check_optimizer, is_module
    from plinth.workers.torch_runner import TorchRunner

    local, mean = flag("local_aggregation", local_aggregation), flag("average", average)
    share = optional(real, "dense_from", dense_from, 0, 1)
    shares = {name: real("touched", value, 0, 1) for name, value in touched.items()} if isinstance(
        touched, Mapping) else optional(real, "touched", touched, 0, 1)
    if isinstance(resources, (str, Path)):
        path("resources", resources)
    if not isinstance(copies, Mapping):
        choice("copies", copies, COPY_NAMES)
    if not isinstance(model, Trainer) and not is_module(model):
        raise UserError(f"model must be a trainer of plinth.trainer, or a module of PyTorch, not {described(model)}")
    search_steps = integer("search_steps", search_steps, 0, MAXIMUM_BATCH)
    staleness = integer("staleness", staleness, 0, MAXIMUM_BATCH)
    if isinstance(model, Trainer):
        if optimizer is not None:
            raise UserError("a trainer has its own update rule; leave out optimizer")
        _leave_out("a trainer's workers are dies, which update together", {
            "resources": resources is not None, "local_aggregation": not local, "average": not mean,
            "search_steps": search_steps > 0, "staleness": staleness > 0})
    elif optimizer is None:
        raise UserError("a module needs the optimizer that its loop updates with; give optimizer")
    else:
        check_optimizer(optimizer, model)
        # It may be in a context yet.
        _cut_made()
    if staleness:
        _leave_out("with staleness each worker serves its share of all rows, whoever it shares a machine with", {
            "resources": resources is not None, "copies": copies not in (AUTO_COPIES, SERVERS),
            "local_aggregation": not local, "search_steps": search_steps > 0, "touched": touched is not None,
            "dense_from": dense_from is not None})
    workers = joined()
    _check_alike(workers, {
        "model": type(model).__name__, "variables": _variables(model), "optimizer": type(optimizer).__name__,
        "resources": str(resources), "copies": str(copies), "local_aggregation": local, "average": mean,
        "touched": str(touched), "dense_from": share, "search_steps": search_steps, "staleness": staleness})
    machines = machines_of(resources, workers.size, workers.told(host_name()), local=local)
    if isinstance(model, Trainer):
        model.join(workers, machines, copies, shares, share)
        return model
    if staleness and isinstance(workers, MpiMessages):
        return AsynchronousRunner(model, optimizer, workers, staleness, average=mean)
    return TorchRunner(model, optimizer, workers, machines, ways=copies, average=mean, touched=shares,
                       dense_from=share, search_steps=search_steps)


def _leave_out(why: str, given: Mapping[str, bool]) -> None:
    """Refuse the first of arguments that are given in vain."""
    for name in (name for name, value in given.items() if value):
        raise UserError(f"{why}; leave out {name}")


def _variables(model: Any) -> str:
    """The variables of a model with their shapes, and pieces of tables."""
    from plinth.workers.network_trainer import Trainer
    from plinth.workers.torch_module import cut_of

    if isinstance(model, Trainer):
        return f"{model.network.name} {model.network.layers} {model.rule} {sorted(model.pieces.items())}"
    shapes = [(name, tuple(parameter.shape)) for name, parameter in model.named_parameters()]
    return f"{shapes} {[(name, pieces) for name, part in model.named_modules() if (pieces := cut_of(part))]}"


def _check_alike(workers: Group, own: Mapping[str, Any]) -> None:
    """Refuse workers that were not given the same. Collective."""
    for worker, other in enumerate(workers.told(dict(own))):
        for name in (name for name in own if other[name] != own[name]):
            what = "variables, or pieces of tables" if name == "variables" else name
            values = "" if name == "variables" else f", {other[name]!r} and {own[name]!r}"
            raise UserError(f"workers {worker} and {workers.own} have other {what}{values}; run the same loop on all")
