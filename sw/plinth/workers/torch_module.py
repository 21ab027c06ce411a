"""A PyTorch module as workers see it: tables, which are its embeddings made with ``sparse=True``, and dense parameters.

Autograd gives gradients of tables as row numbers and values. A hook before each table tells which rows are looked up,
so that whoever shares them can fetch them first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from plinth.errors import UserError, quoted
from plinth.files.forms import described
from plinth.runtime.memory import Floats
from plinth.workers.channel import Rows
from plinth.workers.group import Group
from plinth.workers.indexed import Gradient, SparseGradient
from plinth.workers.runner import TableSettings, TouchedRows

#: What fetches rows of a table before they are looked up; None: those that the module has are right.
Fetch = Callable[[str, Rows], Floats | None]


def cut(embedding: Any, pieces: int | None) -> None:
    """Cut an embedding in a number of pieces; None: one a machine. Copies of it, by deepcopy or pickle, are cut alike.
    """
    embedding.plinth_pieces = (pieces,)


def cut_of(part: Any) -> tuple[int | None] | None:
    """The number of pieces that :func:`cut` was given for a part of a module, in a tuple; None: it is not cut."""
    pieces: tuple[int | None] | None = getattr(part, "plinth_pieces", None)
    return pieces


def tables_of(module: Any, machines: int) -> tuple[dict[str, Any], list[TableSettings]]:
    """The sparse embeddings of a module by the names of their weights, and what they are as tables.

    Raises
    ------
    UserError
        If an embedding is used as none can be that is shared, or is cut in more pieces than it has rows.
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
                              _pieces(part, machines)) for name, part in embeddings.items()]
    return embeddings, settings


def _is_layer(part: Any) -> bool:
    """Whether a part of a module is a layer of PyTorch, or made of one, whose weights are used as it says."""
    return any(kind.__module__.startswith("torch.nn.")
               and kind.__module__ not in ("torch.nn.modules.module", "torch.nn.modules.container")
               for kind in type(part).__mro__)


def _pieces(part: Any, machines: int) -> int:
    asked = cut_of(part)
    if asked is None:
        return 1
    count = min(machines, part.num_embeddings) if asked[0] is None else asked[0]
    if count > part.num_embeddings:
        raise UserError(f"an embedding of {part.num_embeddings} rows cannot be cut in {count} pieces; give at most as "
                        "many pieces as rows")
    return count


class ModuleVariables:
    """The variables of a module.

    Parameters
    ----------
    module : torch.nn.Module
    machines : int
        How many pieces an embedding has that was cut without a number.

    Attributes
    ----------
    embeddings : dict of str to torch.nn.Embedding
        Tables, by the names of their weights.
    tables : list of TableSettings
        What they are as tables.
    dense : list of (str, torch.nn.Parameter)
        Other parameters that are trained.
    matrices : list of TableSettings
        Those of them that have rows.
    own_matrices : set of str
        Those of the matrices that belong to no layer of PyTorch.

    Raises
    ------
    UserError
        As :func:`tables_of`; if a dense parameter is not float32 on the CPU.
    """

    def __init__(self, module: Any, machines: int) -> None:
        self._module = module
        self.embeddings, self.tables = tables_of(module, machines)
        weights = {id(part.weight) for part in self.embeddings.values()}
        self.dense = [(name, parameter) for name, parameter in module.named_parameters()
                      if id(parameter) not in weights and parameter.requires_grad]
        for name, parameter in self.dense:
            if str(parameter.dtype) != "torch.float32" or parameter.device.type != "cpu":
                raise UserError(f"parameter {name!r} is {parameter.dtype} on {parameter.device}; workers share float32 "
                                "on the CPU")
        self.matrices = [TableSettings(name, (len(parameter), parameter.shape[1])) for name, parameter in self.dense
                         if parameter.dim() == 2 and parameter.numel()]
        layers = {id(parameter) for part in module.modules() if _is_layer(part)
                  for parameter in part.parameters(recurse=False)}
        self.own_matrices = {name for name, parameter in self.dense if id(parameter) not in layers} & {
            own.name for own in self.matrices}
        self._looked_up: dict[str, Rows] = {}
        self._counts = {table.name: TouchedRows(table.shape[0]) for table in self.tables}

    def touched(self) -> dict[str, float]:
        """The share of the rows of each table that this worker has looked up in a step, on the mean."""
        return {name: rows.share for name, rows in self._counts.items()}

    @property
    def elements(self) -> dict[str, int]:
        """The elements of each variable."""
        return {**{name: parameter.numel() for name, parameter in self.dense},
                **{table.name: table.shape[0] * table.shape[1] for table in self.tables}}

    def values(self, name: str) -> Floats:
        """The values of a table ``[rows, width]``, which are the module's own."""
        values: Floats = self.embeddings[name].weight.detach().numpy()
        return values

    def rows(self, name: str, rows: Rows) -> Floats:
        """The values of rows of a table."""
        values: Floats = self.values(name)[rows]
        return values

    def copy_first(self, workers: Group) -> None:
        """All workers begin with the first one's values. Collective."""
        import torch

        if workers.size == 1:
            return
        own = [parameter.detach().numpy() for _, parameter in self._module.named_parameters()]
        total = sum(part.size for part in own)
        flat = np.concatenate([part.reshape(-1) for part in own]) if workers.own == 0 else np.empty(0, np.float32)
        first = workers.gathered(flat, [total, *[0] * (workers.size - 1)])
        with torch.no_grad():
            for part in own:
                part.reshape(-1)[:], first = first[:part.size], first[part.size:]

    def hook(self, fetch: Fetch) -> None:
        """Fetch rows before they are looked up, when the module trains.

        Each look-up raises UserError if a row number is none of its table.
        """
        for name, part in self.embeddings.items():
            part.register_forward_pre_hook(self._hook(name, fetch), with_kwargs=True)

    def _hook(self, name: str, fetch: Fetch) -> Any:
        def pull(part: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
            import torch

            if not (part.training and torch.is_grad_enabled()):
                return
            numbers = (arguments[0] if arguments else named["input"]).detach().numpy()
            rows = np.unique(numbers)
            if len(rows) and not 0 <= rows[0] <= rows[-1] < part.num_embeddings:
                where = np.argwhere((numbers < 0) | (numbers >= part.num_embeddings))[0].tolist()
                raise UserError(f"embedding {name!r} has rows 0 to {part.num_embeddings - 1}, not "
                                f"{numbers[tuple(where)]}, which stands at {where} of what it looks up")
            values = fetch(name, rows)
            self._looked_up[name] = rows
            self._counts[name].add(len(rows))
            if values is not None:
                self.values(name)[rows] = values

        return pull

    def gradients(self, factor: np.float32) -> dict[str, Gradient]:
        """Gradients of dense parameters times a factor, as autograd gives them; None of those that have none.

        Raises
        ------
        UserError
            If one is sparse, and not of rows of a matrix.
        """
        return {name: _gradient(name, parameter.grad, factor) for name, parameter in self.dense}

    def dense_gradients(self, factor: np.float32) -> dict[str, Floats | None]:
        """Gradients of dense parameters times a factor; None of those that have none.

        Raises
        ------
        UserError
            If one is sparse.
        """
        dense: dict[str, Floats | None] = {}
        for name, gradient in self.gradients(factor).items():
            if isinstance(gradient, SparseGradient):
                raise UserError(f"parameter {name!r} has gradients of rows, which workers that do not wait for each "
                                "other have of torch.nn.Embedding alone; make it one with sparse=True, look it up "
                                "without sparse=True, or leave out staleness")
            dense[name] = gradient
        return dense

    def row_gradients(self, factor: np.float32) -> dict[str, tuple[Rows, Floats]]:
        """The rows of each table that this worker has looked up in the step that ends, and their gradients times a
        factor: 0 of rows that have none.

        Raises
        ------
        UserError
            If there are gradients of other rows, or of all.
        """
        return {name: self._rows_of(name, part, factor) for name, part in self.embeddings.items()}

    def _rows_of(self, name: str, part: Any, factor: np.float32) -> tuple[Rows, Floats]:
        rows, width = self._looked_up.pop(name, np.zeros(0, np.int64)), part.embedding_dim
        gradients = np.zeros((len(rows), width), np.float32)
        if part.weight.grad is not None:
            if not part.weight.grad.is_sparse:
                raise UserError(f"embedding {name!r} has a gradient of all rows, as the step uses its weight in "
                                "another way as well (by index, in a sum or a product); only call the embedding, or "
                                "give sparse=False")
            gradient = part.weight.grad.coalesce()
            numbers = gradient.indices()[0].numpy()
            places = np.searchsorted(rows, numbers)
            if len(numbers) and (places.max(initial=0) >= len(rows) or not np.array_equal(rows[places], numbers)):
                raise UserError(f"embedding {name!r} has gradients of rows that no call of it in train() has looked up "
                                "in this step; call the embedding in place of torch.nn.functional.embedding, have it "
                                "in train(), and zero gradients between steps")
            gradients[places] = gradient.values().numpy() * factor
        return rows, gradients


def _gradient(name: str, gradient: Any, factor: np.float32) -> Gradient:
    """The gradient of a parameter, times a factor."""
    if gradient is None:
        return None
    if not gradient.is_sparse:
        values: Floats = gradient.detach().numpy() * factor
        return values
    if gradient.dim() != 2 or gradient.sparse_dim() != 1:
        raise UserError(f"parameter {name!r} has a sparse gradient of shape {tuple(gradient.shape)} that is not one of "
                        "rows of a matrix; have autograd give it dense")
    rows = gradient.coalesce()
    return SparseGradient(rows.indices()[0].numpy(), rows.values().numpy() * factor)


def sparse_gradient(like: Any, rows: Rows, values: Floats) -> Any:
    """The gradient of rows of a table, ascending, each once, as PyTorch has it."""
    import torch

    return torch.sparse_coo_tensor(torch.from_numpy(rows[None].copy()), torch.from_numpy(
        values.reshape(len(rows), like.shape[1]).copy()), tuple(like.shape), is_coalesced=True, check_invariants=False)


def check_optimizer(optimizer: Any, module: Any) -> None:
    """Refuse what is no optimizer of a module's parameters, or one whose rule needs gradients of all rows of a table.

    Raises
    ------
    UserError
    """
    import torch

    if not isinstance(optimizer, torch.optim.Optimizer):
        raise UserError(f"optimizer must be one of PyTorch, over the module's parameters, not {described(optimizer)}")
    own = {id(parameter) for parameter in module.parameters()}
    others = sum(id(parameter) not in own for group in optimizer.param_groups for parameter in group["params"])
    if others:
        raise UserError(f"optimizer has {others} parameters that are not the module's; make it of module.parameters()")
    check_rule(optimizer, {id(part.weight): f"sparse embedding {quoted(name)}" for name, part in module.named_modules()
                           if isinstance(part, torch.nn.Embedding) and part.sparse and part.weight.requires_grad})


def check_rule(optimizer: Any, tables: Mapping[int, str]) -> None:
    """Refuse an optimizer whose rule needs gradients of all rows of parameters that have those of rows.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
    tables : mapping of int to str
        What these parameters are called, by their identity.

    Raises
    ------
    UserError
    """
    import torch

    kind = type(optimizer)
    dense = kind.__module__.split(".")[0] == "torch" and not issubclass(
        kind, (torch.optim.SGD, torch.optim.Adagrad, torch.optim.SparseAdam))
    for group in optimizer.param_groups:
        for table in (tables[id(parameter)] for parameter in group["params"] if id(parameter) in tables):
            if dense:
                raise UserError(f"{kind.__name__} needs gradients of all rows, and {table} has those of rows that are "
                                "looked up; give SGD, Adagrad or SparseAdam, or sparse=False")
            if group.get("weight_decay"):
                raise UserError(f"weight_decay changes all rows in each step, and {table} has gradients of rows that "
                                "are looked up; leave it out, or give sparse=False")


def is_module(model: Any) -> bool:
    """Whether something is a module of PyTorch, which is not loaded for it."""
    import sys

    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)

