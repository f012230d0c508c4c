"""Long edges in pieces: a packed edge is never unpacked as a whole, and threads share the work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from longalign.model.boundary import Edge, IntArray
from longalign.system.threads import in_threads

T = TypeVar("T")

#: The values of a piece.
_PIECE = 1 << 18

#: Edges of more letters than this are shared among threads.
LONG = 4 * _PIECE


def in_pieces(edge: Edge, start: int, examine: Callable[[int, IntArray, IntArray], T]) -> list[T]:
    """The results of `examine` for each piece of an edge, from index `start` on, in order.

    The arguments of `examine` are the index of the piece's first value, its values of H, and its gap states.
    """

    def look(first: int) -> T:
        return examine(first, *edge.cells(first, min(first + _PIECE, len(edge) + 1)))

    firsts = range(start, len(edge) + 1, _PIECE)
    return in_threads(look, firsts) if len(edge) > LONG else [look(first) for first in firsts]
