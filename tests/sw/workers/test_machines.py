"""Which workers share a machine, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from plinth.errors import UserError
from plinth.partition.row_costs import NetworkRates
from plinth.workers.machines import HOSTS, Machines, machines_of


def test_machines_are_said_or_found(tmp_path: Path) -> None:
    path = tmp_path / "machines.yaml"
    path.write_text("machines: [[1, 0], [2]]\n")
    assert machines_of(None, 3, ["a"] * 3) == Machines(((0,), (1,), (2,)))
    assert machines_of(HOSTS, 4, ["a", "b", "a", "c"], local=False) == Machines(((0, 2), (1,), (3,)), False)
    assert machines_of(path, 3, []) == machines_of(str(path), 3, []) == machines_of([(1, 0), [2]], 3, []) == Machines(
        ((1, 0), (2,)))
    machines = Machines(((1, 0), (2,)))
    assert machines.chiefs == (1, 2) and machines.machine_of == {1: 0, 0: 0, 2: 1}
    assert machines.merged and not Machines(((1, 0), (2,)), False).merged and not Machines(((0,), (1,))).merged


def test_a_file_may_say_what_the_network_carries(tmp_path: Path) -> None:
    path = tmp_path / "machines.yaml"
    path.write_text("machines: [[1, 0], [2]]\ngigabits: 32\nmicroseconds: 5\n")
    rates = machines_of(path, 3, []).rates
    assert rates is not None and rates.words_per_second == 1e9 and rates.latency == pytest.approx(5e-6)
    path.write_text("machines: [[0]]\ngigabits: 0.32\n")
    assert machines_of(path, 1, []).rates == NetworkRates(1e7)


@pytest.mark.parametrize(("rates", "message"), [
    ("gigabits: 0", "gigabits must be a number from 0.001 to 1e+06, not 0"),
    ("gigabits: fast", "gigabits must be a number from 0.001 to 1e+06, not the text 'fast'"),
    ("gigabits: .nan", "gigabits must be a number from 0.001 to 1e+06, not nan"),
    ("gigabits: true", "gigabits must be a number from 0.001 to 1e+06, not true"),
    ("gigabits: 1\nmicroseconds: -1", "microseconds must be a number from 0 to 1e+06, not -1"),
    ("microseconds: 5", "microseconds need gigabits beside them; give gigabits too, or leave them out")])
def test_rates_that_are_none_are_refused(rates: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "machines.yaml"
    path.write_text(f"machines: [[0]]\n{rates}\n")
    with pytest.raises(UserError) as error:
        machines_of(path, 1, [])
    assert str(error.value) == f"{path}: {message}"


@pytest.mark.parametrize(("resources", "message"), [
    ([[0, 1], [1, 2]], "resources: worker 1 is named twice; give each of 3 workers one"),
    ([[0], [2]], "resources: worker 1 is on no machine; give each of 3 workers one"),
    ([[0, 1], [3]], "resources: a worker of a machine is a number from 0 to 2, not 3"),
    ([[0, 1], [True]], "resources: a worker of a machine is a number from 0 to 2, not true"),
    ([[0, 1], []], "resources: machines must be lists of workers, such as [[0, 1], [2, 3]], not "),
    ([0, 1, 2], "resources: machines must be lists of workers, such as [[0, 1], [2, 3]], not "),
    (3, "resources: machines must be lists of workers, such as [[0, 1], [2, 3]], not 3"),
    ("missing.yaml", "missing.yaml: ")])
def test_what_are_no_machines_is_refused(resources: Any, message: str) -> None:
    with pytest.raises(UserError) as error:
        machines_of(resources, 3, ["a"] * 3)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["machines: 3", "hosts: []", "[1, 2]", "machines: [[0, 1, 2]]\nmore: 1"])
def test_files_that_are_none_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "machines.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=str(path)):
        machines_of(path, 3, [])
