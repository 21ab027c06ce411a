"""Commands in this process."""

import pytest

from plinth import cli


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of ``plinth`` with arguments."""
    code = 0
    try:
        cli.main([*map(str, arguments)])
    except SystemExit as stop:
        code = int(stop.code or 0)
    output = capsys.readouterr()
    return code, output.out, output.err
