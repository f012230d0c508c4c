"""The PAF file of a pair of real sequences is the same, byte by byte, whatever the resources of the run."""

from __future__ import annotations

from itertools import product

import pytest
from inputs import DATA
from runs import small_geometry

from longalign.cli import main

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
