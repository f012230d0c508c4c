"""Compare scores of real pairs with EMBOSS and lastz, where the scoring can be made equal.

    python experiments/other_programs.py [--backend cpu] [--out FILE]

Needs the Debian packages `emboss` and `lastz`. The pairs are those of `tests/data`. How conventions map:

- EMBOSS charges a gap of length k `gapopen + (k - 1) * gapextend`, which is `--gap-first` and `--gap-next`
  here. EDNAFULL is NUC.4.4, and EBLOSUM62 is BLOSUM62.
- `water` is mode local, `needle -endweight Y` global, `needle` without it semiglobal with all ends free,
  `stretcher` global in linear memory. `matcher -alternatives K` finds the K best local alignments;
  for mitochondria it takes too long.
- lastz charges as longalign does, so it is the preset `lastz` (HOXD70, 400, 30). It scores N in a way of its
  own, so N is replaced by A for both. It is a heuristic: its best alignment could score less.

Prints every pair of scores. The exit code is 1 if two differ.
"""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from shutil import which

from hardware import save_report
from scripts import run_script, script_parser

import longalign
from longalign import Scoring, SubstitutionMatrix, read_sequence

DATA = Path(__file__).resolve().parents[1] / "tests" / "data"
DNA_PAIRS = {
    "HIV-1": ("hiv1_MB2059.AF133821.1.fa.gz", "hiv1_SF33.AY352275.1.fa.gz"),
    "mitochondria": ("human_mito.NC_012920.1.fa.gz", "chimp_mito.NC_001643.1X.fa.gz"),
}
PROTEIN_PAIRS = {"haemoglobin": ("hba_human.P69905.fa", "hbb_human.P68871.fa")}

#: EMBOSS's usual costs of `water` and `needle`, and those of `stretcher` and `matcher` for DNA and proteins.
FIRST, NEXT = Decimal(10), Decimal("0.5")
LINEAR_DNA, LINEAR_PROTEIN = (16, 4), (12, 2)

#: Alignments that `matcher` is asked for. Only scores are compared: equally good paths may differ.
ALTERNATIVES = 5

Files = tuple[Path, Path]
Row = dict[str, object]


def main() -> int:
    parser = script_parser(__doc__)
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if missing := [name for name in ("water", "needle", "stretcher", "matcher", "lastz") if not which(name)]:
        sys.exit(f"not installed: {', '.join(missing)}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for row in comparisons(Path(folder), options.backend):
            rows.append(row)
            print(("same" if row["theirs"] == row["ours"] else "DIFF"), row, flush=True)
    save_report(options.out, backend=options.backend, versions=versions(), comparisons=rows)
    return 0 if all(row["theirs"] == row["ours"] for row in rows) else 1


def comparisons(folder: Path, backend: str) -> Iterator[Row]:
    """All comparisons, each with the scores of both programs, the best one first."""
    for pairs, name, costs in (
        (DNA_PAIRS, "NUC.4.4", LINEAR_DNA),
        (PROTEIN_PAIRS, "BLOSUM62", LINEAR_PROTEIN),
    ):
        matrix = SubstitutionMatrix.load(name)
        usual = Scoring(matrix=matrix, gap_open=FIRST - NEXT, gap_extend=NEXT)
        linear = Scoring(matrix=matrix, gap_open=costs[0] - costs[1], gap_extend=costs[1])
        for pair, names in pairs.items():
            files = _plain(folder, names)
            yield from _emboss(pair, files, usual, linear, costs, backend)
    preset = Scoring(preset="lastz")
    for pair, names in DNA_PAIRS.items():
        files = _plain(folder, names, without_n=True)
        yield _row(
            pair, "lastz --strand=plus", _lastz(files), "preset lastz, local", _ours(files, preset, backend)
        )


def _emboss(
    pair: str, files: Files, usual: Scoring, linear: Scoring, costs: tuple[int, int], backend: str
) -> Iterator[Row]:
    ends = f"-endopen {FIRST} -endextend {NEXT}"
    for program, mode in (
        ("water", "local"),
        ("needle", "semiglobal"),
        (f"needle -endweight Y {ends}", "global"),
    ):
        command = f"{program} -gapopen {FIRST} -gapextend {NEXT}"
        yield _row(pair, command, _scores(command, files), mode, _ours(files, usual, backend, mode))
    given = f"-gapopen {costs[0]} -gapextend {costs[1]}"
    command = f"stretcher {given}"
    yield _row(pair, command, _scores(command, files), "global", _ours(files, linear, backend, "global"))
    if pair == "mitochondria":  # `matcher` takes many minutes
        return
    command = f"matcher {given} -alternatives {ALTERNATIVES}"
    query, target = (read_sequence(file, linear.alphabet) for file in files)
    best = longalign.best_alignments(query, target, ALTERNATIVES, scoring=linear, backend=backend)
    ours = [float(alignment.score) for alignment in best]
    yield _row(pair, command, _scores(command, files), f"the {ALTERNATIVES} best", ours)


def _row(pair: str, command: str, theirs: list[float], how: str, ours: list[float]) -> Row:
    return {"pair": pair, "program": command, "theirs": theirs, "longalign": how, "ours": ours}


def _ours(files: Files, scoring: Scoring, backend: str, mode: str = "local") -> list[float]:
    query, target = (read_sequence(file, scoring.alphabet) for file in files)
    return [float(longalign.score(query, target, scoring=scoring, mode=mode, backend=backend).score)]


def _scores(command: str, files: Files) -> list[float]:
    """The scores that a program of EMBOSS reports, in its order."""
    names = ["-asequence", str(files[0]), "-bsequence", str(files[1])]
    said = _said([*command.split(), *names, "-outfile", "stdout", "-aformat", "score", "-auto"])
    return [float(score) for score in re.findall(r"^[^#].*\(([-0-9.]+)\)$", said, re.MULTILINE)]


def _lastz(files: Files) -> list[float]:
    command = [
        "lastz",
        *map(str, files),
        "--strand=plus",
        "--allocate:traceback=1G",
        "--format=general-:score",
    ]
    return [max(map(float, _said(command).split()))]


def _said(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command[0]} ended with exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def versions() -> dict[str, str]:
    """What the other programs call themselves."""
    lastz = subprocess.run(["lastz", "--version"], capture_output=True, text=True, check=False)
    return {
        "EMBOSS": _said(["embossversion", "-auto"]).strip(),
        "lastz": (lastz.stdout + lastz.stderr).splitlines()[0],
    }


def _plain(folder: Path, names: tuple[str, str], without_n: bool = False) -> Files:
    """Copies of two files, not compressed."""
    query, target = (_copy(folder, name, without_n) for name in names)
    return query, target


def _copy(folder: Path, name: str, without_n: bool) -> Path:
    content = (DATA / name).read_bytes()
    lines = (gzip.decompress(content) if name.endswith(".gz") else content).decode().splitlines()
    if without_n:
        lines = [line if line.startswith(">") else line.replace("N", "A") for line in lines]
    copy = folder / f"{'n_' * without_n}{name.removesuffix('.gz')}"
    copy.write_text("\n".join(lines) + "\n")
    return copy


if __name__ == "__main__":
    run_script(main)
