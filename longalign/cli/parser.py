"""The commands and their options."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, get_args

from longalign._version import __version__
from longalign.backends.select import CHOICES
from longalign.cli import option_types
from longalign.cli.progress import STYLES
from longalign.formats.output import STDOUT, open_output
from longalign.formats.registry import describe_formats, format_names
from longalign.model.mode import LOCAL, EndName, ModeName
from longalign.model.presets import PRESETS, describe_presets
from longalign.model.scoring import Ambiguous, Scoring, Unknown
from longalign.model.strand import STRANDS_OF

if TYPE_CHECKING:
    from typing import TypeAlias

    from _typeshed import SupportsWrite

    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]

#: Options that take a number which may be negative, and how such a number begins.
_MAY_BE_NEGATIVE = ("--match", "--mismatch", "--min-score")
_NEGATIVE = re.compile(r"-[.\d]")

_SEQUENCE_HELP = (
    "FILE (FASTA: plain, gzip, bgzip, or - for stdin; or 2bit) or FILE:NAME, either followed by :START-END, "
    "which is 0-based and half-open; with commas between thousands, as 1,001-2,000, 1-based, ends included. "
    "Without END, as 1000- or 1,001-, the region extends to the end of the record"
)
_MODE_HELP = (
    "local (the default; Smith-Waterman): any part of the query with any part of the target; global: both "
    "from end to end; semiglobal: the ends in --free may stay unaligned at no cost; overlap: a suffix of the "
    "query with a prefix of the target (query-start and target-end are free; exchange the two sequences for "
    "the other way round); fit: the whole query with any "
    "part of the target (target-start and target-end are free); extend: a prefix of the query with a prefix "
    "of the target, ending where the score is highest"
)
_EXIT_CODES = """\
Exit codes: 0 done, 1 input or store, pairs left out, or a false claim found by verify, 2 usage, 3 back end
or internal, 130 interrupted (Ctrl-C), 143 ended by SIGTERM, 129 if its terminal ends, 141 if its reader does.
"""
_CONVENTIONS = f"""\
A gap of length k costs ALPHA + k*BETA (--gap-open, --gap-extend), or FIRST for its first letter and NEXT for
each further one (--gap-first, --gap-next): ALPHA = FIRST - NEXT, BETA = NEXT. BLAST, LASTZ and minimap2 name
ALPHA and BETA: blastp's 11 and 1 are --matrix BLOSUM62 --gap-open 11 --gap-extend 1. EMBOSS, parasail and
Biopython name FIRST and NEXT: needle's 10 and 0.5 are --gap-first 10 --gap-next 0.5. Scores and costs may be
decimals such as 0.5, or fractions such as 1/3; they are exact. Without a matrix, letters are DNA: an
ambiguous letter (N, R, Y, ...) scores as a mismatch against every letter, itself included; U equals T. Case
is ignored.

Coordinates are 0-based and half-open, on the forward strand: FILE:chr1:1000-2000 are the letters that
samtools and genome browsers call chr1:1,001-2,000. That notation is understood as well, but only by its
commas: without any, as in FILE:chr1:1-500 or FILE:chr1:500-, the first number counts the letters before the
region. On the minus strand, the end that `score` names in the query is the lower end of the range.

{_EXIT_CODES}"""
_PAIR = "QUERY TARGET"
_PAIRS_HELP = """\
Where QUERY or TARGET is a file of several records, each query record is aligned with each target record, one
pair after the other, into one output; --json then writes a list. A record that cannot be aligned is reported
and left out, and the exit code is 1. With --store, DIR holds a store for each pair; a pair whose records have
changed since then is left out as well.
"""
_VERIFY_HELP = """\
Re-score a PAF file, independently. Whether a better alignment exists is not checked. Column 11 counts all
columns; minimap2 leaves out those with an ambiguous letter.
"""
_PRESETS_HELP = f"""
Presets, with the cost of a gap in both conventions:
{describe_presets()}
minimap2 charges the lower of two costs for a gap, 39 + 3k and 81 + k (asm5) or 6 + 2k and 26 + k (asm20). The
presets take the first, which is what gaps of up to 21 or 20 letters cost; longer ones cost more here. HOXD70
has no N: with --unknown mismatch, it scores as the worst pair, -125; LASTZ takes -100.
"""
_CLUSTER_HELP = """\
The workers of a Dask scheduler sweep the matrix (phase 1), each one tile at a time; phases 2 and 3 run in
this process. All must see the store under the same path. --backend applies to the workers, too. Each uses the
threads that Dask gave it, or its first GPU. --threads, --device and --mem apply to this process only.
"""


class _Parser(argparse.ArgumentParser):
    """Accepts `-:NAME`, a record on stdin, as an argument, as argparse does with `-`."""

    def _parse_optional(self, arg_string: str) -> Any:
        return None if arg_string.startswith("-:") else super()._parse_optional(arg_string)

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Like argparse, which however ignores errors when stdout cannot be written."""
        if file is not None and file is sys.stderr:
            super()._print_message(message, file)
        else:  # help and version
            with open_output(STDOUT) as stdout:
                stdout.write(message)


def build_parser() -> argparse.ArgumentParser:
    """The parser; each command sets `run`, a function of the parsed options that returns an exit code."""
    parser: argparse.ArgumentParser = _Parser(
        prog="longalign",
        description="Exact pairwise alignment of two very long sequences.",
        epilog=_CONVENTIONS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"longalign {__version__}")
    commands: Commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add_command in (
        *(_add_align, _add_score, _add_resume, _add_trace),
        *(_add_inspect, _add_verify, _add_devices),
    ):
        add_command(commands)
    return parser


def _add_align(commands: Commands) -> None:
    align = _add(
        commands, "align", _PAIR, _lazy("runs", "run_align"), "the optimal alignment of two sequences"
    )
    _add_run(align)
    _add_next_best(align)
    _add_output(align)


def _add_score(commands: Commands) -> None:
    does = "the optimal score and where it ends: query, target, mode, score, end in each of the two, strand"
    score = _add(commands, "score", _PAIR, _lazy("runs", "run_score"), does)
    _add_run(score)
    _add_output(score, writes_alignment=False)


def _add_run(parser: argparse.ArgumentParser) -> None:
    """The arguments of a new run."""
    parser.add_argument("query", metavar="QUERY", help=_SEQUENCE_HELP)
    parser.add_argument("target", metavar="TARGET", help="the same")
    _add_pairs(parser)
    _add_scoring(parser)
    parser.add_argument(
        "--store",
        type=option_types.path,
        metavar="DIR",
        help="directory for finished work; a run can be resumed from it",
    )
    parser.add_argument(
        "--start-states",
        choices=("lazy", "eager"),
        default="lazy",
        help="eager: also store where the best path to each boundary cell enters its chunk; `longalign "
        "trace` then finds the alignment that ends in any cell; takes several times as long (default: lazy)",
    )
    parser.add_argument(
        "--prune",
        choices=("auto", "off"),
        default="auto",
        help="auto: leave out cells that provably lie on no optimal alignment, given an alignment that "
        "seeds find; the result is the same. Eager start states, --top and proteins need all cells "
        "(default: auto)",
    )
    _add_resources(parser)
    _add_cluster(parser)


def _add_next_best(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("several alignments")
    group.add_argument(
        "--top",
        type=option_types.positive_number,
        default=1,
        metavar="K",
        help="the K best local alignments, in decreasing score: each is the best one that uses no pair of "
        "positions of those before it (Waterman and Eggert 1987), and takes a sweep of what they changed: "
        "give --min-score with a large K; resume goes on after those that the store holds (default: 1)",
    )
    group.add_argument(
        "--min-score",
        type=option_types.exact_number,
        metavar="SCORE",
        help="leave out alignments with a lower score; without --top and in any mode, too",
    )


def _add_pairs(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("many pairs", _PAIRS_HELP)
    group.add_argument(
        "--pairs",
        type=option_types.path,
        metavar="FILE",
        help="only these pairs: a line names a record of QUERY and one of TARGET, in two columns, as NAME or "
        "NAME:START-END; empty lines, lines that begin with #, and a first line 'query target' are skipped",
    )
    group.add_argument(
        "--strict",
        action="store_true",
        help="end at the first pair that cannot be aligned; no output file is written then",
    )


def _add_resume(commands: Commands) -> None:
    summary = "continue a run that was stopped"
    resume = _add(commands, "resume", "DIR", _lazy("runs", "run_resume"), summary, _EXIT_CODES)
    resume.add_argument("store", type=option_types.path, metavar="DIR", help="the --store of that run")
    _add_resources(resume, budget=False)
    _add_cluster(resume)
    _add_output(resume, default=None)


def _add_trace(commands: Commands) -> None:
    summary = "the best alignment that ends in a given cell, from an eager store"
    trace = _add(commands, "trace", "DIR --end I,J", _lazy("trace", "run_trace"), summary, _EXIT_CODES)
    trace.add_argument(
        "store",
        type=option_types.path,
        metavar="DIR",
        help="the --store of a run with --start-states eager; after --strand both, DIR/plus or DIR/minus",
    )
    trace.add_argument(
        "--end",
        type=option_types.cell,
        required=True,
        metavar="I,J",
        help="the cell after the first I letters of the query and the first J letters of the target (of the "
        "regions, if regions were aligned; of the reverse complement of the query, if that was aligned); the "
        "first cell is 1,1. The alignment starts where the mode lets it start: anywhere in local mode, with "
        "both first letters in global mode. With --stats, coverage is that of what lies before the cell, "
        "where the mode does not free the ends",
    )
    _add_resources(trace, budget=False)
    _add_output(trace)


def _add_inspect(commands: Commands) -> None:
    summary = "the state and the contents of a store"
    inspect = _add(commands, "inspect", "DIR", _lazy("inspect", "run_inspect"), summary, _EXIT_CODES)
    inspect.add_argument("store", type=option_types.path, metavar="DIR", help="the --store of a run")
    inspect.add_argument("--json", action="store_true", help="as JSON")


def _add_verify(commands: Commands) -> None:
    summary = "re-score a PAF file, independently"
    verify = _add(commands, "verify", "PAF QUERY TARGET", _lazy("verify", "run_verify"), summary)
    verify.description = _VERIFY_HELP
    verify.add_argument(
        "paf", type=option_types.path, metavar="PAF", help="PAF with cg tags, plain or gzip; - for stdin"
    )
    verify.add_argument(
        "query", metavar="QUERY", help=f"{_SEQUENCE_HELP}; the region that was aligned, if any"
    )
    verify.add_argument("target", metavar="TARGET", help="the same")
    _add_scoring(verify, mode=False, defaults=False)


def _add_devices(commands: Commands) -> None:
    devices = _add(commands, "devices", "", _lazy("devices", "run_devices"), "which back ends work here")
    devices.add_argument("--json", action="store_true", help="as JSON")
    devices.add_argument(
        "--compile",
        action="store_true",
        help="first compile, on all processors, every kernel that these devices may need and that is not in "
        "the cache yet: no later run waits for the compiler",
    )
    devices.add_argument(
        "--plan",
        nargs=2,
        metavar=("QUERY", "TARGET"),
        help="also show what pruning is expected to save for these two sequences, and how each back end "
        "would tile their matrix and sweep it, and why",
    )
    _add_scoring(devices)
    planned = devices.add_argument_group("resources of a plan")
    _add_threads(planned)
    _add_memory(planned)
    planned.add_argument(
        "--store",
        type=option_types.path,
        metavar="DIR",
        help="plan a run with a new store here, not one in memory",
    )
    _add_store_budget(planned)


def _add(
    commands: Commands,
    name: str,
    arguments: str,
    run: Callable[[argparse.Namespace], int],
    summary: str,
    epilog: str = _CONVENTIONS,
) -> argparse.ArgumentParser:
    """A command. Errors show its usage, in which `arguments` are those that it needs."""
    parser = commands.add_parser(
        name,
        usage=f"longalign {name} [options] {arguments}".rstrip(),
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def with_negative_numbers(arguments: Sequence[str]) -> list[str]:
    """The arguments, each negative number joined to its option: argparse takes -1/3 for an option."""
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1] in _MAY_BE_NEGATIVE and _NEGATIVE.match(argument):
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def _lazy(module: str, function: str) -> Callable[[argparse.Namespace], int]:
    """A command whose module is imported when it runs: Numba is not needed to print a help text."""

    def run(options: argparse.Namespace) -> int:
        from importlib import import_module

        command = getattr(import_module(f"longalign.cli.{module}"), function)
        options.interrupts.check()
        return int(command(options))

    return run


def _add_scoring(parser: argparse.ArgumentParser, mode: bool = True, defaults: bool = True) -> None:
    parser.epilog = f"{parser.epilog}{_PRESETS_HELP}"
    group = parser.add_argument_group("scoring" if defaults else "scoring (default: what the PAF says)")
    if mode:
        group.add_argument("--mode", choices=get_args(ModeName), default=LOCAL, help=_MODE_HELP)
        group.add_argument(
            "--free",
            type=option_types.ends,
            action="extend",
            metavar="END[,END...]",
            help=f"the ends that are free with --mode semiglobal, of {', '.join(get_args(EndName))} "
            "(default: all four); may be repeated",
        )
        group.add_argument(
            "--strand",
            choices=tuple(STRANDS_OF),
            default="plus",
            help="minus: align the reverse complement of the query (DNA only); both: score both strands, "
            "which takes twice as long, and align on the better one; the start of the query in --free and in "
            "the modes is that of the strand (default: plus)",
        )
    usual = Scoring()
    for option, metavar, meaning, default in (
        ("--match", "SCORE", "equal letters, at least 0", usual.match),
        ("--mismatch", "SCORE", "different or ambiguous letters, below --match", usual.mismatch),
        ("--gap-open", "ALPHA", "cost of opening a gap, 0 for linear gaps", usual.gap_open),
        ("--gap-extend", "BETA", "cost of each letter of a gap, the first included", usual.gap_extend),
        ("--gap-first", "FIRST", "cost of the first letter of a gap, the other convention", None),
        ("--gap-next", "NEXT", "cost of each further letter of a gap, the other convention", None),
    ):
        shown = f"{meaning} (default: {default})" if defaults and default is not None else meaning
        group.add_argument(option, type=option_types.exact_number, metavar=metavar, help=shown)
    group.add_argument(
        "--preset",
        type=str.lower,
        choices=tuple(PRESETS),
        metavar="NAME",
        help="the scoring of a well-known program, of which other options replace parts: "
        f"{', '.join(PRESETS)}; see below",
    )
    group.add_argument(
        "--matrix",
        type=option_types.path,
        metavar="NAME|FILE",
        help="substitution matrix instead of match and mismatch: one of Biopython's (BLOSUM62, HOXD70, ...), "
        "or a file in NCBI's format or LASTZ's (its settings are not read); needs gap costs",
    )
    group.add_argument(
        "--ambiguous",
        choices=get_args(Ambiguous),
        help="what an IUPAC ambiguity letter (N, R, Y, ...) scores without a matrix: as a mismatch, 0, or "
        "the average over the bases that it stands for (default: mismatch)",
    )
    group.add_argument(
        "--unknown",
        choices=get_args(Unknown),
        help="a letter that the matrix lacks (U, O, J, ...) is an error, is read as X, or scores the lowest "
        "score of the matrix with every letter (default: error)",
    )
    group.add_argument(
        "--softmask",
        action="store_true",
        default=None,
        help="read lower-case letters as N, or as X under a matrix of proteins",
    )


def _add_threads(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--threads",
        type=option_types.positive_number,
        metavar="N",
        help="threads that sweep on the CPU (default: all processors)",
    )


def _add_resources(parser: argparse.ArgumentParser, budget: bool = True) -> None:
    group = parser.add_argument_group("resources")
    group.add_argument(
        "--backend",
        choices=CHOICES,
        default="auto",
        help="auto: CUDA if it works here; a single small pair is left to the CPU",
    )
    _add_threads(group)
    group.add_argument(
        "--device",
        type=option_types.whole_number,
        action="append",
        default=[],
        metavar="N",
        help="CUDA device; may be repeated",
    )
    _add_memory(group)
    if budget:
        _add_store_budget(group)


def _add_memory(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--mem",
        type=option_types.size,
        metavar="SIZE",
        help="limit on host memory in bytes, or with a unit, such as 8G (default: four fifths of the memory "
        "free on the machine, or within the limit of a container or batch job)",
    )


def _add_store_budget(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--store-budget",
        type=option_types.size,
        metavar="SIZE",
        help="limit on the stored boundaries of a new run, on disk or in memory, such as 1.3G; a larger "
        "budget makes phases 2 and 3 shorter (default: enough to make them short; `longalign devices --plan` "
        "compares budgets)",
    )


def _add_cluster(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("cluster", _CLUSTER_HELP)
    group.add_argument(
        "--cluster",
        type=option_types.path,
        metavar="ADDRESS",
        help="Dask scheduler (tcp://HOST:PORT), or the file it wrote",
    )


def _add_output(
    parser: argparse.ArgumentParser, default: str | None = "-", writes_alignment: bool = True
) -> None:
    parser.set_defaults(format=None, stats=False)
    group = parser.add_argument_group("output")
    replaced = "" if writes_alignment else ", where it replaces the line of the score unless -o names a file"
    also = f"also write a summary as JSON; - for stdout{replaced}"
    group.add_argument(
        "-o",
        "--output",
        type=option_types.output_file,
        default=default,
        metavar="FILE",
        help="default: " + ("stdout" if default else "the file of the run"),
    )
    if writes_alignment:
        group.add_argument("--format", choices=format_names(), help=describe_formats())
        group.add_argument(
            "--stats",
            action="store_true",
            help="also print statistics of the alignment on stderr: identities, mismatches and gaps by kind, "
            "coverage, and for a local alignment the bit score and the E-value, as far as these are known; "
            "with --progress json, one line of JSON for each alignment; the JSON summary always has them",
        )
    group.add_argument(
        "--json",
        type=option_types.output_file,
        metavar="FILE",
        help=also + ("" if default else " (default: the file of the run)"),
    )
    group.add_argument(
        "--progress", choices=STYLES, default="auto", help="on stderr; auto: a bar on a terminal"
    )
    group.add_argument(
        "-q",
        "--quiet",
        action="store_true",
        help="on stderr only errors, and what --progress and --stats ask for",
    )
