"""A cluster that loses its parts: Dask workers, the scheduler and the client are killed, and the run goes on.

A scheduler and two workers of this machine sweep small tiles; at a random instant a worker, all workers, the
scheduler or the client gets SIGKILL. Asserted: the client succeeds or exits with 3 and one line; the store
can then be resumed without a cluster, and every result that is written is right.
"""

from __future__ import annotations

import random
import signal
import subprocess
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from attacks.base import Attack, Fault, expect
from attacks.children import Ended, environment, real_command, run_real
from attacks.damage import essence

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
        from commands import MITOCHONDRIA
        from inputs import DATA
        from test_cluster import processes

        folder = self.fresh()
        (folder / "cluster").mkdir()
        files = [DATA / name for name in MITOCHONDRIA]
        store, lost, after = folder / "store", rng.choice(_LOSSES), rng.uniform(0, 3)
        what = f"{lost} lost after {after:.2f} s"
        self.note(what)
        wanted = self._expected(files)
        try:
            with processes(folder / "cluster") as started:
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
                client = subprocess.Popen(
                    real_command([*arguments, "--cluster", started.address]), cwd=folder, env=environment(),
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                )  # fmt: skip
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
        except Fault as fault:
            raise Fault(f"{what}: {fault}") from fault
        return 1

    def _expected(self, files: list[Path]) -> list[bytes]:
        output = self.folder / "expected"
        if not output.exists():
            arguments = ["align", *files, "-o", output, "-q", "--backend", "cpu"]
            run_real(real_command(arguments), self.folder, seconds=_SECONDS).check({0}, "without a cluster")
        return essence(output.read_bytes())


def _wait_for_sweep(orders: Path, client: subprocess.Popen[str]) -> None:
    """Until a worker has a tile, or the run is over."""
    deadline = time.monotonic() + _SECONDS
    while not list(orders.glob("swept-*")) and client.poll() is None:
        expect(time.monotonic() < deadline, "no worker has got a tile")
        time.sleep(0.01)


def _wait(client: subprocess.Popen[str], may_wait: bool) -> Ended:
    """How the client ends; one that waits for new workers is ended by a Ctrl-C."""
    try:
        out, err = client.communicate(timeout=15 if may_wait else _SECONDS)
    except subprocess.TimeoutExpired:
        if not may_wait:
            client.kill()
            client.communicate()
            raise Fault("hang: the client has not ended") from None
        client.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            out, err = client.communicate(timeout=30)
            return Ended(client.returncode, out, err)
        client.kill()
        client.communicate()
        raise Fault("hang: the client has not ended after a Ctrl-C") from None
    return Ended(client.returncode, out, err)


def _check(output: Path, must_be_there: bool, wanted: list[bytes]) -> None:
    if must_be_there or output.exists():
        found = essence(output.read_bytes())
        expect(found == wanted, f"wrote {found}, not {wanted}")


ATTACK = ClusterLosses
