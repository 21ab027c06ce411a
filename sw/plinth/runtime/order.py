"""The order in which numpy does the operations of a step: as the step has them, but for errors that other dies need.

On dies a sparse layer's gradient goes before the errors of its input, which take the place of what was gathered for it.
In numpy nothing is gathered for both, so that errors are made and sent first; gradient and update go on while they are
on their way. No sum changes its order, and each product has the weights from before the update.
"""

from itertools import takewhile

from plinth.step.between import Exchange, Reduce
from plinth.step.layers.sparse import SparseProducts
from plinth.step.operations import Clear, Operation, Sweep
from plinth.step.step import Step
from plinth.step.tasks import BPROP, UPDATE


def numpy_order(step: Step) -> list[Operation]:
    """All operations of a step, in the order in which numpy does them; in all processes the same."""
    movable = _Movable(step)
    ordered: list[Operation] = []
    while len(ordered) < len(step.operations):
        ordered += _backward(step, movable, len(ordered)) or [step.operations[len(ordered)]]
    return ordered


class _Movable:
    """The operations of a step that may change their order, by kind."""

    def __init__(self, step: Step) -> None:
        products = list(step.operations_of(SparseProducts))
        self.gradients = {id(product): product for product in products if product.direction == UPDATE}
        self.errors = {id(product): product for product in products if product.direction == BPROP}
        self.masks, self.clears, self.updates = (set(map(id, step.operations_of(kind)))
                                                 for kind in (Sweep, Clear, Reduce))
        self.sources = {id(exchange): exchange.source.name for exchange in step.operations_of(Exchange)}


def _backward(step: Step, movable: _Movable, first: int) -> list[Operation]:
    """What a sparse layer does backwards if operations from the first on begin with that, its errors first; nothing, if
    they do not, or its errors do not go to other dies."""
    gradient, operations = step.operations[first], step.operations
    if id(gradient) not in movable.gradients:
        return []
    # The gradient's fill is made 0, and errors begin with 0, where there is need.
    before = list(takewhile(lambda operation: id(operation) in movable.masks | movable.clears, operations[first + 1:]))
    behind = first + 1 + len(before)
    errors = movable.errors.get(id(operations[behind])) if behind < len(operations) else None
    if errors is None or errors.node != movable.gradients[id(gradient)].node:
        return []
    updates = list(takewhile(lambda operation: id(operation) in movable.updates, operations[behind + 1:]))
    name = errors.x.side.tensor.name
    sent = list(takewhile(lambda operation: movable.sources.get(id(operation)) == name,
                          operations[behind + 1 + len(updates):]))
    if not sent:
        return []
    masks, clears = ([operation for operation in before if id(operation) in some]
                     for some in (movable.masks, movable.clears))
    return [*clears, errors, *sent, gradient, *masks, *updates]
