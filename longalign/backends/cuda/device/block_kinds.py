"""The kinds of row blocks: which special cases occur in the rows that a strip sweeps next.

Each kind has code of its own, specialised at compile time. Only the first two are fast. All others are rare.
"""

from __future__ import annotations

import numpy as np

#: No special case: every part is inside the rectangle, or may sweep on outside it.
FAST = np.int32(0)
#: As FAST, but the maximum is taken over every second row only (see `replay`).
FAST_ALTERNATE_ROWS = np.int32(1)
#: The query has letters other than A, C, G and T here.
AMBIGUOUS = np.int32(2)
#: Some parts are above or below the rectangle and must not sweep on there (see `kernels.sweep`). The speed of
#: these blocks limits how fast strips follow one another, so they must not be slow.
MASKED = np.int32(3)
#: Parts may meet a requested row and store it.
STORES_ROW = np.int32(4)
#: MASKED and STORES_ROW at once, or a ragged strip; see `masked_blocks`.
MASKED_STORES_ROW = np.int32(5)
#: Any special case and any replay, one row at a time; see `masked_blocks`.
ROW_BY_ROW = np.int32(6)
#: Some letters must not be paired with each other; see `masked_blocks`. Along an alignment found before, the
#: speed of these blocks limits how fast strips follow one another, so they must not be slow.
EXCLUDES_PAIRS = np.int32(7)
