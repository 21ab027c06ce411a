"""Units of every descriptor: its header, pointers, and the record of its completion.

A task is one descriptor of :data:`DESCRIPTOR_WORDS` units of 32 bits in die memory, aligned to its own size:
:class:`TaskHeader` (8 units), then the body of its engine (56 units). All addresses, strides and lengths count words of
memory (``DieParameters.word_bits``: 32 or 16 bits) unless a name says otherwise; a row of packed elements starts on a
word boundary. Source: MPT section VI.A (task graph, update counters).
"""

from plinth_hw.isa.layout import Repeat, Struct, unsigned
from plinth_hw.isa.operations import Engine

#: Words in a descriptor (256 bytes).
DESCRIPTOR_WORDS = 64
#: Words of the header; the body follows.
HEADER_WORDS = 8
#: Words of the body.
BODY_WORDS = DESCRIPTOR_WORDS - HEADER_WORDS
#: Waits a task can name.
WAITS = 4
#: Words of a completion record.
RECORD_WORDS = 8


class Pointer(Struct):
    """Address in die memory: ``BASE[base] + offset`` words."""

    #: Words beyond the base.
    offset: unsigned(28)
    #: Base register.
    base: unsigned(4)


class TaskHeader(Struct):
    """First 8 words of every descriptor."""

    # word 0
    #: Engine that runs the task.
    engine: Engine
    #: Operation of that engine.
    operation: unsigned(4)
    #: Write a completion record.
    record: unsigned(1)
    #: Last task of the graph: the die is done when all tasks up to this one have completed.
    last: unsigned(1)
    #: Advance counter ``advance`` by one on completion.
    advance_enable: unsigned(1)
    #: Send an advance of ``remote_counter`` to die ``remote_die`` on completion.
    remote_enable: unsigned(1)
    reserved0: unsigned(4)
    #: Counter that completion advances.
    advance: unsigned(8)
    reserved1: unsigned(8)
    # word 1
    #: Die whose counter completion advances.
    remote_die: unsigned(10)
    reserved2: unsigned(6)
    #: Counter there.
    remote_counter: unsigned(8)
    reserved3: unsigned(8)
    # word 2
    #: Counters that the task waits for, 8 bits each.
    wait_counter: Repeat(unsigned(8), WAITS)
    # word 3
    #: Which of the waits count.
    wait_enable: unsigned(WAITS)
    reserved4: unsigned(12)
    #: Free for software (echoed in the completion record).
    tag: unsigned(16)
    # words 4 to 7
    #: The task may start when counter - (COUNTER_BASES[counter] + value) >= 0 modulo 2^32, as signed.
    wait_value: Repeat(unsigned(32), WAITS)


class Record(Struct):
    """Completion record, one for each finished task that asks for one."""

    #: Task address in words.
    task: unsigned(32)
    #: The header's tag.
    tag: unsigned(16)
    #: Engine that ran the task.
    engine: Engine
    reserved: unsigned(12)
    #: Low 32 bits of the die's cycle counter when the task started.
    start: unsigned(32)
    #: The same when it had completed.
    end: unsigned(32)
    #: Cycles in which the engine stood still for this task.
    stall_cycles: unsigned(32)
    #: Words that the task moved.
    payload_words: unsigned(32)
    #: Useful multiply-adds.
    useful_macs: unsigned(64)
