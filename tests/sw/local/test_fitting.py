"""S_L of kernels: by their profiles, by the memory of a die, and by this host's cache; and projected samples."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.local import dataset, network

from plinth.errors import UserError
from plinth.local.devices import device_step, kernel_devices
from plinth.local.fitting import check_used, costs_of, fitting_widths, profile_of
from plinth.local.samples import held_by, prepared
from plinth.local.training import USUAL_COSTS
from plinth.network.layers import Tanh
from plinth.network.network import perceptron
from plinth.profile.profile import Profile
from plinth.train.data import Samples
from plinth.train.settings import network_digest
from plinth_hw.isa.parameters import PRESETS, preset

WIDE = perceptron("wide", (16, 400, 200, 8), Tanh)


def test_a_die_has_the_widest_layers_that_lowering_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One unit more of the widest layer does not fit; whole layers where all does."""
    monkeypatch.setitem(PRESETS, "small", replace(preset(
        "fpga-demo"), block_ram_words=1 << 16, axi_ports=0, name="small"))
    (device,) = kernel_devices("golden:small")
    widths = fitting_widths(WIDE, device, [], batch=20, memory_mib=16)
    assert widths[0] == 16 and widths[-1] == 8 and 8 < widths[2] < widths[1] < 400
    rule = device.rule("adagrad", None, None)

    def lowered(hidden: tuple[int, int]) -> Any:
        return device_step(device, perceptron("some", (16, *hidden, 8), Tanh), batch=20, rule=rule, memory_mib=16)

    lowered(widths[1:3])
    with pytest.raises(UserError, match=r"kernel golden:small: the network needs \d+ bytes"):
        lowered((widths[1] + 4, widths[2] + 2))
    assert fitting_widths(network(), device, [], batch=8, memory_mib=16) == (12, 16, 8, 4)
    with pytest.raises(UserError, match=r"kernel golden:small: "):
        fitting_widths(WIDE, device, [], batch=4000, memory_mib=16)


def profile(device: str, **settings: Any) -> Profile:
    """A profile without measurements."""
    text = {"conditions": {}, "kinds": {}, "batch_fit": None, "costs": replace(USUAL_COSTS, net_seconds=7.0)}
    return Profile(device=device, **text | settings)  # type: ignore[arg-type]


def test_profiles_are_of_devices_and_presets() -> None:
    numpy, golden, cosim, board = kernel_devices("numpy,golden:fpga-demo,fpga-demo,serial:fpga-demo:/dev/x@9600")
    host, die = profile("mpi"), profile("cosim", conditions={"preset": "fpga-demo"})
    line = profile("serial:/dev/x@115200", conditions={"preset": "fpga-demo"})
    all_of = [host, die, line]
    assert [profile_of(device, all_of) for device in (numpy, golden, cosim, board)] == [host, None, die, line]
    (other,) = kernel_devices("fpga-tiny")
    assert profile_of(other, all_of) is None
    first, second, third = Path("a.json"), Path("b.json"), Path("c.json")
    check_used([numpy, cosim, board], {first: host, second: die, third: line})
    with pytest.raises(UserError, match=r"b\.json: a profile of cosim fpga-demo is of no kernel; leave it out"):
        check_used([numpy, golden], {first: host, second: die})
    with pytest.raises(UserError, match=r"b\.json: a profile of numpy, whose kernels have that of another file; give"):
        check_used([numpy, cosim], {first: host, second: profile("numpy"), third: die})


def test_widths_of_a_profile_are_those_of_its_network_and_batch() -> None:
    (device,) = kernel_devices("numpy")
    local = type("Local", (), {"widths": (9, 5)})()
    own = profile("numpy", local=local, network="small", network_sha256=network_digest(network()), batch=8)
    assert fitting_widths(network(), device, [own], batch=8, memory_mib=1) == (12, 9, 5, 4)
    assert fitting_widths(network(), device, [own], batch=16, memory_mib=1) == (12, 16, 8, 4)
    assert costs_of(device, [], network(), 8, USUAL_COSTS) is USUAL_COSTS


class Linked:
    """A profile whose costs are stated."""

    def __init__(self, device: str) -> None:
        self.device, self.conditions = device, {}

    def costs_for(self, network: Any, batch: int) -> Any:
        return replace(USUAL_COSTS, flop_seconds=3.0, net_seconds=4.0, word_seconds=5.0)


def test_times_of_a_profile_are_a_kernel_s_and_messages_those_of_links_alone() -> None:
    (numpy,), (board,) = kernel_devices("numpy"), kernel_devices("serial:fpga-demo:/dev/x")
    profiles: list[Any] = [Linked("numpy"), Linked("serial:/dev/x")]
    costs = costs_of(numpy, profiles, network(), 8, USUAL_COSTS)
    assert (costs.flop_seconds, costs.net_seconds) == (3.0, USUAL_COSTS.net_seconds)
    assert costs.word_seconds == USUAL_COSTS.word_seconds
    costs = costs_of(board, profiles, network(), 8, USUAL_COSTS)
    assert (costs.flop_seconds, costs.net_seconds, costs.word_seconds) == (3.0, 4.0, 5.0)


def test_a_profile_s_file_gives_widths_and_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """From `plinth profile` to `plinth train --local auto`, with a host's cache that was stated."""
    from plinth import cli
    from plinth.network.file import network_to_yaml

    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(network_to_yaml(network()))
    data = dataset(300)
    np.savez("sums.npz", x=data.train_x, y=data.train_y)
    cli.main(["profile", "golden", "--network", "small.yaml", "--batch", "20", "--machine", "fpga-demo", "--memory",
              "16MiB", "--out", "die.json"])
    capsys.readouterr()
    cli.main(["train", "small.yaml", "--data", "sums.npz", "--batch", "20", "--epochs", "2", "--local", "auto",
              "--kernels", "golden:fpga-demo", "--profile", "die.json", "--clock", "virtual", "--push", "2",
              "--no-baseline", "--json", "--out", "out"])
    report = json.loads(capsys.readouterr().out)
    widths = json.loads(Path("die.json").read_text())["local"]["widths"]
    assert report["kernels"][0]["layer_widths"] == [12, *widths, 4] and report["ended"] == "batches"


def test_samples_are_projected_to_the_inputs_that_fit() -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(300, 4)) @ generator.normal(size=(4, 12)) * 3
    samples = Samples(x.astype(np.float32), generator.integers(0, 4, 300))
    devices = kernel_devices("numpy,golden:fpga-demo")
    ready = prepared(network(), samples, scale=None, devices=kernel_devices("numpy"), inputs=6, beta=0.05)
    # Of four independent directions no more are needed, and nothing is left out.
    assert ready.network.input == (4,) and ready.dataset.train_x.shape == (240, 4)
    data = ready.to_data()
    assert data is not None and data["size"] == 4 and data["train_error"] < 1e-3 and data["factor"] == 1
    narrow = prepared(network(), samples, scale=None, devices=devices, inputs=2, beta=None)
    assert narrow.network.input == (2,) and (narrow.to_data() or {})["train_error"] > 0.05
    held = prepared(network(), Samples(samples.x * 30, samples.y), scale=None,
                    devices=devices, inputs=6, beta=0.05)
    assert np.abs(held.dataset.train_x).max() < 8 and held.factor <= 1


@pytest.mark.parametrize(("settings", "said"), [
    ({"beta": 1.5}, "beta"), ({"beta": 0.0, "inputs": 0}, "limit")])
def test_settings_of_projections_are_refused(settings: dict[str, Any], said: str) -> None:
    data = dataset(80)
    with pytest.raises(UserError, match=said):
        prepared(network(), Samples(data.train_x, data.train_y), scale=None, devices=kernel_devices("numpy"),
                 **{"inputs": 4, "beta": None} | settings)


def test_ranges_are_those_of_the_narrowest_format() -> None:
    assert held_by(kernel_devices("numpy")).most > 1e18
    assert 7.9 < held_by(kernel_devices("numpy,golden:fpga-demo")).most < 8
    data = dataset(80)
    with pytest.raises(UserError, match=r"beyond the .* that format fixed holds"):
        from plinth.train.scale import UNSCALED
        prepared(network(), Samples(data.train_x * 100, data.train_y), scale=UNSCALED,
                 devices=kernel_devices("golden:fpga-demo"), inputs=12, beta=None)
