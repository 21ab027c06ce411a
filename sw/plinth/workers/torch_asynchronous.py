"""A PyTorch module on workers that train at their own pace (:mod:`plinth.workers.asynchronous`).

Each worker's server has a copy of the module's parameters and of the loop's optimizer, of which its share counts: it
updates by each worker's gradient as it comes. Dense parameters are pulled between steps, rows of tables when they are
looked up.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from plinth.runtime.memory import Floats
from plinth.runtime.mpi_messages import MpiMessages
from plinth.workers.asynchronous import AsynchronousExchange, Values, Wanted
from plinth.workers.channel import Rows
from plinth.workers.group import before_leaving
from plinth.workers.runner import alpha_of
from plinth.workers.torch_module import ModuleVariables, sparse_gradient


class ModuleShare:
    """A server's share of a module's parameters, and its optimizer.

    Parameters
    ----------
    module : torch.nn.Module
    optimizer : torch.optim.Optimizer
        Whose hyper-parameters, as the loop changes them, are this share's.
    """

    def __init__(self, module: Any, optimizer: Any) -> None:
        self._of_loop = optimizer
        # One copy of both: the optimizer's parameters are those of the copy.
        self._parameters, self._optimizer = copy.deepcopy((dict(module.named_parameters()), optimizer))
        self._optimizer.zero_grad(set_to_none=True)

    def values(self, name: str, rows: Rows | None) -> Floats:
        """Values of a dense variable, or of rows of a table."""
        values: Floats = self._parameters[name].detach().numpy()
        return values.copy() if rows is None else values[rows]

    def apply(self, gradients: Values) -> None:
        """Update by the gradients of one worker."""
        import torch

        for own, settings in zip(self._optimizer.param_groups, self._of_loop.param_groups, strict=True):
            own.update({name: value for name, value in settings.items() if name != "params"})
        for name, (rows, values) in gradients.items():
            parameter = self._parameters[name]
            parameter.grad = torch.from_numpy(values.copy()) if rows is None else sparse_gradient(
                parameter, rows, values)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)


class AsynchronousRunner:
    """Trains a module beside other workers, each at its own pace.

    Parameters
    ----------
    module : torch.nn.Module
    optimizer : torch.optim.Optimizer
        Over the module's parameters, with whatever hyper-parameters.
    workers : MpiMessages
    bound : int
        Steps that a worker may be ahead of another one.
    average : bool
        Gradients count by one over the number of workers; else whole.

    Raises
    ------
    UserError
        As :class:`plinth.workers.torch_module.ModuleVariables`.
    """

    def __init__(self, module: Any, optimizer: Any, workers: MpiMessages, bound: int, *, average: bool = True) -> None:
        self.module, self.optimizer, self.workers = module, optimizer, workers
        self._variables = ModuleVariables(module, workers.size)
        self._variables.copy_first(workers)
        self._factor = np.float32(1 / workers.size if average else 1.0)
        self.exchange = AsynchronousExchange(workers, ModuleShare(module, optimizer),
                                             [name for name, _ in self._variables.dense], bound)
        self._variables.hook(lambda name, rows: self.exchange.pull({name: rows})[name] if len(rows) else None)
        before_leaving(lambda failed: self.exchange.stop() if failed else self.exchange.leave())

    def step(self) -> None:
        """Push this worker's gradients, in place of ``optimizer.step()``; return once it may begin its next step, with
        dense parameters as servers have them then.

        Raises
        ------
        UserError
            If a gradient is not finite, another worker has ended with an error, or one that is too far behind waits in
            :meth:`refresh`.
        """
        dense = self._variables.dense_gradients(self._factor)
        # What has no gradient is not updated.
        self.exchange.push({**{name: (None, values) for name, values in dense.items() if values is not None},
                            **self._variables.row_gradients(self._factor)})
        self.optimizer.zero_grad(set_to_none=True)
        self.exchange.begin()
        self._pull(dict.fromkeys(dense))

    def _pull(self, wanted: Wanted) -> None:
        parameters = dict(self.module.named_parameters())
        for name, values in self.exchange.pull(wanted).items():
            rows = wanted[name]
            own = parameters[name].detach().numpy()
            own[slice(None) if rows is None else rows] = values

    def refresh(self) -> None:
        """Give every worker all parameters, with all updates so far, before it evaluates or saves the module.
        Collective: all have done as many steps.

        Raises
        ------
        UserError
            If another worker has ended.
        """
        self.exchange.settle()
        tables = {name: np.arange(part.num_embeddings) for name, part in self._variables.embeddings.items()}
        self._pull({**dict.fromkeys(name for name, _ in self._variables.dense), **tables})
        # Nobody goes on before all have these.
        self.exchange.settle()

    def touched(self) -> dict[str, float]:
        """The share of the rows of each table that this worker has looked up in a step, on the mean: what ``touched``
        of :func:`plinth.get_runner` asks for."""
        return self._variables.touched()

    def alpha(self) -> float:
        """The share of the module's elements that this worker uses in a step, weighted by elements (Table 1)."""
        return alpha_of(self._variables.elements, self.touched())

    def staleness(self) -> list[int]:
        """How many updates of others were applied since its worker's pull, of each of this worker's server."""
        return self.exchange.staleness

    def sent(self) -> dict[str, int]:
        """Words of values and of row numbers, and messages, that this worker and its server have sent others."""
        return self.exchange.sent()
