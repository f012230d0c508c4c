"""Scorings of well-known programs, by name. `Scoring(preset=...)` takes them, and so does `--preset`.

Each stands here in both conventions: ALPHA + k*BETA for a gap of k letters, and FIRST for its first letter
and NEXT for each further one. FIRST is ALPHA + BETA, and NEXT is BETA.

| preset         | letter pairs    | ALPHA | BETA | FIRST | NEXT |
|----------------|-----------------|-------|------|-------|------|
| cudalign       | 1, -3           | 3     | 2    | 5     | 2    |
| megablast      | 1, -2           | 0     | 2.5  | 2.5   | 2.5  |
| blastn         | 2, -3           | 5     | 2    | 7     | 2    |
| lastz          | matrix HOXD70   | 400   | 30   | 430   | 30   |
| minimap2-asm5  | 1, -19          | 39    | 3    | 42    | 3    |
| minimap2-asm20 | 1, -4           | 6     | 2    | 8     | 2    |
| edit           | 0, -1           | 0     | 1    | 1     | 1    |

minimap2 charges the lower of two costs for a gap of k letters: 39 + 3k and 81 + k in asm5, 6 + 2k and 26 + k
in asm20. The preset takes the first one, because it is what every gap of up to 21 letters (asm5) or 20
letters (asm20) costs, and most gaps are short. A longer gap costs more here, so the score of an alignment is
at most that of minimap2 for it.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from longalign.system.rationals import Number, parse_number, spell

#: Columns of a help text.
_WIDTH = 110


@dataclass(frozen=True, slots=True)
class Preset:
    """A scoring and its source. `pair` is match and mismatch; `matrix`, if not empty, replaces them."""

    gap_open: Number
    gap_extend: Number
    source: str
    pair: tuple[Number, Number] | None = None
    matrix: str = ""

    def __str__(self) -> str:
        """The numbers in both conventions."""
        letters = f"matrix {self.matrix}"
        if self.pair is not None:
            letters = "match {}, mismatch {}".format(*map(spell, self.pair))
        first, following = self.gap_open + self.gap_extend, self.gap_extend
        return (
            f"{letters}, gap {spell(self.gap_open)} + k*{spell(self.gap_extend)} "
            f"(first {spell(first)}, next {spell(following)})"
        )


PRESETS: dict[str, Preset] = {
    "cudalign": Preset(
        gap_open=3,
        gap_extend=2,
        source="E. F. de O. Sandes and A. C. M. A. de Melo, IEEE Trans. Parallel Distrib. Syst. 24:1009 "
        "(2013)",
        pair=(1, -3),
    ),
    "megablast": Preset(
        gap_open=0,
        gap_extend=parse_number("2.5"),
        source="BLAST Command Line Applications User Manual, blastn -task megablast: reward 1, penalty -2, "
        "linear gaps of reward/2 - penalty a letter (Z. Zhang et al., J. Comput. Biol. 7:203, 2000)",
        pair=(1, -2),
    ),
    "blastn": Preset(
        gap_open=5,
        gap_extend=2,
        source="BLAST Command Line Applications User Manual, blastn -task blastn: reward 2, penalty -3, "
        "gapopen 5, gapextend 2",
        pair=(2, -3),
    ),
    "lastz": Preset(
        gap_open=400,
        gap_extend=30,
        source="LASTZ manual (R. S. Harris), default scoring: gap_open_penalty 400, gap_extend_penalty 30, "
        "HOXD70 (F. Chiaromonte et al., Pac. Symp. Biocomput. 7:115, 2002)",
        matrix="HOXD70",
    ),
    "minimap2-asm5": Preset(
        gap_open=39,
        gap_extend=3,
        source="minimap2(1), -x asm5: -A1 -B19 -O39,81 -E3,1; the first piece of its gap cost",
        pair=(1, -19),
    ),
    "minimap2-asm20": Preset(
        gap_open=6,
        gap_extend=2,
        source="minimap2(1), -x asm20: -A1 -B4 -O6,26 -E2,1; the first piece of its gap cost",
        pair=(1, -4),
    ),
    "edit": Preset(
        gap_open=0,
        gap_extend=1,
        source="V. I. Levenshtein, Sov. Phys. Dokl. 10:707 (1966); in global mode the score is minus the "
        "distance",
        pair=(0, -1),
    ),
}


def describe_presets() -> str:
    """What `--help` says about the presets: a line each, and its source."""
    sources = {
        name: textwrap.fill(preset.source, _WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 4)
        for name, preset in PRESETS.items()
    }
    return "\n".join(f"  {name}: {preset}\n{sources[name]}" for name, preset in PRESETS.items())
