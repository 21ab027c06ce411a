"""Files of profiles: what is written is read back, and others are refused in one line."""

import json
from pathlib import Path
from typing import Any

import jschon
import pytest

from plinth.errors import UserError
from plinth.files.reports import report_schema
from plinth.network.layers import Dense, SoftmaxCrossEntropy, Tanh
from plinth.network.network import Network
from plinth.network.zoo import NETWORKS
from plinth.profile.batches import MeasuredBatch, TimedTransfer
from plinth.profile.costs import KernelCosts
from plinth.profile.fits import FAMILIES
from plinth.profile.measure import measured, with_local
from plinth.profile.networks import SizeBounds
from plinth.profile.profile import Profile, load_profile, profile_of, save_profile
from plinth.profile.works import READ, WRITE, batch_works
from plinth.train.settings import network_digest

jschon.create_catalog("2020-12")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:rfc3986")
SMALL = SizeBounds(widths=(8, 64), batches=(4, 32), channels=(2, 4), images=(2, 4), sides=(6,), most_macs=1 << 20,
                   perceptrons=18, convolutional=6)
DIGITS = NETWORKS["digits-mlp"]


class Counted:
    """A device whose operations take what a formula says: a microsecond, and a nanosecond for each of their work."""

    name, rounds, channel_step = "counted", 1, 1
    conditions = {"time": "a formula"}

    def __init__(self, *, tells: bool = True) -> None:
        self.tells = tells

    def holds(self, network: Network, batch: int) -> bool:
        return True

    def batch(self, network: Network, batch: int) -> MeasuredBatch:
        operations = {work.operation: 1e-6 + 1e-9 * FAMILIES[work.kind].of(work.sizes, (1, 1))[0]
                      for work in batch_works(network, batch)}
        forward = {work.operation for work in batch_works(network, batch) if work.is_forward}
        whole = 5e-6 + sum(operations.values())
        if not self.tells:
            return MeasuredBatch(network, batch, whole)
        return MeasuredBatch(network, batch, whole, sum(operations[name] for name in forward), operations)

    def transfers(self, words: Any) -> list[TimedTransfer]:
        return [TimedTransfer(kind, count, start + 4e-9 * count) for count in words
                for kind, start in ((WRITE, 1e-6), (READ, 3e-6))]

    def memory_bytes(self, network: Network, batch: int) -> int:
        return 4 * network.parameters


@pytest.fixture(scope="module")
def profile() -> Profile:
    return measured(Counted(), SMALL, watts=20.0)


@pytest.fixture(scope="module")
def local(profile: Profile) -> Profile:
    return with_local(profile, Counted(), DIGITS, 32, metric="energy", limit_bytes=30_000)


def test_a_device_that_follows_a_formula_is_predicted(profile: Profile) -> None:
    check, batches = profile.check_error(), profile.batch_error(fitted=False)
    assert check is not None and check < 1e-6 and batches is not None and batches < 1e-6
    truth = Counted().batch(DIGITS, 32)
    assert profile.batch_seconds(DIGITS, 32) == pytest.approx(truth.seconds, rel=1e-4)
    assert profile.costs.message(1000) == pytest.approx(2e-6 + 4e-6)
    # Table 2 is one line for all widths: near, and not more.
    assert profile.costs_error is not None and 1e-3 < profile.costs_error < 0.3


def test_table_2_is_derived_for_a_networks_range(profile: Profile) -> None:
    costs = profile.costs_for(DIGITS, 32)
    assert isinstance(costs, KernelCosts) and costs.net_seconds == profile.costs.net_seconds
    truth = Counted().batch(DIGITS, 32)
    assert costs.batch(DIGITS, 32) == pytest.approx(truth.seconds, rel=0.05)
    assert costs.forward(DIGITS, 32) == pytest.approx(truth.forward_seconds, rel=0.35)
    assert abs(costs.batch(DIGITS, 32) / truth.seconds - 1) < abs(profile.costs.batch(DIGITS, 32) / truth.seconds - 1)


def test_metrics(profile: Profile) -> None:
    seconds = profile.batch_seconds(DIGITS, 32)
    assert profile.cost(DIGITS, 32, "time") == seconds
    assert profile.cost(DIGITS, 32, "energy") == profile.batch_joules(DIGITS, 32) == 20 * seconds
    assert profile.cost(DIGITS, 32, "energy-delay") == pytest.approx(20 * seconds**2)
    assert profile.outside(DIGITS, 32) and not profile.outside(Network(
        name="in", input=(20,), layers=(
            Dense(name="fc1", outputs=30), Tanh(name="t"), Dense(name="fc2", outputs=10),
            SoftmaxCrossEntropy(name="loss"))), 16)


def test_a_device_that_tells_no_operations_is_fitted_by_amounts() -> None:
    profile = measured(Counted(tells=False), SMALL)
    assert set(profile.kinds) == {READ, WRITE} and not profile.batch_fit.needs_operations
    truth = Counted().batch(DIGITS, 32).seconds
    assert profile.batch_seconds(DIGITS, 32) == pytest.approx(truth, rel=0.1)
    assert profile.costs.act_seconds == profile.costs.err_seconds
    assert profile_of(profile.to_data(), "here") == profile


def test_local_layers_are_of_the_metric(profile: Profile, local: Profile) -> None:
    assert local.local is not None and local.widths == local.local.widths
    widest = with_local(profile, Counted(), DIGITS, 32, metric="memory", limit_bytes=30_000)
    assert widest.widths is not None and widest.local is not None and local.widths <= widest.widths < (128, 64)
    assert widest.local.needed_bytes <= 30_000 and local.network_sha256 == network_digest(DIGITS)
    assert profile.widths is profile.network_sha256 is None


def test_what_is_written_is_read_back(local: Profile, profile: Profile, tmp_path: Path) -> None:
    for each in (local, profile):
        save_profile(tmp_path / "profile.json", each)
        assert load_profile(tmp_path / "profile.json") == each
        data = json.loads((tmp_path / "profile.json").read_text())
        assert jschon.JSONSchema(report_schema("profile")).evaluate(jschon.JSON(data)).valid


def changed(data: dict[str, Any], path: list[Any], value: Any) -> dict[str, Any]:
    """A deep copy with one value replaced, or, for None, left out."""
    copy = json.loads(json.dumps(data))
    *way, last = path
    inside = copy
    for key in way:
        inside = inside[key]
    if value is None:
        del inside[last]
    else:
        inside[last] = value
    return copy


@pytest.mark.parametrize(("path", "value", "reason"), [
    (["version"], 1, "version 1 of a profile report"), (["report"], "plan", "a plan report, where a profile"),
    (["costs"], None, "there is no 'costs'"), (["costs", "flop_seconds"], -1.0, "flop_seconds is -1.0, out of range"),
    (["costs", "flop_seconds"], float("inf"), "out of range"), (["costs", "net_seconds"], float("nan"), "out of range"),
    (["metric"], "beauty", "metric 'beauty' is none of time"), (["kinds", 0, "kind"], "x" * 99, "is no kind of work"),
    (["kinds", 0, "form"], "cubic", "form 'cubic' is none of sum, max"), (["kinds", 0, "tile"], [1], "too few or too"),
    (["kinds", 0, "tile"], [0, 1], "tile is 0, out of range"), (["kinds", 0, "coefficients"], [], "too few or too"),
    (["kinds", 0, "measurements", 0, "sizes"], [3], "too few or too"), (["kinds", 0, "least_sizes"], [1e9], "type"),
    (["kinds", 0, "measurements", 0, "measured_seconds"], 0.0, "something took no time"),
    (["batch_fit", "terms"], "magic", "coefficients of operations or amounts"),
    (["batch_fit", "coefficients"], [1.0], "must have 5 coefficients"),
    (["batches", 0, "measured_seconds"], 0, "something took no time"), (["local", "widths"], [], "layers are other"),
    (["local", "widths"], [999, 9], "wider than"), (["local", "widths"], [1, 1, 1], "local layers are other"),
    (["local", "limit_bytes"], "9", "is a text"), (["more"], 1, "'more' is no field"),
    (["device"], ["numpy"], "device is a list")], ids=lambda value: ".".join(map(str, value))[:40] if isinstance(
        value, list) else "")
def test_other_files_are_refused_in_one_line(local: Profile, path: list[Any], value: Any, reason: str,
                                             tmp_path: Path) -> None:
    place = tmp_path / "profile.json"
    place.write_text(json.dumps(changed(local.to_data(), path, value)))
    with pytest.raises(UserError, match=reason) as refused:
        load_profile(place)
    assert "\n" not in str(refused.value) and str(place) in str(refused.value)


def test_a_kind_that_stands_twice_is_refused(local: Profile) -> None:
    data = local.to_data()
    with pytest.raises(UserError, match="stands twice"):
        profile_of(data | {"kinds": [*data["kinds"], data["kinds"][0]]}, "here")


@pytest.mark.parametrize("text", ["", "{", "[" * 5000, "[]", "null", '{"report": "profile"}'])
def test_no_profiles_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_text(text)
    with pytest.raises(UserError) as refused:
        load_profile(tmp_path / "profile.json")
    assert "\n" not in str(refused.value)
