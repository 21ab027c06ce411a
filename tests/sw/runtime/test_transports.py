"""Ends of transports by themselves: who has left, how, and what is heard of it when."""

import pytest

from plinth.errors import UserError
from plinth.runtime.transports import Left, Letter, QueueTransport
from plinth_sim.golden.transport import Advance, PeerLostError

PROCESSES = ((0, 3), (1,), (2, 4))


def end() -> tuple[QueueTransport, dict[int, list[Letter]]]:
    """That of process 1, and what it posts to each other."""
    transport, posted = QueueTransport(PROCESSES, 1), {0: [], 2: []}
    transport.carriers.update((process, letters.append) for process, letters in posted.items())
    return transport, posted


def test_messages_go_to_the_process_of_their_destination_and_come_in_order() -> None:
    transport, posted = end()
    for die in (3, 2, 0, 4):
        transport.send(Advance(1, die, 7))
    assert [[message.destination for message in posted[process]] for process in (0, 2)] == [[3, 0], [2, 4]]
    for number in range(3):
        transport.letters.put((2, Advance(4, 1, number)))
    assert [transport.receive(seconds) for seconds in (0, 9, 0, 0)] == [*(Advance(4, 1, n) for n in range(3)), None]
    assert transport.receive(0.01) is None


def test_who_left_in_order_is_not_lost_though_his_end_breaks_off() -> None:
    transport, _ = end()
    for letter in (Advance(0, 1, 7), Left(), Left("")):
        transport.letters.put((0, letter))
    assert transport.receive(0) == Advance(0, 1, 7)
    assert transport.receive(0.01) is None
    transport.letters.put((2, Left()))
    # Nobody is left who could send something: there is nothing to wait for.
    assert transport.receive(1e6) is None


@pytest.mark.parametrize(("why", "said"), [("", ""), ("no memory", " with an error: no memory")])
def test_who_breaks_off_is_lost_once_there_is_nothing_else(why: str, said: str) -> None:
    transport, _ = end()
    transport.letters.put((2, Left(why)))
    transport.letters.put((0, Advance(0, 1, 7)))
    assert transport.receive(9) == Advance(0, 1, 7)
    assert transport.receive(0) is None
    with pytest.raises(PeerLostError, match=f"^dies 2, 4 lost: their process has ended{said}$"):
        transport.receive(9)


def test_nothing_can_be_sent_to_who_is_gone() -> None:
    def gone(letter: Letter) -> None:
        raise BrokenPipeError

    transport, _ = end()
    transport.carriers[0] = gone
    with pytest.raises(PeerLostError, match="dies 0, 3 lost: their process has ended"):
        transport.send(Advance(1, 3, 7))


def test_others_are_told_how_a_process_leaves() -> None:
    def gone(letter: Letter) -> None:
        raise BrokenPipeError

    for error, left in ((None, Left()), (UserError("a.npz: is\nempty"), Left("a.npz: is empty")),
                        (KeyboardInterrupt(), Left("KeyboardInterrupt"))):
        transport, posted = end()
        transport.carriers[0] = gone
        try:
            with transport:
                if error is not None:
                    raise error
        except (UserError, KeyboardInterrupt):
            assert error is not None
        assert posted[2] == [left]
