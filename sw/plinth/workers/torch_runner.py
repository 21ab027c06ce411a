"""A PyTorch module whose copies workers keep equal around a training loop for one device.

Embeddings made with ``sparse=True`` are tables: autograd gives their gradients as row numbers and values. A hook before
each such embedding pulls the rows that it looks up; :meth:`TorchRunner.step` pushes their gradients, sums dense ones
meanwhile, and lets the loop's own optimiser update: dense parameters alike on all workers, rows of tables where they
are owned.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from plinth.errors import UserError, quoted
from plinth.runtime.memory import Floats
from plinth.workers.channel import Rows
from plinth.workers.group import Group
from plinth.workers.machines import Machines
from plinth.workers.runner import Exchange, TableSettings, ways_of


def tables_of(module: Any, pieces: Mapping[int, int | None], machines: int
              ) -> tuple[dict[str, Any], list[TableSettings]]:
    """The sparse embeddings of a module by the names of their weights, and what they are as tables.

    Parameters
    ----------
    pieces : mapping of int to int or None
        By the identity of embeddings that a partitioner has cut, in how many pieces; None: one a machine.

    Raises
    ------
    UserError
        If the embedding is used as none can be that is shared.
    """
    import torch

    embeddings: dict[str, Any] = {}
    for name, part in module.named_modules():
        if isinstance(part, torch.nn.EmbeddingBag) and part.sparse:
            raise UserError(f"embedding bag {quoted(name)} is sparse, and gives no rows by number that could be "
                            "looked up; use an Embedding and a sum, or sparse=False")
        if not isinstance(part, torch.nn.Embedding) or not part.sparse:
            continue
        if part.max_norm is not None:
            raise UserError(f"embedding {quoted(name)} has max_norm, which changes rows outside of any step; leave it "
                            "out, or give sparse=False")
        if part.scale_grad_by_freq:
            raise UserError(f"embedding {quoted(name)} has scale_grad_by_freq, which weighs rows by one worker's "
                            "samples; leave it out, or give sparse=False")
        if part.weight.dtype != torch.float32 or part.weight.device.type != "cpu":
            raise UserError(f"embedding {quoted(name)} is {part.weight.dtype} on {part.weight.device}; workers share "
                            "float32 on the CPU")
        embeddings[f"{name}.weight" if name else "weight"] = part
    owners: dict[int, str] = {}
    for name, part in embeddings.items():
        if id(part.weight) in owners:
            raise UserError(f"embeddings {owners[id(part.weight)]!r} and {name!r} have one weight; give each its own, "
                            "or sparse=False")
        owners[id(part.weight)] = name
    for name, part in module.named_modules():
        for own, parameter in part.named_parameters(recurse=False):
            whole = f"{name}.{own}" if name else own
            if id(parameter) in owners and whole not in embeddings:
                raise UserError(f"weight {whole!r} is that of sparse embedding {owners[id(parameter)]!r} too, whose "
                                "gradient is not rows alone then; give it one of its own, or sparse=False")
    settings = [TableSettings(name, (part.num_embeddings, part.embedding_dim),
                              _pieces(pieces, part, machines)) for name, part in embeddings.items()]
    return embeddings, settings


def _pieces(pieces: Mapping[int, int | None], part: Any, machines: int) -> int:
    if id(part) not in pieces:
        return 1
    asked = pieces[id(part)]
    count = min(machines, part.num_embeddings) if asked is None else asked
    if count > part.num_embeddings:
        raise UserError(f"an embedding of {part.num_embeddings} rows cannot be cut in {count} pieces; give at most as "
                        "many pieces as rows")
    return count


class TorchRunner:
    """Keeps the copies of a module's parameters equal.

    Parameters
    ----------
    module : torch.nn.Module
    optimizer : torch.optim.Optimizer
        Over the module's parameters, with whatever hyper-parameters.
    workers : Group
    machines : Machines
    pieces : mapping of int to int or None
        As of :func:`tables_of`.
    ways : str or mapping of str to str
        How copies of tables are kept equal: :func:`plinth.workers.runner.ways_of`.
    average : bool
        Gradients are means over workers; else sums.
    dense_from : float or None
        Share of touched rows from which a table is taken for dense.

    Attributes
    ----------
    ways : dict of str to str
        How the copies of each table are kept equal.
    """

    def __init__(self, module: Any, optimizer: Any, workers: Group, machines: Machines, *,
                 pieces: Mapping[int, int | None], ways: str | Mapping[str, str], average: bool = True,
                 dense_from: float | None = None) -> None:
        self.module, self.optimizer, self.workers = module, optimizer, workers
        self._embeddings, tables = tables_of(module, pieces, len(machines.members))
        self.ways = ways_of(tables, machines, ways, dense_from)
        table_weights = {id(part.weight) for part in self._embeddings.values()}
        self._dense = [(name, parameter) for name, parameter in module.named_parameters()
                       if id(parameter) not in table_weights and parameter.requires_grad]
        for name, parameter in self._dense:
            if str(parameter.dtype) != "torch.float32" or parameter.device.type != "cpu":
                raise UserError(f"parameter {name!r} is {parameter.dtype} on {parameter.device}; workers share float32 "
                                "on the CPU")
        self.exchange = Exchange(
            workers, machines, tables, [parameter.numel() for _, parameter in self._dense], self.ways,
            {name: partial(self._rows, name) for name in self._embeddings})
        self._share = np.float32(1 / workers.size if average else 1.0)
        self._looked_up: dict[str, Rows] = {}
        self._aggregated = False
        self._hooks = [part.register_forward_pre_hook(self._hook(name)) for name, part in self._embeddings.items()]
        self._copy_first()

    def _copy_first(self) -> None:
        """All workers begin with the first one's values."""
        import torch

        if self.workers.size == 1:
            return
        own = [parameter.detach().numpy() for _, parameter in self.module.named_parameters()]
        sizes = [part.size for part in own] if self.workers.own == 0 else [0] * len(own)
        counts = [sum(part.size for part in own), *[0] * (self.workers.size - 1)]
        flat = np.concatenate([part.reshape(-1) for part in own]) if sum(sizes) else np.empty(0, np.float32)
        first = self.workers.gathered(flat, counts)
        with torch.no_grad():
            for part in own:
                part.reshape(-1)[:], first = first[:part.size], first[part.size:]

    def _values(self, name: str) -> Floats:
        values: Floats = self._embeddings[name].weight.detach().numpy()
        return values

    def _rows(self, name: str, rows: Rows) -> Floats:
        values: Floats = self._values(name)[rows]
        return values

    def _hook(self, name: str) -> Any:
        def pull(part: Any, arguments: tuple[Any, ...]) -> None:
            import torch

            if not (part.training and torch.is_grad_enabled()):
                return
            numbers = arguments[0].detach().numpy()
            rows = np.unique(numbers)
            if len(rows) and not 0 <= rows[0] <= rows[-1] < part.num_embeddings:
                where = np.argwhere((numbers < 0) | (numbers >= part.num_embeddings))[0].tolist()
                raise UserError(f"embedding {name!r} has rows 0 to {part.num_embeddings - 1}, not "
                                f"{numbers[tuple(where)]}, which stands at {where} of what it looks up")
            values = self.exchange.pull(name, rows)
            self._looked_up[name] = rows
            if values is not None:
                self._values(name)[rows] = values

        return pull

    def aggregate(self) -> None:
        """Sum gradients over all workers, in place of the loop's own: of dense parameters on all of them, of tables
        where their rows are owned. :meth:`step` does it, if the loop has not. Collective.

        Raises
        ------
        UserError
            If a gradient is not finite, or another worker has ended.
        """
        import torch

        if self._aggregated:
            return
        dense: list[Floats] = []
        for _, parameter in self._dense:
            gradient = parameter.grad
            dense.append(np.zeros(tuple(parameter.shape), np.float32) if gradient is None else
                         gradient.detach().numpy() * self._share)
        rows: dict[str, tuple[Rows, Floats]] = {}
        for name, part in self._embeddings.items():
            rows[name] = self._rows_of(name, part)
        sums, tables = self.exchange.aggregate(dense, rows)
        for (_, parameter), total in zip(self._dense, sums, strict=True):
            parameter.grad = torch.from_numpy(total.copy())
        for name, (numbers, values) in tables.items():
            part = self._embeddings[name]
            part.weight.grad = torch.sparse_coo_tensor(
                torch.from_numpy(numbers[None].copy()), torch.from_numpy(values.copy()), tuple(part.weight.shape),
                is_coalesced=True, check_invariants=False) if len(numbers) else None
        self._aggregated = True

    def _rows_of(self, name: str, part: Any) -> tuple[Rows, Floats]:
        """The rows that this worker has looked up, and their gradients: 0 of rows that have none."""
        rows, width = self._looked_up.pop(name, np.zeros(0, np.int64)), part.embedding_dim
        gradients = np.zeros((len(rows), width), np.float32)
        if part.weight.grad is not None:
            gradient = part.weight.grad.coalesce()
            numbers = gradient.indices()[0].numpy()
            places = np.searchsorted(rows, numbers)
            if len(numbers) and (places.max(initial=0) >= len(rows) or not np.array_equal(rows[places], numbers)):
                raise UserError(f"embedding {name!r} has gradients of rows that the step has not looked up; zero "
                                "gradients between steps")
            gradients[places] = gradient.values().numpy() * self._share
        return rows, gradients

    def step(self) -> None:
        """Update, in place of ``optimizer.step()``. Collective."""
        self.aggregate()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._aggregated = False

    def global_norm(self) -> float:
        """The norm of all aggregated gradients together, as clipping asks for it. Collective."""
        self.aggregate()
        squares = 0.0
        for name, part in self._embeddings.items():
            if part.weight.grad is not None and (not self.exchange.tables[name].replicated or self.workers.own == 0):
                squares += float((part.weight.grad.coalesce().values().double() ** 2).sum())
        squares = float(sum(self.workers.told(squares)))
        for _, parameter in self._dense:
            if parameter.grad is not None:
                squares += float((parameter.grad.double() ** 2).sum())
        return float(np.sqrt(squares))

    def clip(self, most: float) -> float:
        """Scale aggregated gradients so that their norm is at most so much; the norm before. Collective."""
        norm = self.global_norm()
        factor = np.float32(min(1.0, most / (norm + 1e-6)))
        for parameter in [parameter for _, parameter in self._dense] + [
                part.weight for part in self._embeddings.values()]:
            if parameter.grad is not None:
                parameter.grad = parameter.grad * float(factor)
        return norm

    def refresh(self) -> None:
        """Give every worker the rows that others own, before it evaluates or saves the module. Collective."""
        for name in self._embeddings:
            table, values = self.exchange.tables[name], self._values(name)
            if table.replicated or self.workers.size == 1:
                continue
            owned = table.owned()
            every = [np.asarray(rows, np.int64) for rows in self.workers.told(owned.tolist())]
            counts = [len(rows) * values.shape[1] for rows in every]
            flat = self.workers.gathered(values[owned].reshape(-1), counts)
            values[np.concatenate(every)] = flat.reshape(-1, values.shape[1])

    def sent(self) -> dict[str, int]:
        """The words of values and of row numbers, and the messages, that this worker has sent other machines."""
        return self.exchange.sent()


def is_module(model: Any) -> bool:
    """Whether something is a module of PyTorch, which is not loaded for it."""
    import sys

    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)

