"""Engines, what they can do, and why a die stops."""

from plinth_hw.isa.layout import Code


class Engine(Code, bits=4):
    """Engines of a die; the value is also the index of the engine's status registers."""

    #: Systolic or row-stationary matrix engine.
    MATRIX = 0
    #: Vector engine.
    VECTOR = 1
    #: Ring-reduce collective engine.
    COLLECTIVE = 2
    #: Strided or indexed tiles from this die's memory to any die's.
    TRANSFER = 3
    #: Updates of weights that keep state, or more than 16 bits, of fixed-point dies.
    OPTIMISER = 4


class MatrixOperation(Code, bits=4):
    #: ``C = op(A) op(B)`` or, with ``accumulate``, ``C = C + op(A) op(B)``.
    GEMM = 0
    #: The same, where A is the matrix of the windows of a feature map, read from the map itself.
    CONVOLUTION = 1
    #: Rows of windows of a feature map times rows of filters; the one operation of row-stationary dies, and of those
    #: only.
    ROW_STATIONARY = 2


class VectorOperation(Code, bits=4):
    #: Load regions, run the program, store regions.
    PROGRAM = 0


class CollectiveOperation(Code, bits=4):
    #: Reduce-scatter, update by the owner, all-gather.
    ALL_REDUCE = 0
    #: Reduce-scatter and update only: the owner's chunks of ``destination`` are written.
    REDUCE_SCATTER = 1
    #: Owners' chunks of ``source`` go to every member's ``destination``.
    ALL_GATHER = 2
    #: Rewrite one row of the group table: members, own index, next hop.
    SET_GROUP = 3
    #: Routes of a kind of traffic become others, once none of it is in the router; of dies that set routes.
    SET_ROUTE = 4


class TransferOperation(Code, bits=4):
    #: Words of the source tile are stored in the destination tile.
    COPY = 0
    #: They are added to what lies there.
    ADD = 1
    #: Blocks of the source are transformed on their way, and stored; of dies that have transforms.
    TRANSFORM = 2
    #: The same, and added.
    TRANSFORM_ADD = 3
    #: Runs of the source become strings of bits at the destination; of dies that have codes.
    ENCODE = 4
    #: Strings become runs.
    DECODE = 5
    #: Fills of tile elements give masks of those that must still come.
    PREDICT = 6


class OptimiserOperation(Code, bits=4):
    """Rules of update, with g the gradient, w a weight and s its state; see :mod:`plinth_sim.golden.optimiser`."""

    #: ``w - rate g``
    SGD = 0
    #: ``s = decay s + g``, ``w - rate s``
    MOMENTUM = 1
    #: ``s = s + g^2``, ``w - rate g / sqrt(s + epsilon)``
    ADAGRAD = 2
    #: ``s = s + g^2``, ``w - rate g / (s + epsilon)``: as Deep3 prints it.
    ADAGRAD_PRINTED = 3


class UpdateOperation(Code, bits=4):
    """What the owner of a reduced chunk does with the sum."""

    #: The sum itself is the result.
    NONE = 0
    #: ``w - (rate * sum)``, two roundings.
    SGD = 1


class Traffic(Code, bits=2):
    """Kinds of traffic that have routes of their own, on dies that set routes."""

    #: Advances.
    CONTROL = 0
    #: Chunks of collectives, of all reduce blocks.
    CHUNKS = 1
    #: Tiles.
    TILES = 2


#: Operations of each engine.
OPERATIONS = {
    Engine.MATRIX: MatrixOperation,
    Engine.VECTOR: VectorOperation,
    Engine.COLLECTIVE: CollectiveOperation,
    Engine.TRANSFER: TransferOperation,
    Engine.OPTIMISER: OptimiserOperation,
}


class ErrorCode(Code, bits=8):
    """Why a die stopped (register ERROR_CODE)."""

    #: No error.
    NONE = 0
    #: Engine number not present on this die.
    BAD_ENGINE = 1
    #: Operation unknown to the engine.
    BAD_OPERATION = 2
    #: A field has a value that the engine cannot run (zero size, region outside the scratchpad...).
    BAD_OPERAND = 3
    #: A memory access beyond MEMORY_WORDS.
    BAD_ADDRESS = 4
    #: A wait names a counter that does not exist.
    BAD_COUNTER = 5
    #: No task started, completed or moved for WATCHDOG cycles while tasks were waiting.
    TIMEOUT = 6
    #: Another die reported an error (ERROR_INFO: its number).
    REMOTE = 7
    #: The memory answered with an error, with an ID that no request had, or more often than it was asked.
    MEMORY = 8
    #: A transfer, remote advance or ring names a die that the array does not have (register DIES).
    BAD_DIE = 9
    #: A tile that another die sent goes beyond MEMORY_WORDS here.
    BAD_PACKET = 10
    #: A write to ROUTES names a die that the array does not have, or a port that this die does not have (ERROR_INFO:
    #: the die); a SET_ROUTE task does so, or a packet of its traffic came while it changed routes.
    BAD_ROUTE = 11
    #: A packet came for a die to which no route leads on from here (ERROR_INFO: its number); it was thrown away.
    NO_ROUTE = 12
    #: The link of a port (ERROR_INFO) went down though flits had gone over it: the other end began anew, or did not
    #: acknowledge what was sent again and again.
    LINK = 13
    #: The string of a run has no room in its place, or is not as long as the run's words take.
    BAD_CODE = 14
