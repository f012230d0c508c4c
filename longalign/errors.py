"""Every error that longalign raises on purpose, each with the exit code the command line gives it."""

from __future__ import annotations


class LongalignError(Exception):
    """Base of all errors a user can cause or meet; its text is one line that says what is wrong."""

    exit_code = 1


class InputError(LongalignError):
    """A sequence, file or scoring that cannot be used; the text names file, record and position."""


class StoreError(LongalignError):
    """A store that is locked, full, of another version, or of other input or scoring."""


class UsageError(LongalignError):
    """Options that contradict each other."""

    exit_code = 2


class BudgetTooSmall(UsageError):
    """A budget that holds not even the edges of tiles; with `needed` bytes it would."""

    def __init__(self, text: str, needed: int) -> None:
        super().__init__(text)
        self.needed = needed


class MemoryTooSmall(UsageError):
    """Memory in which a run does not fit, however its matrix is cut."""


class BackendError(LongalignError):
    """A back end that is missing, cannot run this input, or failed while running."""

    exit_code = 3


class InternalError(LongalignError):
    """A broken invariant, such as an alignment that does not re-score to its score: never output."""

    exit_code = 3
