"""Losses in a cluster: kill Dask workers, the scheduler or the client in the middle of a run.

A scheduler and two workers on this machine sweep small tiles. At a random instant a worker, all workers, the
scheduler or the client gets SIGKILL. Asserted: the client succeeds, or exits with 3 and one line; the store
can then be resumed without a cluster; every result that is written is right.
"""

from __future__ import annotations

import random
import signal
import subprocess
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from attacks.base import Attack, CaseFailed, expect
from attacks.children import ProcessResult, real_command, result_of, run_real, start_real

_SECONDS = 90.0
_LOSSES = ("a worker", "every worker", "the scheduler", "the client", "nothing")


class ClusterLosses(Attack):
    weight = 1.0
    limit = 240.0
    unit = "losses"

    @classmethod
    def unavailable(cls, backend: str) -> str | None:
        return None if find_spec("distributed") else "Dask is not installed"

    def run(self, rng: random.Random) -> int:
        from dask_cluster import cluster_in
        from inputs import DATA
        from small_tile_runs import MITOCHONDRIA

        folder = self.fresh()
        (folder / "cluster").mkdir()
        files = [DATA / name for name in MITOCHONDRIA]
        store, lost, after = folder / "store", rng.choice(_LOSSES), rng.uniform(0, 3)
        what = f"{lost} lost after {after:.2f} s"
        self.note(what)
        wanted = self._expected(files)
        try:
            with cluster_in(folder / "cluster") as started:
                scheduler = started.start_scheduler()
                started.start_workers(2)
                arguments = [
                    "align",
                    *files,
                    "--store",
                    store,
                    "-o",
                    folder / "out",
                    "-q",
                    "--backend",
                    "cpu",
                ]
                client = start_real(real_command([*arguments, "--cluster", started.address]), folder)
                _wait_for_sweep(started.orders, client)
                time.sleep(after)
                if lost == "a worker":
                    (started.orders / "kill").touch()
                elif lost == "every worker":
                    (started.orders / "kill-all").touch()
                elif lost == "the scheduler":
                    scheduler.kill()
                elif lost == "the client":
                    client.kill()
                ended = _wait(client, may_wait=lost == "every worker")
            if ended.code != -signal.SIGKILL:
                ended.check({0, 3, 130}, "the client")
            _check(folder / "out", ended.code == 0, wanted)
            again = ["resume", store, "-o", folder / "again", "-q", "--backend", "cpu"]
            run_real(real_command(again), folder, seconds=_SECONDS).check({0}, "resume")
            _check(folder / "again", True, wanted)
        except CaseFailed as fault:
            raise CaseFailed(f"{what}: {fault}") from fault
        return 1

    def _expected(self, files: list[Path]) -> bytes:
        output = self.folder / "expected"
        if not output.exists():
            arguments = ["align", *files, "-o", output, "-q", "--backend", "cpu"]
            run_real(real_command(arguments), self.folder, seconds=_SECONDS).check({0}, "without a cluster")
        return output.read_bytes()


def _wait_for_sweep(orders: Path, client: subprocess.Popen[str]) -> None:
    """Wait until a worker has started a tile, or the client has ended."""
    deadline = time.monotonic() + _SECONDS
    while not list(orders.glob("swept-*")) and client.poll() is None:
        expect(time.monotonic() < deadline, "no worker has started a tile")
        time.sleep(0.01)


def _wait(client: subprocess.Popen[str], may_wait: bool) -> ProcessResult:
    """The result of the client.

    With `may_wait`, all workers are lost and the client may wait for new ones: SIGINT then ends it.
    """
    if may_wait:
        with suppress(subprocess.TimeoutExpired):
            out, err = client.communicate(timeout=15)
            return ProcessResult(client.returncode, out, err)
        client.send_signal(signal.SIGINT)
        return result_of(client, 30, "after a Ctrl-C, the client")
    return result_of(client, _SECONDS, "the client")


def _check(output: Path, must_be_there: bool, wanted: bytes) -> None:
    if must_be_there or output.exists():
        found = output.read_bytes()
        expect(found == wanted, f"wrote {found!r}, not {wanted!r}")


ATTACK = ClusterLosses
