"""Test-bench clients that drive memory ports with given requests and check what comes back."""

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.support.amaranth_sim import Pattern, receive, send


def beat_words(words: np.ndarray, address: int, beat: int) -> list[int]:
    """One beat out of a word array."""
    return words[address * beat:(address + 1) * beat].tolist()


def reader(port: Any, requests: list[tuple[int, int]], got: list[list[int]],
           request_pattern: Callable[[], Pattern], data_pattern: Callable[[], Pattern],
           ) -> list[Callable[[Any], Any]]:
    """Benches that make read ``requests`` (address, beats) and append each beat to ``got``."""
    async def ask(ctx: Any) -> None:
        await send(ctx, port.request,
                   [{"address": address, "beats": beats} for address, beats in requests], request_pattern())

    async def take(ctx: Any) -> None:
        pattern = iter(data_pattern())
        for _ in range(sum(beats for _, beats in requests)):
            got.extend(await receive(ctx, port.data, 1, pattern, list))

    return [ask, take]


def writer(port: Any, requests: list[tuple[int, int]], beats: list[tuple[list[int], int]],
           request_pattern: Callable[[], Pattern], data_pattern: Callable[[], Pattern],
           ) -> list[Callable[[Any], Any]]:
    """Benches that make write ``requests``, give ``beats`` (words, strobe), and wait for as many
    responses as requests (and check that there are no more within some cycles)."""
    async def ask(ctx: Any) -> None:
        await send(ctx, port.request,
                   [{"address": address, "beats": count} for address, count in requests], request_pattern())

    async def give(ctx: Any) -> None:
        await send(ctx, port.data, [{"data": words, "strobe": strobe} for words, strobe in beats],
                   data_pattern())

    async def wait(ctx: Any) -> None:
        responses = 0
        while responses < len(requests):
            *_, response = await ctx.tick().sample(port.response)
            responses += response
        for _ in range(20):
            *_, response = await ctx.tick().sample(port.response)
            assert not response, "a response without a request"

    return [ask, give, wait]


def random_requests(rng: np.random.Generator, count: int, first: int, end: int,
                    longest: int) -> list[tuple[int, int]]:
    """Requests within the beats ``first .. end - 1``."""
    requests = []
    for _ in range(count):
        beats = int(rng.integers(1, longest + 1))
        requests.append((int(rng.integers(first, end - beats + 1)), beats))
    return requests


def random_beats(rng: np.random.Generator, requests: list[tuple[int, int]], words: np.ndarray,
                 beat: int) -> list[tuple[list[int], int]]:
    """Random data and strobes for write ``requests``; applies them to ``words`` in order."""
    beats = []
    for address, count in requests:
        for at in range(address, address + count):
            values = rng.integers(0, 1 << 32, beat, dtype=np.uint64)
            strobe = int(rng.integers(0, 1 << beat))
            for lane in range(beat):
                if strobe >> lane & 1:
                    words[at * beat + lane] = values[lane]
            beats.append((values.tolist(), strobe))
    return beats
