"""Bodies of collective and optimiser tasks, which sum gradients, set rings and routes, and update weights."""

from plinth_hw.isa.descriptors import Pointer
from plinth_hw.isa.layout import Repeat, Struct, unsigned
from plinth_hw.isa.operations import Traffic, UpdateOperation


class CollectiveBody(Struct):
    """``source``, ``destination`` are beat-aligned; the message has ``words`` words, cut in chunks of
    the die's chunk size; chunk c belongs to member c mod N. For SGD ``destination`` holds the weights
    and receives the updated ones."""

    #: First word of this die's part of the message.
    source: Pointer
    #: First word of the result; with SGD also of the weights.
    destination: Pointer
    #: Length of the message.
    words: unsigned(32)
    # word 3
    #: Row of the group table.
    group: unsigned(4)
    #: What the owner does with a sum.
    update: UpdateOperation
    reserved0: unsigned(8)
    #: Message number, equal on all members; number mod reduce blocks picks the reduce block.
    message: unsigned(8)
    reserved1: unsigned(8)
    #: learning rate: FP32 bits, or a Factor on dies of fixed-point memory
    rate: unsigned(32)
    #: reserved for optimiser state vectors
    state: Repeat(unsigned(32), 2)
    # word 7, SET_GROUP only
    #: Die that this one sends to.
    next_die: unsigned(10)
    #: Members of the ring.
    members: unsigned(10)
    #: This die's place in the ring, from 0.
    index: unsigned(10)
    reserved2: unsigned(2)


#: Routes that a task sets at most.
ROUTES_SET = 20


class RouteBody(Struct):
    """Packets of ``traffic`` to the dies from ``first_die`` on, ``dies`` of them, leave by ``ports``."""

    # words 0 and 1 are pointers of other collective tasks
    reserved0: unsigned(32)
    reserved1: unsigned(32)
    # word 2
    #: First destination.
    first_die: unsigned(10)
    reserved2: unsigned(6)
    #: Destinations, from 1 to 20.
    dies: unsigned(5)
    reserved3: unsigned(3)
    #: Whose routes these are.
    traffic: Traffic
    reserved4: unsigned(6)
    #: Port towards each destination.
    ports: Repeat(unsigned(8), ROUTES_SET)


class OptimiserBody(Struct):
    """``rows`` x ``columns`` weights are updated. All vectors are beat-aligned, and so are their rows: those of weights
    and gradient ``stride`` words apart, those of low halves and states ``state_stride``. What is not used of them is
    neither read nor written. Vectors must not overlap, nor their rows."""

    # word 0
    #: Weights have low halves.
    wide_weights: unsigned(1)
    #: States have low halves.
    wide_state: unsigned(1)
    #: What is not wide is rounded at random.
    stochastic: unsigned(1)
    reserved: unsigned(29)
    #: First gradient.
    gradient: Pointer
    #: First state; with ``wide_state`` the high half.
    state: Pointer
    #: First low half of a state.
    state_low: Pointer
    #: First weight; with ``wide_weights`` the high half.
    weights: Pointer
    #: First low half of a weight.
    weights_low: Pointer
    #: State of the generator of random bits, 32 bits, two words; with ``stochastic`` read first and written last.
    generator: Pointer
    #: Words of a row.
    columns: unsigned(32)
    #: Rows.
    rows: unsigned(32)
    #: Words from row to row of weights and gradient.
    stride: unsigned(32)
    #: Words from row to row of low halves and states.
    state_stride: unsigned(32)
    #: Learning rate, a Factor.
    rate: unsigned(32)
    #: What momentum keeps of the state, a Factor.
    decay: unsigned(32)
    #: What Adagrad adds to the state, in units of 2^-28; not 0.
    epsilon: unsigned(32)
