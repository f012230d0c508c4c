"""What a pruned sweep of a matrix has left out so far: whole tiles that no path of interest visits.

Their place is taken by edges with the values of `pruning.values_left_out`. Whether a tile is left out depends
on the bound and on the values on its edges. A resumed run tests again the tiles that are neither stored nor
known to be left out. Any outcome of such a test is valid, since the bound never exceeds the best score.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from longalign.model.boundary import LinearEdge
from longalign.model.pruning import values_left_out
from longalign.model.scoring import Scoring
from longalign.store.base import TilePlace


@dataclass(slots=True)
class LeftOut:
    """The tiles that were left out, and the best score that was found in any tile, which raises the bound.

    Both grow while the tiles of a matrix are swept. `listed` are those that the store lists.
    """

    tiles: set[TilePlace] = field(default_factory=set)
    reached: int = 0
    listed: frozenset[TilePlace] = frozenset()


def left_out_edge(length: int, scoring: Scoring, local: bool) -> LinearEdge:
    """An edge of a tile that was left out, of `length` letters."""
    h, _ = values_left_out(scoring, local)
    return LinearEdge(length, h, h, 0)
