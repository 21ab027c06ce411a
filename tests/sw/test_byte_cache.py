"""A cache that is bounded by bytes."""

from collections.abc import Callable

import pytest

from plinth.byte_cache import ByteCache


def test_values_that_were_asked_for_last_are_held() -> None:
    made: list[str] = []

    def maker(value: str) -> Callable[[], str]:
        def make() -> str:
            made.append(value)
            return value
        return make

    cache: ByteCache[str] = ByteCache(10, len)
    for value in ("aaaa", "bbbb"):
        assert cache.get(value[0], maker(value)) == value
    assert cache.get("a", maker("other")) == "aaaa" and cache.held == 8
    # The oldest question is that for b.
    assert cache.get("c", maker("ccc")) == "ccc" and cache.held == 7 and made == ["aaaa", "bbbb", "ccc"]
    assert cache.get("a", maker("other")) == "aaaa" and cache.get("b", maker("bb")) == "bb"
    assert made == ["aaaa", "bbbb", "ccc", "bb"] and cache.held == 9


def test_one_value_is_held_however_large() -> None:
    cache: ByteCache[bytes] = ByteCache(3, len)
    cache.get("small", lambda: b"1")
    for key in ("large", "larger"):
        assert cache.get(key, lambda: bytes(8)) is cache.get(key, lambda: pytest.fail("is held")) and cache.held == 8


def test_what_cannot_be_made_leaves_nothing_behind() -> None:
    cache: ByteCache[bytes] = ByteCache(3, len)
    with pytest.raises(OSError, match="gone"):
        cache.get("key", lambda: (_ for _ in ()).throw(OSError("gone")))
    assert cache.get("key", lambda: b"12") == b"12" and cache.held == 2
