"""The folder of a run's report: one run at a time writes it, and a report in it is of the last run that began."""

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from plinth.errors import UserError
from plinth.output import check_writable
from plinth_hw.terminal.files import followed, is_same, sole_writer

#: What a run writes into its folder: the report, and beside it picture and plan.
OUTPUTS = REPORT, PICTURE, PLAN = "report.json", "report.png", "plan.json"


class RunFolder:
    """A folder that a run fills; a context, at whose end other runs may have it.

    Parameters
    ----------
    path : Path
    plan : Path or None
        The plan's file that the run reads. It may be that of an earlier run in this folder, and stays as it is.

    Attributes
    ----------
    path : Path
    """

    def __init__(self, path: Path, plan: Path | None = None) -> None:
        self.path = path
        self._kept = plan
        self._held = ExitStack()

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self._held.close()

    def outputs(self) -> list[Path]:
        """Files that the run writes: all of :data:`OUTPUTS`, but for a plan that it reads."""
        return [path for name in OUTPUTS if not ((path := self.path / name).exists() and self._kept is not None
                                                 and is_same(path, self._kept))]

    def hold(self) -> None:
        """Keep other runs out; the folder is made.

        Raises
        ------
        UserError
            If the folder cannot be written, or another run has it.
        """
        check_writable(self.path / REPORT)
        try:
            self._held.enter_context(sole_writer(self.path))
        except BlockingIOError:
            raise UserError(f"{self.path}: another run writes its report there; give another out=, or wait for its "
                            "end") from None

    def clear(self) -> None:
        """Remove the outputs of an earlier run, so that a run that fails leaves none that could be taken for its own.

        Raises
        ------
        UserError
            If they cannot be removed.
        """
        for path in self.outputs():
            try:
                followed(path).unlink(missing_ok=True)
            except OSError as error:
                raise UserError(f"{path}: cannot be written ({error.strerror}); choose another place") from error
