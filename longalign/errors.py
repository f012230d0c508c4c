"""The errors that longalign raises on purpose, each with the exit code of the command line."""

from __future__ import annotations


class LongalignError(Exception):
    """Base class of the errors raised on purpose; the text is one line that states the fault."""

    exit_code = 1

    def __init__(self, text: str) -> None:
        super().__init__(" ".join(text.splitlines()))


class InputError(LongalignError):
    """A sequence, file or scoring cannot be used. The text names file, record and position."""


class NoSuchRecord(InputError):
    """A file that was read to its end has no record of the name that is asked for."""


class StoreError(LongalignError):
    """A store is locked, full, damaged, of another version, or belongs to other input or another scoring."""


class DamagedStore(StoreError):
    """The file that says what a store is for is damaged, so the store cannot be used."""


class OtherRun(StoreError):
    """A store is sound, but of other input, another scoring or other options than what is asked for now."""


class UsageError(LongalignError):
    """Options or arguments contradict each other, or ask for what is not possible."""

    exit_code = 2


class BudgetTooSmall(UsageError):
    """A store budget is too small even for the edges of the tiles, which take `needed` bytes."""

    def __init__(self, text: str, needed: int) -> None:
        super().__init__(text)
        self.needed = needed


class MemoryTooSmall(UsageError):
    """The memory budget is too small however the matrix is tiled, or a pruned run needs more than planned."""


class DiskTooSmall(UsageError):
    """The disk of a store has too little room for its boundaries, as a full disk has for any file."""

    exit_code = 1


class BackendError(LongalignError):
    """A back end is missing, cannot run this input, or failed while running."""

    exit_code = 3


class InternalError(LongalignError):
    """An invariant is broken, such as an alignment that does not re-score to its score: never output."""

    exit_code = 3


def reason_of(error: OSError) -> str:
    """What the system says about a failed call, as the end of a message: "no such file or directory"."""
    return (error.strerror or str(error)).lower()
