"""Shares of words that predicted gathers and skipped scatters are expected to take, given by a network."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from plinth.array.array import ring
from plinth.cli.commands import cli
from plinth.errors import UserError
from plinth.network.file import network_from_data, network_to_data
from plinth.network.winograd import with_tiles
from plinth.network.zoo import NETWORKS
from plinth.partition.graph import from_network
from plinth.plan.plan import Plan, fingerprint
from plinth.plan.plan_file import load_plan, save_plan
from plinth.plan.planners.mpt import grouped
from plinth.plan.planning import given_plan
from plinth.predict.time import StepTime
from plinth.simulate.step import simulated

ARRAY = ring(4, preset="ndp-demo-predict")
GIVEN = (0.2, 0.1, 0.5, 0.25, 0.4)


def plan_of(shares: tuple[float, ...] | None, rounds: int = 1) -> Plan:
    network = with_tiles(NETWORKS["digits-cnn"], 2, "winograd", rounds, shares)
    graph = from_network(network)
    return replace(given_plan(graph, ARRAY, grouped(graph, ARRAY, 2), 32), definition=network, planner="mpt")


def coded(plan: Plan) -> dict[tuple[str, str, str], float]:
    """Words over those of all elements, of exchanges in codes."""
    whole, transfers = ({(transfer.exchange.layer, transfer.exchange.phase, transfer.exchange.kind): transfer
                         for transfer in some.transfers} for some in (plan_of(None, 0), plan))
    # Without codes products are gathered by lines, half of the elements.
    return {key: transfer.words / (whole[key].words * 16 / dict(whole[key].exchange.extra)["elements"])
            for key, transfer in transfers.items() if transfer.exchange.coded}


def test_words_are_those_of_the_shares() -> None:
    word_shares = coded(plan_of(GIVEN))
    skipped = {("fprop", "scatter"): 0.5, ("bprop", "scatter"): 0.25, ("bprop", "gather"): 0.4}
    assert {key[1:] for key in word_shares} == {("fprop", "gather"), *skipped}
    for (_, phase, kind), share in word_shares.items():
        # Masks and lengths of strings beside them.
        assert share == pytest.approx(skipped.get((phase, kind), 0.2 + 0.1 + 1 / 32), abs=0.01)


@pytest.mark.parametrize(("shares", "rounds"), [((0,) * 5, 1), ((1,) * 5, 1), ((0,) * 6, 2), ((1,) * 6, 2)])
def test_words_never_leave_what_is_possible(shares: tuple[float, ...], rounds: int) -> None:
    for transfer in plan_of(shares, rounds).transfers:
        assert transfer.bounds[0] <= transfer.words <= transfer.bounds[1]


def test_steps_take_longer_the_more_is_sent() -> None:
    plans = [plan_of(shares) for shares in ((0.01,) * 5, GIVEN, (1.0,) * 5)]
    for seconds in ([simulated(plan, ARRAY).result.seconds for plan in plans],
                    [StepTime(plan.graph, plan.batch, ARRAY).seconds(plan.splits) for plan in plans]):
        assert seconds[0] < seconds[1] < seconds[2]


def test_a_plan_states_them_and_is_held_to_them(tmp_path) -> None:
    path, plan = tmp_path / "plan.json", plan_of(GIVEN)
    save_plan(path, plan)
    data = json.loads(path.read_text())
    assert {tuple(transfer["coded"]["shares"]) for transfer in data["transfers"] if "coded" in transfer} == {
        (0.2, 0.1), (0.5,), (0.25,), (0.4,)}
    assert load_plan(path).graph == plan.graph
    next(transfer for transfer in data["transfers"] if "coded" in transfer)["coded"]["shares"][0] = 0.75
    path.write_text(json.dumps(data))
    with pytest.raises(UserError, match=r"coded\.shares\[0\] is 0.75, but 0.2 follows from the splits"):
        load_plan(path)


def test_a_network_keeps_them_and_its_plans_are_others() -> None:
    network = with_tiles(NETWORKS["digits-cnn"], 2, "winograd", 1, GIVEN)
    assert network_from_data(network_to_data(network), "x") == network
    assert fingerprint(from_network(network)) != fingerprint(from_network(with_tiles(network, None, None, None, ())))
    plain = with_tiles(NETWORKS["digits-cnn"], 2, "winograd", 1)
    assert network_to_data(with_tiles(network, None, None, None, ())) == network_to_data(plain)


@pytest.mark.parametrize(("predict", "shares", "why"), [
    ("1", "0.1,0.2,0.3", r"shares of layer 'conv1', of predict: 1, must be 5 numbers, of 2 parts .*, not 3"),
    ("2", "0.1,0.2,0.3,0.4", r"must be 6 numbers, of 3 parts"),
    ("1", "0.1,0.2,0.3,1.5", r"shares of layer 'conv1' must be a list of up to 6 numbers from 0 to 1, not .*1\.5"),
    ("1", "0.1,nan,0.3,0.4", r"--shares '0\.1,nan,0\.3,0\.4' are not numbers from 0 to 1 with commas between"),
    ("1", "", r"--shares '' are not numbers"),
    ("0", "0.1,0.2,0.3,0.4", r"no layer of network 'digits-cnn' is predicted, so --shares are of none")])
def test_what_is_no_share_is_refused(predict: str, shares: str, why: str) -> None:
    refusal = CliRunner().invoke(cli, ["plan", "digits-cnn", "--winograd", "2", "--array", "ring-4",
                                       "--predict", predict, "--shares", shares], standalone_mode=False)
    assert isinstance(refusal.exception, UserError)
    assert refusal.exception.args[0].count("\n") == 0
    with pytest.raises(UserError, match=why):
        raise refusal.exception


@pytest.mark.parametrize("shares", [
    "much", [0.1, True, 0.3, 0.4], [float("nan")] * 4, [0.1, -0.2, 0.3, 0.4], [0.5] * 7])
def test_files_are_held_to_them(shares: object) -> None:
    data = network_to_data(with_tiles(NETWORKS["digits-cnn"], 2, "winograd", 1, GIVEN))
    next(layer for layer in data["layers"] if "shares" in layer)["shares"] = shares
    with pytest.raises(UserError, match="must be a list of up to 6 numbers from 0 to 1, not"):
        network_from_data(data, "x")


@pytest.mark.parametrize(("rounds", "expected"), [
    (0, "bf680e9d696df129ef86b781b842292bdc82a31758089341695176767dc96dcf"),
    (1, "08422e5f83b7110ad22376bfd8ed4b3ef200fea3ebbbfa029cebf3f7e606d18b")])
def test_what_is_not_asked_for_leaves_fingerprints(rounds: int, expected: str) -> None:
    """As they were before networks could give shares, or ask for regions."""
    assert fingerprint(from_network(with_tiles(NETWORKS["digits-cnn"], 2, None, rounds))) == expected
