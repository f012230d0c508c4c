"""Machine code of NVIDIA GPUs (SASS) as `nvdisasm -c` lists it: instructions, loops, what feeds what."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

_LABEL = re.compile(r"(\.L_x_\d+):")
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
_TARGET = re.compile(r"`\((\.L_x_\d+)\)")
_REGISTER = re.compile(r"\b(U?[RP])(\d+)\b")
_ADDRESS = re.compile(r"\[.*?\]")

#: Instructions after which a warp ends or jumps to an unknown place, unless a predicate guards them.
_ENDS = ("EXIT", "RET", "BRX", "JMX")


@dataclass(frozen=True)
class Instruction:
    """One instruction: such as `P0`, `VIADDMNMX.U16x2` and `R18, R18, R162.reuse, R19, !PT`."""

    guard: str | None
    opcode: str
    operands: str

    @property
    def name(self) -> str:
        """The opcode without its modifiers."""
        return self.opcode.split(".")[0]

    @property
    def modifiers(self) -> list[str]:
        """What follows the name: types, ways to round, what a multiplication is used for."""
        return self.opcode.split(".")[1:]

    @cached_property
    def writes(self) -> frozenset[str]:
        """Registers and predicates that it sets; none for a store or a branch."""
        return self._registers(self._operands[0])

    @cached_property
    def reads(self) -> frozenset[str]:
        """Registers and predicates that it needs, its guard among them."""
        operands = self._operands[1]
        addresses = " ".join(_ADDRESS.findall(operands))
        found = self._registers(_ADDRESS.sub("", operands))
        return found | {"".join(parts) for parts in _REGISTER.findall(f"{addresses} {self.guard or ''}")}

    @cached_property
    def _operands(self) -> tuple[str, str]:
        """What it sets, and the rest. An unused predicate may stand first."""
        result, _, others = self.operands.removeprefix("PT, ").partition(", ")
        return (result, others) if self.name != "BRA" and _REGISTER.fullmatch(result) else ("", self.operands)

    def _registers(self, operands: str) -> frozenset[str]:
        """Those named, with the ones that follow where an instruction moves more than one word."""
        memory = self.name.startswith(("LD", "ST"))
        words = 4 if "128" in self.modifiers else 2 if "64" in self.modifiers else 1
        return frozenset(
            f"{kind}{int(number) + k}"
            for kind, number in _REGISTER.findall(operands)
            for k in range(words if memory and kind == "R" else 1)
        )


@dataclass(frozen=True)
class Listing:
    """The instructions of a kernel, and before which of them its labels stand."""

    instructions: list[Instruction]
    labels: dict[str, int]

    @classmethod
    def parse(cls, text: str) -> Listing:
        """What `nvdisasm -c` prints for a cubin of one kernel."""
        instructions: list[Instruction] = []
        labels = {}
        for line in text.splitlines():
            if label := _LABEL.match(line.strip()):
                labels[label[1]] = len(instructions)
            elif found := _INSTRUCTION.search(line):
                instructions.append(Instruction(*found.groups()))
        return cls(instructions, labels)

    def successors(self) -> list[list[int]]:
        """Where each instruction can lead; a warp whose lanes have parted is left aside."""
        following = []
        for at, instruction in enumerate(self.instructions):
            after = [at + 1] if at + 1 < len(self.instructions) else []
            if instruction.name == "BRA" and "DIV" not in instruction.modifiers:
                conditional = instruction.guard or not instruction.operands.startswith("`")
                target = _TARGET.search(instruction.operands)
                after = [self.labels[target[1]], *(after if conditional else [])]
            elif instruction.name in _ENDS and not instruction.guard:
                after = []
            following.append(after)
        return following


def shortest_loop(listing: Listing, names: Collection[str], least: int) -> list[Instruction]:
    """The shortest way around a loop, among those on which at least `least` instructions have these names.

    Rare cases are behind branches, which the shortest way does not take. Raises ValueError if there is no
    such loop.
    """
    following = listing.successors()
    heads = sorted({to for at, after in enumerate(following) for to in after if to <= at})
    ways = [[listing.instructions[at] for at in _way_around(following, head)] for head in heads]
    fitting = [way for way in ways if sum(instruction.name in names for instruction in way) >= least]
    if not fitting:
        raise ValueError(f"no loop has {least} of {', '.join(sorted(names))}")
    return min(fitting, key=len)


def _way_around(following: list[list[int]], head: int) -> list[int]:
    """The shortest way from an instruction back to it, in order; empty if there is none."""
    before: dict[int, int] = {}
    waiting = deque([head])
    while waiting:
        at = waiting.popleft()
        for to in following[at]:
            if to == head:
                way = [at]
                while way[-1] != head:
                    way.append(before[way[-1]])
                return way[::-1]
            if to not in before:
                before[to] = at
                waiting.append(to)
    return []


def consumers(loop: list[Instruction]) -> list[set[int]]:
    """For each instruction of a loop, the places of those that read what it sets, in the next turn too."""
    found: list[set[int]] = [set() for _ in loop]
    for at, instruction in enumerate(loop):
        there = set(instruction.writes)
        for step in range(1, len(loop) + 1):
            later = loop[(at + step) % len(loop)]
            if there & later.reads:
                found[at].add((at + step) % len(loop))
            if not later.guard:
                there -= later.writes
            if not there:
                break
    return found
