"""A run that starts on one back end and continues, in any phase, on another."""

from __future__ import annotations

import pytest
from runs import Pair, SmallTiles, small_geometry, using

from longalign.backends.cpu import CpuBackend
from longalign.backends.cuda.backend import CudaBackend
from longalign.events import Advanced, Event
from longalign.model.pruning import KnownBound
from longalign.run import pipeline
from longalign.store import DirectoryStore

PAIR = Pair("ACGTTACGGATCAGGCATTACGACGATTACAGG", "ACGTACGGATCCAGGATTACGTACGATACAGGCC")


class StopError(Exception):
    pass


@pytest.mark.parametrize("is_pruned", [False, True])
@pytest.mark.parametrize(("first", "after"), [("cpu", 2), ("cuda", 6)])
def test_a_run_continues_where_another_back_end_stopped(tmp_path, monkeypatch, first, after, is_pruned):
    bound = KnownBound(int(PAIR.truth().score), 0.5)
    monkeypatch.setattr(pipeline, "find_bound", lambda *_: bound if is_pruned else None)
    # Along a diagonal, phases 2 and 3 would leave nothing to the back ends.
    monkeypatch.setattr("longalign.phases.recompute.is_straight", lambda *_: False)
    monkeypatch.setattr("longalign.phases.stitch.straight_back", lambda *_: None)
    makers = {"cpu": lambda: CpuBackend(1), "cuda": lambda: CudaBackend(columns=2, block_rows=16, warps=1)}
    [second] = set(makers) - {first}
    tiles = {name: SmallTiles((17, 17), make()) for name, make in makers.items()}
    seen = 0

    def stop(event: Event) -> None:
        nonlocal seen
        seen += isinstance(event, Advanced) and event.cells > 0
        if seen == after:
            raise StopError

    with small_geometry():
        with pytest.raises(StopError):
            PAIR.run(using(tiles[first]), tmp_path / "store", stop)
        outcome = pipeline.resume(tmp_path / "store", using(tiles[second]))
        PAIR.check(outcome)
        assert tiles[second].swept > 0
        with DirectoryStore.open(tmp_path / "store") as finished:
            assert (finished.manifest.pruned_with is not None) == is_pruned
        assert outcome.alignment.cigar == PAIR.run(using(SmallTiles((17, 17)))).alignment.cigar
