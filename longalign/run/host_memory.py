"""The host memory that a process needs besides its tiles and the lattice."""

from __future__ import annotations

from collections.abc import Sequence

from longalign.backends.base import Backend

#: Bytes that a worker's program takes, whatever its back end: see `Backend.program_bytes`.
WORKER_PROGRAM_BYTES = 512 << 20

#: Bytes for each letter of both sequences: the letter, its code, the code in reverse order, the edges of the
#: matrix and of a tile, and a back end's buffers.
_BYTES_PER_LETTER = 48

#: The same for one more strand of the query: the code of a letter, and the edges of the matrix.
_MORE_BYTES_PER_LETTER = 10

#: Bytes for each letter of both sequences that phases 2 and 3 need at most. The rectangles along a path have
#: as many letters as both sequences; a small one that is traced needs a byte for each of its cells.
_PATH_BYTES_PER_LETTER = 1200


def fixed_bytes(letters: int, backends: Sequence[Backend], has_paths: bool, strands: int) -> int:
    """Bytes for a run over `letters` letters of both sequences, on one or both strands of the query.

    `has_paths` says whether phases 2 and 3 follow. They run on the first device, for one strand.
    """
    program = max(backend.program_bytes for backend in backends)
    paths = min(backends[0].host_bytes_per_call, _PATH_BYTES_PER_LETTER * letters) if has_paths else 0
    return program + _letter_bytes(letters, strands) + paths


def fixed_bytes_of_worker(letters: int, strands: int) -> int:
    """The same for a process that only sweeps tiles."""
    return WORKER_PROGRAM_BYTES + _letter_bytes(letters, strands)


def _letter_bytes(letters: int, strands: int) -> int:
    return (_BYTES_PER_LETTER + (strands - 1) * _MORE_BYTES_PER_LETTER) * letters
