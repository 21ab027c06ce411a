"""Workers as threads of one process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.support.numpy_ranks import Post, ThreadMessages


class ThreadWorkers(ThreadMessages):
    """One of several workers."""

    def __init__(self, post: Post, own: int) -> None:
        super().__init__(post, own)
        self.size = post.size

    def another(self) -> ThreadWorkers:
        """The same workers, with other messages. Collective."""
        return ThreadWorkers(self.told(Post(range(self.size)))[0], self.own)


def in_threads(count: int, work: Callable[[Any], Any]) -> list[Any]:
    """What each of some workers returns, told itself."""
    post = Post(range(count))
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda own: work(ThreadWorkers(post, own)), range(count)))
