"""Phase 1 on real Dask workers: the tiles of a local run, also after losses, and messages of one line."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import h5py
import pytest
from dask_cluster import Cluster, cluster_in, until
from inputs import DATA
from runs import damaging
from small_tile_runs import MITOCHONDRIA

from longalign import api
from longalign.backends.cpu import CpuBackend
from longalign.cli import main
from longalign.errors import BackendError, BudgetTooSmall, StoreError, UsageError
from longalign.events import Advanced, Event, Notice, PhaseStarted, TileFinished, ignore
from longalign.fasta import read_sequence
from longalign.model.mode import EXTEND, LOCAL, SEMIGLOBAL, Mode
from longalign.model.sequence import Sequence
from longalign.run import pipeline
from longalign.run.engines import dask
from longalign.run.outcome import Outcome
from longalign.run.request import Request, Resources
from longalign.run.spec import RunSpec
from longalign.store import DirectoryStore
from longalign.store.manifest import Prune

PAIR = [DATA / name for name in MITOCHONDRIA]
TILES = 4 * 4
SCORE = 10637


@pytest.fixture(autouse=True)
def busy_machines_may_answer_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask, "_ANSWER_SECONDS", 60)
    monkeypatch.setattr(dask, "_WORKER_SECONDS", 60)


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_in(tmp_path_factory.mktemp("cluster")) as cluster:
        cluster.start_scheduler()
        cluster.start_workers(2)
        yield cluster


@pytest.fixture
def cluster(two_workers: Cluster) -> Cluster:
    """Two workers without orders. Workers that an earlier test has killed are replaced."""
    shutil.rmtree(two_workers.orders)
    two_workers.orders.mkdir()
    two_workers.wait_for_workers(2)
    return two_workers


class Events(list[Event]):
    """The events that a run has reported."""

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self if isinstance(event, Notice)]

    @property
    def tiles(self) -> int:
        return sum(isinstance(event, TileFinished) for event in self)

    @property
    def cells(self) -> int:
        """The cells that phase 1 has reported while they were swept."""
        names = [event.name if isinstance(event, PhaseStarted) else None for event in self]
        phase_1 = self[names.index("score") : names.index("stitch") if "stitch" in names else None]
        steps = [event.cells for event in phase_1 if isinstance(event, Advanced)]
        assert min(steps) >= 0
        return sum(steps)


def run(
    cluster: Cluster,
    store: Path,
    emit: Callable[[Event], None] = ignore,
    mode: Mode = LOCAL,
    prune: Prune = "off",
) -> Outcome:
    using = api.resources("cpu", 1, memory=8 << 30, cluster=cluster.address)
    query, target = map(read_sequence, map(str, PAIR))
    return pipeline.run(RunSpec(query, target, api.Scoring(), mode, store=store, prune=prune), using, emit)


def finished_tiles(store: Path) -> dict[str, list[bytes]]:
    """All numbers of all tiles."""
    tiles = {}
    for path in (store / "tiles").glob("r*.h5"):
        with h5py.File(path) as file:
            values = [file.attrs[f"best_{name}"] for name in ("score", "i", "j")]
            values += [file[side][name][:] for side in ("rows", "cols") for name in sorted(file[side])]
        tiles[path.name] = [value.tobytes() for value in values]
    return tiles


@pytest.fixture(scope="module")
def local_store(two_workers: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in this process, with the grid that the workers use."""
    path = tmp_path_factory.mktemp("local") / "s"
    query, target = map(read_sequence, map(str, PAIR))
    using = api.resources("cpu", 1, memory=8 << 30)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("longalign.backends.cpu.CpuBackend.tile_shape", lambda *_: (4200, 4200))
        pipeline.run(RunSpec(query, target, api.Scoring(), store=path, prune="off"), using)
    return path


@pytest.fixture
def check(local_store: Path) -> Callable[[Outcome, Path], None]:
    """The result and the numbers of all tiles are those of a run in this process."""
    answer = api.resume(local_store, backend="cpu")

    def check(outcome: Outcome, store: Path) -> None:
        assert outcome.end.value == SCORE
        assert outcome.alignment.cigar == answer.cigar
        assert finished_tiles(store) == finished_tiles(local_store)
        assert not list(store.rglob(".tmp-*"))

    return check


# --- results


@pytest.mark.slow
@pytest.mark.cluster
def test_two_workers_make_the_same_tiles(cluster, tmp_path, check):
    events = Events()
    outcome = run(cluster, tmp_path / "s", events.append)
    check(outcome, tmp_path / "s")
    assert (events.tiles, events.notices) == (TILES, [])
    assert events.cells == 16569 * 16548
    assert outcome.backend["workers"] == f"2 of {cluster.address}"
    assert len(list(cluster.orders.glob("swept-*"))) == 2


@pytest.mark.cluster
@pytest.mark.parametrize("lost", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_workers_sweep_only_tiles_that_are_needed(cluster, tmp_path, local_store, monkeypatch, lost):
    monkeypatch.setattr("longalign.run.bounds.MIN_CELLS", 0)
    if lost:
        (cluster.orders / "kill").touch()
    events = Events()
    outcome = run(cluster, tmp_path / "s", events.append, prune="auto")
    answer = api.resume(local_store, backend="cpu")
    assert (outcome.end.value, outcome.alignment.cigar) == (SCORE, answer.cigar)
    with DirectoryStore.open(tmp_path / "s") as store:
        assert 0 < events.tiles == TILES - len(store.get_left_out()) < TILES
    assert events.cells == 16569 * 16548
    assert len(events.notices) == lost
    assert len(list(cluster.orders.glob("swept-*"))) >= 2


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("mode", [SEMIGLOBAL, EXTEND], ids=str)
def test_an_end_on_an_edge_and_one_in_any_cell_are_found_in_the_tiles_of_workers(cluster, tmp_path, mode):
    alignment = run(cluster, tmp_path / "s", mode=mode).alignment
    want = api.align(*map(read_sequence, map(str, PAIR)), mode=mode, backend="cpu", threads=1)
    ends = [(found.score, found.query_end, found.target_end) for found in (alignment, want)]
    assert ends[0] == ends[1]


@pytest.mark.slow
@pytest.mark.cluster
def test_workers_sweep_both_strands(cluster, tmp_path):
    events = Events()
    using = api.resources("cpu", 1, memory=8 << 30, cluster=cluster.address)
    query, target = map(read_sequence, map(str, PAIR))
    reversed_query = Sequence.from_letters("q", query.on("minus").strand_letters)
    how = {"strand": "both", "prune": "off"}
    spec = RunSpec(reversed_query, target, api.Scoring(), store=tmp_path / "s", **how)
    outcome = pipeline.run(spec, using, events.append)
    assert (outcome.end.value, outcome.spec.query.strand) == (SCORE, "minus")
    assert (events.tiles, events.notices) == (2 * TILES, [])
    assert events.cells == 2 * 16569 * 16548
    assert len(list(cluster.orders.glob("swept-*"))) == 2
    assert not list((tmp_path / "s").rglob(".tmp-*"))


@pytest.mark.cluster
def test_the_command_line(cluster, tmp_path, capsys):
    store, output = tmp_path / "s", tmp_path / "x.paf"
    options = ["--backend", "cpu", "--cluster", cluster.address]
    assert main(["align", *map(str, PAIR), *options, "--store", str(store), "-o", str(output)]) == 0
    assert f"workers: 2 of {cluster.address}" in capsys.readouterr().err
    line = output.read_text()
    assert f"AS:i:{SCORE}\t" in line
    (store / "tiles" / "r00003c00003.h5").unlink()
    assert main(["resume", str(store), *options, "-o", "-", "--progress", "json"]) == 0
    out, err = capsys.readouterr()
    assert out == line
    assert err.count('"tile_finished"') == 1


# --- losses


@pytest.mark.slow
@pytest.mark.cluster
def test_a_killed_worker_costs_its_tile(cluster, tmp_path, check):
    (cluster.orders / "kill").touch()
    events = Events()
    check(run(cluster, tmp_path, events.append), tmp_path)
    [notice] = events.notices
    assert notice.endswith(" is lost; its tile is computed again")
    assert events.tiles == TILES
    assert events.cells == 16569 * 16548


@pytest.mark.slow
@pytest.mark.cluster
def test_a_tile_that_kills_workers_ends_the_run_and_another_goes_on(cluster, tmp_path, check, monkeypatch):
    monkeypatch.setattr(dask, "_MAX_LOSSES", 2)
    (cluster.orders / "kill-all").touch()
    with pytest.raises(BackendError, match=r"tile \(0, 0\): 2 workers were lost while they had it"):
        run(cluster, tmp_path, Events().append)
    (cluster.orders / "kill-all").unlink()
    check(run(cluster, tmp_path, Events().append), tmp_path)


def test_an_error_that_holds_more_than_its_text_comes_back_whole():
    error = dask._from_worker("tcp://w", BudgetTooSmall("too small", needed=7))
    assert (type(error), str(error), error.needed) == (BudgetTooSmall, "worker tcp://w: too small", 7)


@pytest.mark.cluster
def test_what_a_worker_raises_comes_back_in_a_line(cluster, tmp_path):
    (cluster.orders / "fail").touch()
    with pytest.raises(BackendError, match=r"^worker tcp://\S+: RecursionError: maximum recursion depth"):
        run(cluster, tmp_path, Events().append)


@pytest.mark.slow
@pytest.mark.cluster
def test_an_interrupt_stops_the_workers_and_the_run_goes_on_later(cluster, tmp_path, check):
    """Killed in the middle of a tile, as soon as it has reported progress."""
    (cluster.orders / "hold").touch()

    def interrupt(event: Event) -> None:
        if told_of_cells(event):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(cluster, tmp_path, interrupt)
    until(lambda: bool(list(cluster.orders.glob("cancelled-*"))))
    assert not finished_tiles(tmp_path)
    (cluster.orders / "hold").unlink()
    check(run(cluster, tmp_path, Events().append), tmp_path)


@pytest.mark.slow
@pytest.mark.cluster
def test_a_tile_damaged_on_the_way_is_swept_again(cluster, tmp_path, check):
    """Damaged before the workers that have its neighbours read it."""
    events = Events()
    check(run(cluster, tmp_path, damaging(tmp_path, 1, events)), tmp_path)
    assert len(events.notices) == 1
    assert events.tiles == TILES + 1


def told_of_cells(event: Event) -> bool:
    """Whether a worker is in the middle of a tile."""
    return isinstance(event, Advanced) and event.cells > 0


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Cluster]:
    """A separate scheduler, which has no workers yet."""
    (tmp_path / "cluster").mkdir()
    with cluster_in(tmp_path / "cluster") as started:
        started.start_scheduler()
        yield started


@pytest.mark.slow
@pytest.mark.cluster
def test_a_scheduler_that_dies_ends_the_run_in_a_line(alone, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(dask, "_WORKER_SECONDS", 0.5)
        with pytest.raises(BackendError, match="the Dask scheduler has no workers"):
            run(alone, tmp_path / "s", Events().append)
    (alone.orders / "hold").touch()
    alone.start_workers(1)

    def kill(event: Event) -> None:
        if told_of_cells(event):
            alone.started[0].kill()

    with pytest.raises(BackendError, match=r"scheduler\.json: the Dask scheduler is gone"):
        run(alone, tmp_path / "s", kill)


@pytest.mark.slow
@pytest.mark.cluster
def test_the_run_goes_on_without_a_worker_that_dies_when_it_is_asked(cluster, tmp_path, check):
    (cluster.orders / "kill-asked").touch()
    events = Events()
    check(run(cluster, tmp_path / "s", events.append), tmp_path / "s")
    assert events.notices[0].endswith(" is lost")
    assert not (cluster.orders / "kill-asked").exists()


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("joins", ["before phase 1", "during phase 1"])
def test_a_worker_that_joins_and_does_not_see_the_store_is_left_out(alone, tmp_path, monkeypatch, joins):
    """On both strands, which have a store each."""
    alone.start_workers(1)
    (alone.orders / "hold").touch()
    events, first = Events(), alone.wait_for_workers(1)

    def join(*_: object) -> None:
        if len(alone.started) == 2:
            (alone.orders / "blind").touch()
            alone.start_workers(1)
            alone.wait_for_workers(2)

    def watch(event: Event) -> None:
        events.append(event)
        if told_of_cells(event):
            join()
        if isinstance(event, Notice):
            (alone.orders / "hold").unlink(missing_ok=True)

    if joins == "before phase 1":
        monkeypatch.setattr(pipeline, "find_bound", join)
    using = api.resources("cpu", 1, memory=8 << 30, cluster=alone.address)
    query, target = map(read_sequence, map(str, PAIR))
    spec = RunSpec(query, target, api.Scoring(), store=tmp_path / "s", strand="both", prune="off")
    assert pipeline.run(spec, using, watch).end.value == SCORE
    assert events.tiles == 2 * TILES
    for notice in events.notices:
        assert notice.endswith("/blind: not a store: there is no such directory; this worker is left out")
        assert first[0] not in notice
    assert 1 <= len(events.notices) <= 2
    assert len(list(alone.orders.glob("swept-*"))) == 1


@pytest.mark.slow
@pytest.mark.cluster
def test_a_worker_that_joins_takes_part(alone, tmp_path, check):
    alone.start_workers(1)
    deadline = monotonic() + 60

    def join(event: Event) -> None:
        """Once two tiles are ready, the first worker waits in one of them for the second worker."""
        if isinstance(event, TileFinished) and len(alone.started) == 2:
            (alone.orders / "hold").touch()
            alone.start_workers(1)
        if len(list(alone.orders.glob("swept-*"))) == 2:
            (alone.orders / "hold").unlink(missing_ok=True)
        assert monotonic() < deadline, "the second worker has swept nothing"

    check(run(alone, tmp_path / "s", join), tmp_path / "s")
    assert len(list(alone.orders.glob("swept-*"))) == 2


@pytest.mark.slow
@pytest.mark.cluster
def test_the_only_worker_may_come_back_and_phase_1_alone_needs_a_scheduler(alone, tmp_path, check):
    (alone.orders / "kill").touch()
    alone.start_workers(1)
    events = Events()

    def kill(event: Event) -> None:
        events.append(event)
        if isinstance(event, PhaseStarted) and event.name == "stitch":
            alone.started[0].kill()

    check(run(alone, tmp_path / "s", kill), tmp_path / "s")
    assert events.notices[1:] == ["no worker is left; waiting for one"]
    assert (events.tiles, events.cells) == (TILES, 16569 * 16548)


# --- refusals


@pytest.mark.cluster
@pytest.mark.skipif(sys.platform != "linux", reason="needs a path that leads each process elsewhere")
def test_workers_that_do_not_see_the_store(cluster, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = Path("/proc/self/cwd/s")
    with pytest.raises(
        StoreError, match=r"^worker tcp://\S+: /proc/self/cwd/s: not a store: .* must see the"
    ):
        run(cluster, store, Events().append)
    shutil.copytree(tmp_path / "s", cluster.folder / "s")
    with pytest.raises(StoreError, match=r"^worker tcp://\S+: /proc/self/cwd/s: another directory than"):
        run(cluster, store, Events().append)
    assert not finished_tiles(tmp_path / "s")


@pytest.mark.cluster
def test_workers_of_another_version_or_without_the_device(cluster, tmp_path, monkeypatch):
    no_device = pytest.raises(BackendError, match=r"^worker tcp://\S+: no usable CUDA device: ")
    with no_device, dask.connect(cluster.address, "cuda", Request(1000, 1000).facts_about):
        pass
    monkeypatch.setattr(dask, "__version__", "0.0")
    monkeypatch.setattr(dask, "_describe_device", None)  # workers of another version may lack any function
    with pytest.raises(BackendError, match=r"^worker tcp://\S+ has longalign \d.*, and this is 0\.0$"):
        run(cluster, tmp_path / "s", Events().append)


def test_the_tiles_of_workers_depend_on_the_whole_request(tmp_path):
    """Start states make tiles take longer, so they are lower, and less is lost by a stop."""
    asked = []

    @contextmanager
    def connect(facts_about):
        asked.append(facts_about(CpuBackend(1), 2))
        raise BackendError("no scheduler")
        yield

    sequence = Sequence.from_letters("x", "ACGT" * 750_000)
    using = Resources([CpuBackend(1)], 8 << 30, cluster=connect)
    for start_states in ("lazy", "eager"):
        spec = RunSpec(
            sequence, sequence, api.Scoring(), store=tmp_path / start_states, start_states=start_states
        )
        with pytest.raises(BackendError, match="no scheduler"):
            pipeline.run(spec, using)
    lazy, eager = asked
    assert eager.stored_rows < lazy.stored_rows
    assert Request(3_000_000, 3_000_000, start_states="eager").facts_about(CpuBackend(1), 2) == eager


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("tcp://127.0.0.1:1", "tcp://127.0.0.1:1: no Dask scheduler answers: "),
        ("tcp://127.0.0.1", "tcp://127.0.0.1: no Dask scheduler answers: missing port number"),
        (
            "no.json",
            "no.json: neither the address of a Dask scheduler (tcp://HOST:PORT) nor its file: no such",
        ),
        (str(PAIR[0]), "nor its file: it holds no address"),
    ],
)
def test_an_address_without_a_scheduler_is_refused(address, why, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(dask, "_ANSWER_SECONDS", 0.5)
    store = ["--store", str(tmp_path / "s")]
    assert main(["score", *map(str, PAIR), "--backend", "cpu", "--cluster", address, *store]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("longalign: ")
    assert why in err
    assert err.count("\n") == 1
    assert not (tmp_path / "s").exists()


@pytest.mark.cluster
def test_the_address_of_a_worker(cluster):
    worker = cluster.wait_for_workers(2)[0]
    no_scheduler = pytest.raises(
        BackendError, match="no Dask scheduler answers: it is the address of a Worker"
    )
    with no_scheduler, dask.connect(worker, "cpu", Request(1000, 1000).facts_about):
        pass


def test_without_dask(monkeypatch):
    monkeypatch.delitem(sys.modules, "longalign.run.engines.dask")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        BackendError, match=r"^a cluster needs Dask \(.*\): install longalign\[cluster\]$"
    ) as caught:
        api.score("ACGT", "ACGT", backend="cpu", cluster="tcp://127.0.0.1:1", store="s")
    assert caught.value.exit_code == 3


def test_a_cluster_needs_a_store():
    with pytest.raises(UsageError, match="--cluster needs --store DIR"):
        api.align("ACGT", "ACGT", backend="cpu", cluster="tcp://127.0.0.1:1")
