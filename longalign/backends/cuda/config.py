"""What the kernel is specialised on. Nothing here needs a CUDA package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LANES = 32

#: Rows that a part of a strip sweeps in one step: their columns depend on one another in two chains, so that
#: a warp hides half of the latency by itself.
STEP_ROWS = 2

#: What a lane computes in. "packed": two cells at a time, each 16 bits relative to a 32-bit base that follows
#: the sweep; "int32": one cell at a time.
NumberFormat = Literal["packed", "int32"]

#: How letter pairs are scored. "bytes": from a target letter's four 8-bit scores against A C G T.
#: "compare": any codes and any scores, in 32 bits only. "profile": by a matrix, from what every letter scores
#: against the columns of the strip; in 8 bits where numbers are packed.
LetterScoring = Literal["bytes", "compare", "profile"]


@dataclass(frozen=True, slots=True)
class KernelConfig:
    """Compile-time choices of one kernel; everything else is a run-time argument.

    A warp sweeps a strip and exchanges boundary values every `block_rows` rows: a row block. A thread block
    is `warps` independent warps. A strip has `parts`, each `columns` wide: one for each lane of the warp, or
    two where numbers are packed. `max_registers` bounds the registers of a thread, to make room for more
    warps.

    `prefetch_edge`: the edge of a row block is read a whole row block before it is needed. No lane then waits
    for memory, but a strip falls that much further behind its left neighbour, as it cannot read what has not
    been published. Otherwise the edge is read at the end of the preceding row block, or shortly before that
    (`receive_edge_early`), and strips follow one another closely. That is better where few warps share the
    pipes and would only wait for one another.
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
        """Whether columns leave too few registers to keep what can be read again in each row block."""
        return self.columns > 8

    @property
    def narrow(self) -> bool:
        """Whether columns are so few that a row takes as long as its chain of dependent instructions.

        There are registers in plenty then, to begin early what takes its time.
        """
        return not self.reload_parameters and self.numbers == "packed"

    @property
    def snapshot_in_registers(self) -> bool:
        """Whether there are registers to hold what a row block begins with until it has come high (see
        `replay`).

        That spares stores, which narrow strips feel: few columns make short row blocks.
        """
        return self.track_best and self.narrow

    @property
    def separate_store_row_code(self) -> bool:
        """Whether row blocks in which parts only meet a requested row have code of their own (see
        `masked_blocks`).

        In narrow strips that gains less than it takes to compile.
        """
        return not self.narrow

    @property
    def send_edge_early(self) -> bool:
        """Whether a row's edge is passed on to the next lane before the next row is swept.

        A few columns are swept sooner than it arrives. With more of them, measured, nothing is gained.
        """
        return self.narrow and self.columns <= 5

    @property
    def receive_edge_early(self) -> bool:
        """Whether the edge of a row block is read while the last rows of a FAST block before are swept.

        What is read waits in registers: there are enough in the narrowest strips.
        """
        return self.send_edge_early and not self.prefetch_edge

    @property
    def may_skip_rows(self) -> bool:
        """Whether row blocks may watch every second row only, where scores are high (see `replay`).

        In narrow strips, a row takes so long whatever is done with its cells; and letters that are compared
        leave no registers for what must be known then.
        """
        return self.track_best and self.columns > 8 and self.letter_scoring != "compare"

    @property
    def halves(self) -> int:
        """Cells that a lane computes at a time."""
        return 2 if self.numbers == "packed" else 1

    @property
    def parts(self) -> int:
        """Parts of a strip, each of them a step behind its left neighbour."""
        return LANES * self.halves

    @property
    def span(self) -> int:
        """Rows that the parts of a strip are spread over."""
        return STEP_ROWS * self.parts

    @property
    def strip_width(self) -> int:
        """Columns of a full strip."""
        return self.columns * self.parts

    @property
    def lag(self) -> int:
        """Rows by which a strip follows its left neighbour.

        The neighbour has swept a row block, and its last part has come as far only almost a `span` later.
        """
        return -(-(self.block_rows + self.span - STEP_ROWS) // self.block_rows) * self.block_rows

    @property
    def slope(self) -> int:
        """Rows by which bands begin higher up in a strip than in its left neighbour.

        A strip then has rows for its next band as soon as the neighbour goes on with its own.
        """
        return -(-self.span // self.block_rows) * self.block_rows

    @property
    def state_words(self) -> int:
        """What a lane keeps while its strip is interrupted (see `strip_state`)."""
        return 2 * self.columns + 9

    @property
    def link_words(self) -> int:
        """int32 in which H and the gap state of a row pass from one part to the next."""
        return 1 if self.numbers == "packed" else 2

    @property
    def slot_bytes(self) -> int:
        """The same in bytes: a slot of a mailbox."""
        return 4 * self.link_words

    @property
    def snapshot_values(self) -> int:
        """int32 that a warp keeps of a row block, to sweep it again (see `replay`)."""
        return self.state_words * LANES + self.link_words * self.block_rows

    @property
    def row_buffer_at(self) -> int:
        """Where in a warp's own memory it puts a requested row aside (see `requested_rows`): after what it
        keeps of two row blocks, if any is swept again."""
        return 2 * self.snapshot_values * self.track_best

    @property
    def warp_values(self) -> int:
        """int32 of device memory that a warp has for itself."""
        return self.row_buffer_at + 2 * self.strip_width

    @property
    def mailbox_bytes(self) -> int:
        """Shared memory of a warp: two slots for every row of a row block, and row letters, each twice."""
        return 2 * self.slot_bytes * self.block_rows + 2 * 4 * self.ring_slots

    @property
    def ring_slots(self) -> int:
        """Row letters that the parts of a strip work on in one row block, rounded up to a power of two."""
        return 1 << (self.block_rows + self.span - 1).bit_length()
