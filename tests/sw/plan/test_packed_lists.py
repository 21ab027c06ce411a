"""Lists of many ranges in files: packed where they say something, digests where they repeat it."""

import base64
import zlib
from pathlib import Path

import numpy as np
import pytest

from plinth.array.array import sized
from plinth.errors import UserError
from plinth.network.file import load_network
from plinth.network.sparse.layers import layered, write_sparse
from plinth.network.sparse.radix_net import trained_network
from plinth.partition.cuts import Runs, elements, ranges_of_indices
from plinth.plan.lists_file import parts_from_data, parts_to_data
from plinth.plan.plan_file import load_plan, save_plan
from plinth.plan.planning import plan_network

#: Enough that two random halves have more than a thousand ranges.
NEURONS = 4096


def packed(*ranges: tuple[int, int]) -> str:
    """Gaps and lengths as files have them."""
    return base64.b64encode(zlib.compress(np.array(ranges, "<u4").tobytes())).decode()


@pytest.mark.parametrize("seed", range(3))
def test_parts_of_many_ranges_come_back(seed: int) -> None:
    owners = np.random.default_rng(seed).integers(3, size=NEURONS)
    parts = tuple(ranges_of_indices(np.flatnonzero(owners == part)) for part in range(3))
    assert all(isinstance(part, Runs) for part in parts)
    data = parts_to_data(parts)
    assert list(data) == ["packed"] and sum(map(len, data["packed"])) < NEURONS * 3
    assert parts_from_data(data, "here") == parts
    assert all((elements(part) == np.flatnonzero(owners == number)).all()
               for number, part in enumerate(parts_from_data(data, "here")))


def test_packed_ranges_are_as_written() -> None:
    assert parts_from_data({"packed": [packed((0, 2), (3, 1)), packed()]}, "here") == (((0, 2), (5, 6)), ())


@pytest.mark.parametrize("text", [
    3, "no base64!", base64.b64encode(b"no stream").decode(), packed((0, 2), (0, 1)), packed((0, 0)),
    packed((1 << 31, 1)), base64.b64encode(zlib.compress(bytes(12))).decode(),
    base64.b64encode(zlib.compress(np.array([0, 2], "<u4").tobytes()) + b"more").decode(),
    base64.b64encode(zlib.compress(np.array([0, 2], "<u4").tobytes())[:-1]).decode()])
def test_malformed_packed_ranges_are_refused(text: object) -> None:
    with pytest.raises(UserError, match="here: part 0 must be the packed ranges of a part"):
        parts_from_data({"packed": [text]}, "here")


@pytest.mark.parametrize("ending", ["yaml", "json"])
def test_a_plan_of_many_ranges_is_a_small_file(tmp_path: Path, ending: str) -> None:
    write_sparse(tmp_path / "net.yaml", layered(trained_network(NEURONS, 2, seed=0)))
    network = load_network(str(tmp_path / "net.yaml"))
    array = sized("ring-2")
    assert array is not None
    plan = plan_network(network, array, planner="random-rows", batch=4).plan
    lists = plan.lists[0]
    assert lists is not None and lists.outputs is not None and sum(map(len, lists.outputs)) > 1000
    path = tmp_path / f"plan.{ending}"
    save_plan(path, plan)
    assert path.stat().st_size < 60_000
    loaded = load_plan(path, network)
    assert loaded.sharding == plan.sharding and loaded.sharding.layouts == plan.sharding.layouts
