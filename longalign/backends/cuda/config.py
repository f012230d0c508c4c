"""The compile-time configuration of a sweep kernel. This module needs no CUDA package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Lanes (threads) of a warp.
LANES = 32

#: Rows that a part of a strip sweeps in one step. The two rows are two chains of dependent instructions that
#: run side by side, so a warp hides half of the latency by itself.
STEP_ROWS = 2

#: The numbers that a lane computes with. "packed": two cells at a time, as the halves of a 32-bit number, 16
#: bits each, relative to a 32-bit base that follows the sweep. "int32": one cell at a time.
NumberFormat = Literal["packed", "int32"]

#: How letter pairs are scored.
#: "bytes": each target letter has four 8-bit scores, against A, C, G and T.
#: "compare": letters are compared. This is exact for any codes and scores, but needs int32 numbers.
#: "profile": by a substitution matrix. A table holds the score of every letter against the columns of the
#: strip, in 8 bits for packed numbers and 32 bits for int32.
LetterScoring = Literal["bytes", "compare", "profile"]


@dataclass(frozen=True, slots=True)
class KernelConfig:
    """The compile-time choices of one kernel. Everything else is a run-time argument.

    `local`: H is at least 0. `track_best`: the kernel finds the best cell of each strip. `numbers` and
    `letter_scoring` are explained above.

    A warp sweeps a strip, and exchanges edges with the neighbouring strips every `block_rows` rows; these
    rows are a row block. A thread block consists of `warps` independent warps. A strip has `parts`, each
    `columns` wide: one for each lane of the warp, or two for each lane where numbers are packed.
    `max_registers` limits the registers of a thread, so that more warps are resident. With None the compiler
    decides.

    With `prefetch_edge`, the left edge of a row block is read a whole row block before it is needed. No lane
    then waits for memory. But a strip cannot read an edge that has not been published, so it falls further
    behind its left neighbour by a row block. Without it, the edge is read at the end of the preceding row
    block or shortly before that (`receive_edge_early`), and strips follow one another closely. That is
    better where few warps share the pipes of a multiprocessor and would only wait for one another.

    With `prunes`, the kernel leaves out row blocks that no path of interest can meet (see `left_out_blocks`).
    With `excludes`, it does not use excluded letter pairs (see `excluded_pairs`).

    Raises ValueError for combinations that no kernel supports.
    """

    local: bool
    track_best: bool
    columns: int = 16
    letter_scoring: LetterScoring = "bytes"
    block_rows: int = 32
    warps: int = 4
    numbers: NumberFormat = "int32"
    max_registers: int | None = None
    prefetch_edge: bool = False
    prunes: bool = False
    excludes: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.block_rows <= 2 * LANES or self.block_rows % STEP_ROWS:
            raise ValueError(
                f"a lane loads at most two rows, and a step takes {STEP_ROWS}: {STEP_ROWS} <= block_rows <= "
                f"{2 * LANES} and even, not {self.block_rows}"
            )
        if self.numbers == "packed" and self.letter_scoring == "compare":
            raise ValueError("packed numbers need 8-bit letter scores")

    @property
    def reload_parameters(self) -> bool:
        """Whether each row block reads the parameters of its rectangle again, since registers are scarce."""
        return self.columns > 8

    @property
    def narrow(self) -> bool:
        """Whether the latency of a row's dependent instructions, rather than their number, decides its time.

        Parts then have few columns and leave registers free for loads that are issued early.
        """
        return not self.reload_parameters and self.numbers == "packed"

    @property
    def snapshot_in_registers(self) -> bool:
        """Whether the snapshot of a row block stays in registers until the block is known to be high.

        See `replay`. Most snapshots are then never stored. In narrow strips, whose row blocks are short, the
        stores would take a noticeable share of the time.
        """
        return self.track_best and self.narrow

    @property
    def separate_store_row_code(self) -> bool:
        """Whether STORES_ROW blocks have code of their own (see `masked_blocks`).

        In narrow strips this code gains less time than its compilation takes.
        """
        return not self.narrow

    @property
    def send_edge_early(self) -> bool:
        """Whether the edge of a row is passed to the next lane before the second row of the step is swept.

        The sweep of a few columns takes less time than the shuffle. With more columns, measurements showed no
        gain.
        """
        return self.narrow and self.columns <= 5

    @property
    def receive_edge_early(self) -> bool:
        """Whether a FAST block begins to read the next row block's edge before it sweeps its last rows.

        The edge arrives during these rows and waits in registers. Only the narrowest strips have enough.
        """
        return self.send_edge_early and not self.prefetch_edge

    @property
    def may_skip_rows(self) -> bool:
        """Whether row blocks may watch alternate rows only, where scores are high (see `replay`).

        Narrow strips would gain nothing: their rows are bound by latency. With "compare", no registers are
        left for the additional state.
        """
        return self.track_best and self.columns > 8 and self.letter_scoring != "compare"

    @property
    def halves(self) -> int:
        """Cells that a lane computes at a time: the halves of a number."""
        return 2 if self.numbers == "packed" else 1

    @property
    def parts(self) -> int:
        """Parts of a strip. Each part is a step behind its left neighbour."""
        return LANES * self.halves

    @property
    def span(self) -> int:
        """Rows over which the parts of a strip are spread at any time."""
        return STEP_ROWS * self.parts

    @property
    def strip_width(self) -> int:
        """Columns of a full strip."""
        return self.columns * self.parts

    @property
    def rows_per_lane(self) -> int:
        """Rows of a row block's left edge that a lane loads: lane l loads row l and, if this is 2, l + 32."""
        return -(-self.block_rows // LANES)

    @property
    def fills_lanes(self) -> bool:
        """Whether all lanes load as many rows of a row block. If not, some load the last row again."""
        return self.block_rows % LANES == 0

    @property
    def strip_lag(self) -> int:
        """Rows by which a strip follows its left neighbour: a multiple of `block_rows`.

        The left edge of a row block is complete when the neighbour's last part has swept these rows. That
        part is almost a `span` behind the neighbour's first one.
        """
        return -(-(self.block_rows + self.span - STEP_ROWS) // self.block_rows) * self.block_rows

    @property
    def band_slope(self) -> int:
        """Rows by which each band begins higher in a strip than in the strip's left neighbour.

        A strip can then begin its next band as soon as its left neighbour continues with that band.
        """
        return -(-self.span // self.block_rows) * self.block_rows

    @property
    def state_words(self) -> int:
        """int32 that a lane stores while its strip is interrupted (see `strip_state`)."""
        return 2 * self.columns + 9

    @property
    def link_words(self) -> int:
        """int32 of a link: H and the gap state of a row, as they pass from one part to the next."""
        return 1 if self.numbers == "packed" else 2

    @property
    def slot_bytes(self) -> int:
        """Bytes of a mailbox slot, which holds one link."""
        return 4 * self.link_words

    @property
    def snapshot_values(self) -> int:
        """int32 of a row block's snapshot (see `replay`)."""
        return self.state_words * LANES + self.link_words * self.block_rows

    @property
    def row_buffer_at(self) -> int:
        """Index of the row buffer in a warp's own memory (see `requested_rows`).

        The row buffer comes after the two snapshot buffers, if the kernel has these.
        """
        return 2 * self.snapshot_values * self.track_best

    @property
    def warp_values(self) -> int:
        """int32 of a warp's own device memory: snapshot buffers, and a row buffer for opened values and E."""
        return self.row_buffer_at + 2 * self.strip_width

    @property
    def mailbox_bytes(self) -> int:
        """Bytes of shared memory of a warp: inbox, outbox, and the letter ring, which holds letters twice."""
        return 2 * self.slot_bytes * self.block_rows + 2 * 4 * self.ring_slots

    @property
    def ring_slots(self) -> int:
        """Slots of the letter ring: rows that parts meet in a row block, rounded up to a power of two."""
        return 1 << (self.block_rows + self.span - 1).bit_length()
