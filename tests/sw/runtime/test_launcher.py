"""What is said before all processes are ended reaches the launcher."""

import os
import select
import tempfile
import threading
import time

from plinth.runtime.launcher import await_reader


def test_what_was_said_is_read_before_all_end() -> None:
    """A launcher that reads late is awaited."""
    reader, writer = os.pipe()
    read: list[bytes] = []
    os.write(writer, b"why\n")

    def read_late() -> None:
        time.sleep(0.2)
        read.append(os.read(reader, 100))

    late = threading.Thread(target=read_late)
    late.start()
    await_reader(writer, 60)
    unread, _, _ = select.select([reader], [], [], 0)
    late.join()
    os.close(reader)
    os.close(writer)
    assert not unread and read == [b"why\n"]


def test_what_nobody_reads_is_not_awaited_for_ever() -> None:
    """Nor what is no pipe, or closed."""
    reader, writer = os.pipe()
    os.write(writer, b"why\n")
    await_reader(writer, 0.01)
    os.close(reader)
    os.close(writer)
    await_reader(writer, 60)
    with tempfile.TemporaryFile() as file:
        file.write(b"why\n")
        file.flush()
        file.seek(0)
        await_reader(file.fileno(), 60)
