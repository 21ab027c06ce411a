"""The cache of the host: the knee of rates, and what Linux tells of caches."""

from pathlib import Path

import pytest

from plinth.profile.cache import CacheSweep, cache_sweep, stated_caches, working_sets

SIZES = (1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18, 1 << 19)


@pytest.mark.parametrize(("rates", "knee"), [
    ((90, 100, 95, 30, 28, 31), 1 << 16), ((100, 20, 20, 20, 20, 20), 1 << 14), ((99, 97, 101, 98, 100, 40), 1 << 18),
    ((50, 51, 49, 50, 52, 50), None), ((20, 22, 21, 60, 62, 61), None)])
def test_the_knee_is_where_rates_fall(rates: tuple[float, ...], knee: int | None) -> None:
    assert CacheSweep(SIZES, rates).knee_bytes == knee


def test_working_sets_are_timed() -> None:
    told: list[int] = []
    sweep = cache_sweep(working_sets(1 << 12, 1 << 13), progress=lambda done, total: told.append(total))
    assert sweep.sizes == (1 << 12, 3 << 11, 1 << 13) and all(rate > 1e6 for rate in sweep.rates) and told == [3] * 3


def test_caches_are_read_of_the_system(tmp_path: Path) -> None:
    for number, (kind, level, size) in enumerate((("Data", "1", "48K"), ("Instruction", "1", "32K"),
                                                  ("Unified", "2", "1024K"), ("Unified", "3", "lots"))):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, text in (("type", kind), ("level", level), ("size", size)):
            (folder / name).write_text(f"{text}\n")
    (tmp_path / "index9").mkdir()
    assert stated_caches(tmp_path) == {"L1": 48 << 10, "L2": 1 << 20}
    assert stated_caches(tmp_path / "none") == {}
