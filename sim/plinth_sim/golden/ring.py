"""The collective engine of a die of the golden model: which members of rings are at work, and what they send."""

from collections import deque
from dataclasses import dataclass

from plinth_hw.isa.operations import CollectiveOperation, Engine, ErrorCode, UpdateOperation
from plinth_sim.golden import collective
from plinth_sim.golden.device import DescriptorError, FetchedTask, GoldenDevice
from plinth_sim.golden.transport import Message, RingChunks

#: Collective tasks that send nothing: they write a table of the die.
SETTINGS = (CollectiveOperation.SET_GROUP, CollectiveOperation.SET_ROUTE)


@dataclass
class CollectiveModel:
    """Collectives of one die: as many at once as it has reduce blocks, one a block; they end in program order."""

    die: GoldenDevice

    def turn(self) -> tuple[list[FetchedTask], list[Message]]:
        """Let every member go as far as it can: the tasks that have ended, in order, and what is sent."""
        die, ended, sent = self.die, [], []
        blocks: set[int] = set()
        for task in list(die.queues.get(Engine.COLLECTIVE, ()))[:die.parameters.reduce_blocks]:
            if not die.running or task.operation in SETTINGS:
                break
            block = task.body.message % die.parameters.reduce_blocks
            if block in blocks or not die.ready(task):
                break
            blocks.add(block)
            try:
                sent += self._move(task)
            except DescriptorError as error:
                die.fail(error.code, task.address, Engine.COLLECTIVE.value)
        for task in die.queues.get(Engine.COLLECTIVE, ()):
            if self.die.members.get(task.address, self) is not None:
                break
            ended.append(task)
            del self.die.members[task.address]
        return ended, sent

    def _move(self, task: FetchedTask) -> list[Message]:
        """Start a member, or feed it with what has come."""
        die, group, message = self.die, task.body.group, task.body.message
        chunks = die.chunks.setdefault((group, message), deque())
        starts: list[None] = []
        if task.address not in self.die.members:
            self.die.members[task.address] = self._member(task)
            starts.append(None)
        sent: list[Message] = []
        while (member := self.die.members[task.address]) is not None and (starts or chunks):
            words = collective.resume(member, starts.pop() if starts else chunks.popleft())
            if words is None:
                self.die.members[task.address] = None
            else:
                sent.append(RingChunks(die.number, die.groups[group].next_die, group, message, words))
        return sent

    def _member(self, task: FetchedTask) -> collective.Member:
        """The coroutine of a task.

        Raises
        ------
        DescriptorError
            If the engine would refuse the task.
        """
        die, body = self.die, task.body
        group = die.groups.get(body.group)
        pointers = [die.address(pointer) for pointer in (body.source, body.destination)]
        if (group is None or group.index >= group.members or not body.words
                or any(address % die.parameters.beat_words for address in pointers)):
            raise DescriptorError(ErrorCode.BAD_OPERAND)
        source, target = (die.block(address, 1, body.words, body.words)[0] for address in pointers)
        return collective.member(
            task.operation, group.index, group.members, source, target, body.rate, die.parameters.chunk_words,
            UpdateOperation(body.update), die.parameters.memory_format, die.count_beyond)
