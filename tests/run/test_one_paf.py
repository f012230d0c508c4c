"""The PAF file of a pair of real sequences is the same, byte by byte, whatever the resources of the run."""

from __future__ import annotations

import json
from itertools import product

import pytest
from inputs import DATA
from runs import small_geometry

from longalign.backends.cpu import CpuBackend
from longalign.cli import main
from longalign.run import bounds

PAIR = [str(DATA / name) for name in ("human_mito.NC_012920.1.fa.gz", "chimp_mito.NC_001643.1X.fa.gz")]

#: Options that change threads, memory, boundaries and start states, and the largest side of a chunk.
RUNS = [
    *((["--threads", threads], chunk) for threads, chunk in product("123", (300, 1000, 1 << 20))),
    (["--threads", "2", "--mem", "400M"], 700),
    (["--threads", "2", "--store-budget", "1M"], 300),
    (["--threads", "2", "--store-budget", "3M"], 300),
    (["--threads", "1", "--start-states", "eager"], 500),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ["--mode", "local"],
        ["--mode", "global", "--match", "1", "--mismatch", "-1", "--gap-open", "0", "--gap-extend", "1"],
    ],
    ids=["local", "global, many ties"],
)
def test_one_file_for_all_resources(tmp_path, options):
    files = set()
    for number, (resources, chunk) in enumerate(RUNS):
        path = tmp_path / f"{number}.paf"
        with small_geometry(chunk):
            command = ["align", *PAIR, "--backend", "cpu", "-q", "-o", str(path), *options, *resources]
            assert main(command) == 0
        files.add(path.read_bytes())
    assert len(files) == 1


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["local", "global", "overlap"])
def test_one_file_with_and_without_pruning_and_after_a_resume(tmp_path, monkeypatch, mode):
    """A store loses a tile between its score and its alignment."""
    monkeypatch.setattr(bounds, "MIN_CELLS", 0)
    monkeypatch.setattr(CpuBackend, "tile_shape", lambda *_: (6000, 6000))
    files, summary = set(), tmp_path / "x.json"

    def run(command, *options):
        path = tmp_path / "x.paf"
        arguments = *PAIR, "--backend", "cpu", "-q", "--mode", mode, "-o", str(path), *options
        assert main([command, *arguments]) == 0
        return path.read_bytes()

    for prune, chunk in product(("auto", "off"), (300, 700)):
        store, options = tmp_path / f"{prune}{chunk}", ("--prune", prune)
        with small_geometry(chunk):
            files.add(run("align", *options, "--json", str(summary)))
            run("score", *options, "--store", str(store))
            (store / "tiles" / "r00001c00001.h5").unlink()
            files.add(run("align", *options, "--store", str(store)))
        left_out = sum(phase["left_out"] for phase in json.loads(summary.read_text())["phases"])
        assert (left_out > 0) == (prune == "auto")
    assert len(files) == 1
