"""What the instructions of a sweep's inner loop are for, and which pipes of a Hopper SM they keep busy.

A quarter of an SM issues one instruction of a warp a cycle. Rates are those for compute capability 9.0 in
NVIDIA's table "Throughput of Native Arithmetic Instructions" (CUDA C++ Programming Guide 12.8, section 5.4.1;
from 13.0 on in the Best Practices Guide), in results per clock and SM: 64 for 32-bit integer addition,
comparison, minimum, maximum, shift, logic, multiplication and 32-bit DPX; 128 for 16-bit DPX, two of which
are one lane's; 32 for a warp shuffle. That is 16 lanes a quarter, and two cycles for a warp. IMAD and integer
dot products have one pipe and other integer instructions another, as the Nsight Compute Profiling Guide says
of its pipelines `fma` and `alu`.
"""

from __future__ import annotations

from collections import Counter

from sass import Instruction, consumers

#: The pipe of an instruction, as these documents have it.
DOCUMENTED = {
    "alu": ("VIADDMNMX", "VIMNMX", "VIMNMX3", "ISETP", "IADD3", "LOP3", "SHF"),
    "fma": ("IMAD",),
    "memory": ("LDS", "STS", "SHFL"),
    "control": ("BRA", "BSSY", "BSYNC"),
}

#: The same where they do not name the instruction, or not its rate.
ASSUMED = {
    "alu": ("PRMT", "SEL", "VIADD", "LEA", "MOV"),
    "fma": ("IDP",),
    "uniform": ("UMOV", "UIADD3", "ULDC"),
}

PIPES = {name: pipe for table in (DOCUMENTED, ASSUMED) for pipe, names in table.items() for name in names}
ASSUMED_NAMES = frozenset(name for names in ASSUMED.values() for name in names)

#: Cycles that an instruction of a warp keeps a pipe of a quarter busy. Shared memory is that of all four: so
#: long at the least, for a word of every lane.
CYCLES = {"alu": 2, "fma": 2, "memory": 4}

MAXIMA = frozenset({"VIADDMNMX", "VIMNMX", "VIMNMX3"})

#: What an instruction is for: the recurrence; the score of a letter pair; the highest value of a row; copies
#: between registers; what a row takes from shared memory (words of a profile among it) and from the lane to
#: the left, and leaves there; and the rest: to count, to address, to branch.
PURPOSES = ("recurrence", "score", "best", "copies", "edges", "loop")

_LOOKUPS = ("PRMT", "IDP", "SEL")


def pipe_of(instruction: Instruction) -> str:
    """ValueError for an instruction that no sweep had when this was written."""
    if instruction.name not in PIPES:
        raise ValueError(f"no pipe is known for {instruction.opcode}")
    return PIPES[instruction.name]


def bounds(loop: list[Instruction]) -> dict[str, int]:
    """Cycles of a quarter that a warp's turn of a loop takes at the least: to issue it, and on each pipe."""
    pipes = Counter(map(pipe_of, loop))
    return {"issue": len(loop), **{pipe: cycles * pipes[pipe] for pipe, cycles in CYCLES.items()}}


def purposes(loop: list[Instruction]) -> list[str]:
    """What each instruction of a loop is for, one of `PURPOSES`: by its name and by what it feeds."""
    feeds = consumers(loop)
    best, handed_on = _best(loop, feeds), _handed_on(loop, feeds)
    found = []
    for at, instruction in enumerate(loop):
        fed = {loop[reader].name for reader in feeds[at] if reader not in handed_on}
        if at in best:
            found.append("best")
        elif instruction.name in MAXIMA or (_is_addition(instruction) and MAXIMA & fed):
            found.append("recurrence")
        elif instruction.name in DOCUMENTED["memory"] or at in handed_on:
            found.append("edges")
        elif instruction.name in _LOOKUPS or (instruction.name == "ISETP" and "SEL" in fed):
            found.append("score")
        elif _is_copy(instruction):
            found.append("copies")
        else:
            found.append("loop")
    return found


def _is_addition(instruction: Instruction) -> bool:
    return instruction.name in ("IADD3", "VIADD") or "IADD" in instruction.modifiers


def _is_copy(instruction: Instruction) -> bool:
    return instruction.name == "MOV" or "MOV" in instruction.modifiers


def _best(loop: list[Instruction], feeds: list[set[int]]) -> set[int]:
    """Maxima that nothing reads but each other, comparisons, and copies for when one succeeds; and those."""
    chosen = {at for at, instruction in enumerate(loop) if instruction.name in MAXIMA}
    ends = {
        at
        for at, instruction in enumerate(loop)
        if instruction.name == "ISETP" or (_is_copy(instruction) and not feeds[at])
    }
    while others := {at for at in chosen if not feeds[at] <= chosen | ends}:
        chosen -= others
    return chosen | {reader for at in chosen for reader in feeds[at]}


def _handed_on(loop: list[Instruction], feeds: list[set[int]]) -> set[int]:
    """Selections of what a shuffle brought or, in the first lane, of the edge; what joins their halves."""
    shuffles = {at for at, instruction in enumerate(loop) if instruction.name == "SHFL"}
    selections = {reader for at in shuffles for reader in feeds[at] if loop[reader].name == "SEL"}
    joins = {reader for at in selections for reader in feeds[at] if loop[reader].name == "PRMT"}
    return selections | joins
