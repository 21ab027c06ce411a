"""Runs tasks on an engine as the scheduler does: body words, start, done."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.support.amaranth_sim import Pattern, always, receive, send

from plinth_hw.isa.descriptors import BODY_WORDS, Pointer
from plinth_hw.isa.layout import WORD_BITS, Struct, pack, unpack
from plinth_hw.isa.tasks import pointer_words


def body_words(layout: type[Struct], fields: Any) -> list[int]:
    """The 56 words of a body with these fields."""
    words = pack(layout, fields)
    return [*words, *[0] * (BODY_WORDS - len(words))]


def resolved(layout: type[Struct], words: Sequence[int], bases: Sequence[int]) -> list[int]:
    """The words of a body with addresses in place of pointers, as an engine gets them."""
    addressed = list(words)
    for place in pointer_words(layout):
        pointer = unpack(Pointer, [addressed[place]])
        addressed[place] = (bases[pointer.base] + pointer.offset) % (1 << WORD_BITS)
    return addressed


def run_tasks(engine: Any, layout: type[Struct], tasks: list[tuple[int, list[int]]], bases: Sequence[int],
              results: list[Any], done_pattern: Callable[[], Pattern] = always) -> list[Callable[[Any], Any]]:
    """Benches that run ``tasks`` (operation, words of a body of ``layout``) in order and append each ``Done`` to
    ``results``. The next body goes in, and the next start is offered, as early as the engine allows."""
    delivered: list[int] = []

    async def deliver(ctx: Any) -> None:
        for operation, words in tasks:
            await send(ctx, engine.body, [{"index": index, "word": word, "last": index == BODY_WORDS - 1}
                                          for index, word in enumerate(resolved(layout, words, bases))])
            delivered.append(operation)

    async def start(ctx: Any) -> None:
        for count, (operation, _) in enumerate(tasks):
            while len(delivered) <= count:
                await ctx.tick()
            ctx.set(engine.operation, operation)
            await send(ctx, engine.start, [0])

    async def finish(ctx: Any) -> None:
        results.extend(await receive(ctx, engine.done, len(tasks), done_pattern()))

    return [deliver, start, finish]
