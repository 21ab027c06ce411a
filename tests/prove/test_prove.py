"""The list of proofs, and a few of them; all are ``make prove``."""

from importlib import import_module
from pathlib import Path

import pytest
from tests.prove.campaign import judge
from tests.prove.harness import Harness, Start
from tests.prove.listing import NAME, listed
from tests.prove.proof import changed
from tests.prove.proofs import PROOFS
from tests.prove.solver import solve

import plinth_hw.memory.axi as axi
from plinth_hw.terminal.marked import replaced

PAGE = Path(__file__).resolve().parents[2] / "docs" / "verification.md"
BY_NAME = {proof.name: proof for proof in PROOFS}


def test_page_lists_what_is_proved():
    """`python -m tests.prove --list` brings it up to date."""
    page = PAGE.read_text(encoding="utf-8")
    assert page == replaced(page, NAME, lambda old: listed(PROOFS))


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.name)
def test_every_claim_has_a_twin_of_todays_source(proof):
    harness = proof.harness()
    assert harness.rtlil() and {twin.claim for twin in proof.twins} == set(harness.claims)
    for twin in proof.twins:
        assert proof.harness(twin).rtlil()


def test_a_change_must_occur_once():
    with pytest.raises(ValueError, match="'no such line' 0 times"):
        changed(axi, [("no such line", "")])


@pytest.mark.slow
@pytest.mark.xdist_group("prove")
@pytest.mark.parametrize("name", ["page-split", "crossbar", "axi4-master", "update-counters", "axi4-lite-slave",
                                  "link-credits"])
def test_proof_holds(name, tmp_path):
    assert judge(BY_NAME[name], None, tmp_path).answer.verdict == "holds"


@pytest.mark.slow
@pytest.mark.xdist_group("prove")
@pytest.mark.parametrize("name", ["fifo-head-2", "update-counters", "task-ring"])
def test_reset_leads_from_any_state(name, tmp_path):
    """To where claims hold; without a reset they do not."""
    for start, verdict in ((Start.RESET, "holds"), (Start.NEVER, "fails")):
        assert judge(BY_NAME[name], None, tmp_path, start).answer.verdict == verdict


@pytest.mark.slow
@pytest.mark.xdist_group("prove")
def test_a_register_without_reset_is_found(tmp_path):
    """Counters are cleared from the first one on, or not all of them are."""
    proof = BY_NAME["update-counters"]
    harness = Harness(start=Start.RESET)
    proof.build(harness, changed(import_module(proof.module), [
        ("index = Signal(range(self.counters))", "index = Signal(range(self.counters), reset_less=True)")]))
    assert solve(harness.rtlil(), tmp_path, 4, bounded=True).verdict == "fails"


@pytest.mark.slow
@pytest.mark.xdist_group("prove")
def test_broken_twin_is_found(tmp_path):
    proof = BY_NAME["update-counters"]
    assert judge(proof, proof.twins[0], tmp_path).answer.verdict == "fails"


@pytest.mark.slow
@pytest.mark.xdist_group("prove")
def test_an_invariant_that_does_not_hold_is_no_proof(tmp_path):
    """Neither a wrong claim nor a wrong invariant goes through."""
    proof = BY_NAME["update-counters"]
    for add in ("claim", "invariant"):
        harness = proof.harness()
        arguments = ("wrong",) if add == "claim" else ()
        getattr(harness, add)(*arguments, harness.past(harness.first) == 0)
        assert solve(harness.rtlil(), tmp_path / add, 3, bounded=False).verdict == "fails"
