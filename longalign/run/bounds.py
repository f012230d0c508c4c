"""The bound of a pruned run: the score of an alignment that seeds find, and what it is expected to save."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace

from longalign.backends.base import Backend, DeviceFacts, Progress
from longalign.events import BoundFound, Notice
from longalign.model.pruning import NO_FINDINGS, Findings, KnownBound, Milestones, Pruning
from longalign.model.strand import Strand
from longalign.phases.problem import Problem
from longalign.pruning.expected import expected_share
from longalign.pruning.gains import Gains, load_kernels
from longalign.pruning.milestones import milestones as milestones_of
from longalign.pruning.row_limits import Sections
from longalign.pruning.seeds import LowerBound, lower_bound
from longalign.run.outcome import Recorder
from longalign.run.spec import RunSpec
from longalign.system.threads import WorkerThreads

#: A matrix with fewer cells is swept in a fraction of a second. Loading what finds seeds would take as long.
MIN_CELLS = 1 << 32

#: With an alignment, gains of this many letters are computed in a second. They are taken to save this part of
#: a sweep, and less of one that needs a large share of the matrix.
_LETTERS_A_SECOND, _SAVED = 1e7, 0.5

#: No sweep is taken to be shorter than this, in seconds.
_SHORTEST = 1e-9

#: The largest share of the cells for which row limits are looked for. They narrow a band.
_MAX_SHARE_FOR_LIMITS = 0.1


def find_bound(
    spec: RunSpec,
    problems: Mapping[Strand, Problem],
    backend: Backend,
    devices: Sequence[Backend | DeviceFacts],
    recorder: Recorder,
) -> KnownBound | None:
    """The bound of a run over all strands that it asks for, given the problem of each strand.

    It is the best score that seeds give on any strand. The share is the mean of those of the strands. None if
    the run cannot prune, if one of its `devices` cannot leave out blocks of cells or would take longer than
    without pruning, or if there are hardly any seeds. `backend` sweeps and traces what is between seeds.
    """
    is_stored = spec.store is not None
    max_share = min(device.max_share_stored if is_stored else device.max_share_pruned for device in devices)
    if max_share == 0 or spec.query.length * spec.target.length < MIN_CELLS:
        return None
    if not spec.prunes:
        if spec.prune == "auto":
            recorder(Notice(f"{needs_every_cell(spec)} need all cells of the matrix, so none is left out"))
        return None
    with recorder.phase("seed"), _gains_thread() as threads:
        on_strands = {strand: _StrandSeeds(problem, threads) for strand, problem in problems.items()}
        for seeds in on_strands.values():
            seeds.find_seeds(backend, recorder.advance, more_for_related=not is_stored)
        best = max((seeds.alignment.score for seeds in on_strands.values() if seeds.alignment), default=None)
        if best is None:
            return None
        prunings: dict[Strand, Pruning] = {}
        findings: dict[Strand, Findings] = {}
        shares: list[float] = []
        for strand, seeds in on_strands.items():
            if seeds.alignment is None:
                prunings[strand] = seeds.take_pruning(best)
                continue
            closer = _Closer(seeds.problem, seeds.alignment, backend, devices, threads, recorder.advance)
            prunings[strand], share, findings[strand] = closer.pruning(seeds.take_pruning(best))
            shares.append(share)
        share = sum(shares) / len(on_strands)
        if share > max_share:
            return None
        cells = {
            strand: milestones
            for strand, seeds in on_strands.items()
            if (milestones := seeds.milestones(best)) is not None
        }
    recorder(BoundFound(best, share))
    return KnownBound(best, share, prunings, findings, milestones=cells)


@dataclass(slots=True)
class _StrandSeeds:
    """What seeds give on one strand: an alignment, and gains by letters and absent words."""

    problem: Problem
    threads: WorkerThreads
    alignment: LowerBound | None = None
    _gains: Future[Gains] | None = None

    def find_seeds(self, backend: Backend, progress: Progress, *, more_for_related: bool) -> None:
        """Look for the alignment. As soon as the sequences seem related, a thread computes the gains."""
        one = self.problem

        def compute_gains() -> None:
            load_kernels()  # in this thread, since an interrupt does not wait for its compiler
            self._gains = self.threads.submit(one.gains)

        self.alignment = lower_bound(
            one.query, one.target, one.scoring, one.mode, backend, progress, note_related=compute_gains,
            more_for_related=more_for_related,
        )  # fmt: skip

    def take_pruning(self, bound: int) -> Pruning:
        """The pruning by letters and absent words alone. It is large, so it is not kept here."""
        gains, self._gains = self._gains, None
        return self.problem.pruning_by(bound, None if gains is None else gains.result())

    def milestones(self, bound: int) -> Milestones | None:
        """Cells of the alignment, if its score is the bound."""
        one, found = self.problem, self.alignment
        if found is None or found.score != bound:
            return None
        return milestones_of(one.query, one.target, one.scoring, found)


@dataclass(frozen=True, slots=True)
class _Closer:
    """Computes closer gains, as far as that takes less time than it saves in a sweep.

    This process computes them, and sweeps sections of the query for row limits with `backend`. All `devices`
    share the sweep of the matrix.
    """

    problem: Problem
    alignment: LowerBound
    backend: Backend
    devices: Sequence[Backend | DeviceFacts]
    threads: WorkerThreads
    progress: Progress

    def pruning(self, first: Pruning) -> tuple[Pruning, float, Findings]:
        """The closest gains, the share of cells that is expected with them, and what they follow from.

        `first` is the pruning by letters and absent words alone.
        """
        bound, share = first.bound, self._share(first)
        if not self._saves(_SAVED * (1 - share) * share):
            return first, share, NO_FINDINGS
        del first  # its gains take 5 bytes for each letter
        findings = Findings(self.alignment.anchors())
        pruning = self.problem.pruning_by(bound, self.threads.submit(self.problem.gains, findings).result())
        share = self._share(pruning)
        if share <= _MAX_SHARE_FOR_LIMITS and self._saves(share):
            one = self.problem
            sections = Sections(one.query, one.target, one.scoring, one.mode, self.alignment)
            saved = _SAVED * share * len(one.query) * len(one.target)
            # As many cells as `backend` sweeps in the time that all devices take for those that are saved.
            cells = saved * self._seconds_of_all() / self._seconds_of(self.backend)
            limits = sections.limits(cells, self.backend, self.progress)
            if len(limits):
                closer = replace(pruning, query=sections.gains(limits))
                closer_share = self._share(closer)
                if closer_share < share:
                    return closer, closer_share, findings._replace(limits=limits)
        return pruning, share, findings

    def _share(self, pruning: Pruning) -> float:
        return expected_share(self.problem.scoring, pruning, self.alignment, self.problem.has_floor)

    def _saves(self, share: float) -> bool:
        """Whether gains take no longer than to sweep this share of the matrix."""
        letters = len(self.problem.query) + len(self.problem.target)
        return letters / _LETTERS_A_SECOND <= share * self._seconds_of_all()

    def _seconds_of_all(self) -> float:
        """The seconds in which all devices together sweep the matrix."""
        return 1 / sum(1 / max(_SHORTEST, self._seconds_of(device)) for device in self.devices)

    def _seconds_of(self, device: Backend | DeviceFacts) -> float:
        if isinstance(device, DeviceFacts):
            return device.seconds
        lengths = len(self.problem.query), len(self.problem.target)
        return device.sweep_seconds(*lengths, self.problem.scoring, self.problem.has_floor)


def needs_every_cell(spec: RunSpec) -> str:
    """What needs all cells in a run that is not pruned for that reason: the subject of a sentence."""
    return "eager start states" if spec.is_eager else "alignments after the best one"


@contextmanager
def _gains_thread() -> Iterator[WorkerThreads]:
    """A thread that computes what can be gained, for seconds.

    After an error or an interrupt, nothing waits for the call that it makes, and it makes no others.
    """
    threads = WorkerThreads(1, "gains", daemon=False)
    try:
        yield threads
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
