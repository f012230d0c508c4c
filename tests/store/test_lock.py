"""The lock of a store: one run writes, files of others stay, and a lock that is lost is noticed."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from processes import unprivileged
from runs import PAIR, SmallTiles, small_geometry, using

from longalign.cli.inspect import inspect
from longalign.errors import StoreError
from longalign.events import Event, Notice
from longalign.model.boundary import BestCell
from longalign.run import pipeline
from longalign.run.outcome import Outcome
from longalign.store import DirectoryStore, Piece, TileRecord
from longalign.store.base import NextBest
from longalign.store.codec import NO_LINES
from longalign.store.files import temporary_name
from longalign.store.lock import Lock


def run(path: Path, *, emit=lambda event: None) -> Outcome:
    with small_geometry():
        return PAIR.run(using(SmallTiles((17, 17))), path, emit)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A finished store."""
    path = tmp_path / "s"
    run(path)
    return path


# --- what may be in the place of the lock


def link_to_a_file(lock: Path) -> None:
    (lock.parent.parent / "victim").write_text("precious")
    lock.symlink_to(lock.parent.parent / "victim")


def another_name(lock: Path) -> None:
    (lock.parent.parent / "victim").write_text("precious")
    lock.hardlink_to(lock.parent.parent / "victim")


@pytest.mark.parametrize(
    ("put", "complaint"),
    [
        (link_to_a_file, "lock: is a symbolic link, not the lock file of a store"),
        (lambda lock: lock.symlink_to("nowhere"), "lock: is a symbolic link, not the lock file of a store"),
        (another_name, "lock: is not the lock file of a store: it holds something else"),
        (os.mkfifo, "lock: is a pipe, not the lock file of a store"),
        (Path.mkdir, "lock: is a directory, not the lock file of a store"),
        (
            lambda lock: lock.write_text("precious"),
            "lock: is not the lock file of a store: it holds something",
        ),
    ],
)
def test_what_is_not_our_lock_is_refused_and_left_alone(store, put: Callable[[Path], None], complaint):
    lock, victim = store / "lock", store.parent / "victim"
    lock.unlink()
    put(lock)

    def seen() -> tuple[object, ...]:
        entry = lock.lstat()  # but for the time of access: reading a file changes that
        kept = entry.st_ino, entry.st_mode, entry.st_nlink, entry.st_size, entry.st_mtime_ns
        return *kept, victim.exists() and victim.read_text()

    before = seen()
    with pytest.raises(StoreError, match=complaint):
        DirectoryStore.open(store)
    assert seen() == before
    if lock.is_file() and not lock.is_symlink() and lock.stat().st_nlink == 1:
        assert lock.read_text() == "precious"


def test_a_backup_by_hard_links_is_a_store_whose_lock_file_is_not_written(store):
    backup = store.parent / "backup"
    shutil.copytree(store, backup, copy_function=os.link)
    before = (store / "lock").read_bytes()
    for path in (store, backup):
        with DirectoryStore.open(path), pytest.raises(StoreError, match="in use by"):
            DirectoryStore.open(path)
        assert (store / "lock").read_bytes() == before


def test_the_lock_is_not_emptied_by_those_who_do_not_get_it(store):
    with DirectoryStore.open(store):
        text = (store / "lock").read_text()
        assert text.startswith(f"process {os.getpid()} on ")
        with pytest.raises(StoreError, match=f"the store is in use by process {os.getpid()} on "):
            DirectoryStore.open(store)
        assert (store / "lock").read_text() == text


def test_a_full_disk_does_not_keep_the_lock_from_being_taken(store, monkeypatch):
    attempts = []

    def full(*_):
        attempts.append(1)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with DirectoryStore.open(store), pytest.raises(StoreError, match="in use by"):
        DirectoryStore.open(store)
    assert attempts == [1]


# --- a lock that is deleted or replaced


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_second_run_is_refused_though_the_lock_file_is_another(store, how):
    with DirectoryStore.open(store):
        (store / "lock").unlink()
        if how == "replaced":
            (store / "lock").touch()
        with pytest.raises(StoreError, match="s: the store is in use by another process"):
            DirectoryStore.open(store)


def test_without_locks_of_directories_the_lock_file_is_enough(store, monkeypatch):
    """As on some network file systems."""
    flock = fcntl.flock

    def only_files(descriptor, how):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):  # noqa: PTH112
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", only_files)
    with DirectoryStore.open(store):
        with pytest.raises(StoreError, match=f"the store is in use by process {os.getpid()} on "):
            DirectoryStore.open(store)
        (store / "lock").unlink()
        with DirectoryStore.open(store) as second:
            second.put_path([], complete=False)
    DirectoryStore.open(store).close()


def test_a_lock_that_is_replaced_while_it_is_taken_is_taken_anew(store, monkeypatch):
    flock, replaced = fcntl.flock, []

    def replace(descriptor, how):
        if not replaced and not os.path.isdir(f"/proc/self/fd/{descriptor}"):  # noqa: PTH112
            replaced.append((store / "lock").unlink())
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", replace)
    lock = Lock(store)
    assert replaced
    lock.check()
    lock.release()


WRITES: dict[str, Callable[[DirectoryStore], object]] = {
    "put_tile": lambda store: store.put_tile(
        store.manifest.grid.tile(0, 0), TileRecord(NO_LINES, NO_LINES, BestCell())
    ),
    "put_path": lambda store: store.put_path([], complete=False),
    "put_piece": lambda store: store.put_piece(0, Piece(np.zeros(1, np.uint8), np.ones(1, np.int64))),
    "put_next_best": lambda store: store.put_next_best(NextBest()),
    "put_sequences": lambda store: store.put_sequences(*PAIR.sequences()),
    "note_request": lambda store: store.note_request(replace(store.manifest, output="elsewhere")),
    "drop_tile": lambda store: store.drop_tile(0, 0),
    "refresh": lambda store: store.refresh(),
    "marked": lambda store: store.marked().__enter__(),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_nothing_is_written_once_the_lock_is_lost(store, write, how):
    with DirectoryStore.open(store) as opened:
        (store / "lock").unlink()
        if how == "replaced":
            (store / "lock").write_text("process 1 on elsewhere\n")
        before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
        with pytest.raises(
            StoreError, match="lock: was deleted or replaced while this run held it"
        ) as caught:
            WRITES[write](opened)
        assert f"longalign resume {store}" in str(caught.value)
        assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before


def test_a_lock_that_is_lost_while_a_file_is_written_keeps_it_from_its_name(store):
    path = store / "path.h5"
    before = path.read_bytes()
    with (
        DirectoryStore.open(store) as opened,
        pytest.raises(StoreError, match="was deleted or replaced"),
        opened._new(path),
    ):
        (store / "lock").unlink()
    assert path.read_bytes() == before
    assert not list(store.rglob(".tmp-*"))


@pytest.mark.parametrize("write", WRITES)
def test_nothing_is_written_to_a_store_that_is_closed(store, write):
    """A second interrupt can close the store while another thread still writes a tile."""
    with DirectoryStore.open(store) as opened:
        pass
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    with pytest.raises(StoreError, match="the store is closed"):
        WRITES[write](opened)
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before


def test_a_file_that_is_written_while_the_store_is_closed_does_not_get_its_name(store):
    path = store / "path.h5"
    before = path.read_bytes()
    with (
        DirectoryStore.open(store) as opened,
        pytest.raises(StoreError, match="the store is closed"),
        opened._new(path),
    ):
        opened.close()
    assert path.read_bytes() == before
    assert not list(store.rglob(".tmp-*"))


def test_a_run_that_loses_its_lock_ends_and_loses_nothing(tmp_path):
    path, events = tmp_path / "s", list[Event]()

    def lose(event: Event) -> None:
        events.append(event)
        if len(events) == 6:
            (path / "lock").unlink()

    with pytest.raises(StoreError, match="was deleted or replaced"):
        run(path, emit=lose)
    PAIR.check(run(path))


# --- what the user has put into the store


def test_only_temporaries_of_this_program_are_removed(store):
    mine = [
        *(store / ".tmp-mine", store / ".tmp-1-path.h5", store / temporary_name("notes.txt")),
        *(store / "tiles" / temporary_name("path.h5"), store / "pieces" / temporary_name()),
        *(store / "backup" / temporary_name("path.h5"), store / "tiles" / "old" / temporary_name()),
    ]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.write_text("precious")
    folder, link = store / temporary_name("path.h5"), store / temporary_name()
    folder.mkdir()
    link.symlink_to("lock")
    ours = [store / temporary_name(), store / "tiles" / temporary_name("r00000c00000.h5")]
    for path in ours:
        path.touch()
    with DirectoryStore.open(store):
        pass
    assert all(path.read_text() == "precious" for path in mine)
    assert folder.is_dir()
    assert link.is_symlink()
    assert not any(path.exists() for path in ours)


def test_links_to_folders_are_used_and_not_cleaned(store):
    """A store, and its tiles, may lie on another disk."""
    tiles, leftover = store.parent / "disk", temporary_name("r00000c00000.h5")
    (store / "tiles").rename(tiles)
    (store / "tiles").symlink_to(tiles)
    (tiles / leftover).touch()
    link = store.parent / "link"
    link.symlink_to(store)
    events: list[Event] = []
    PAIR.check(run(link, emit=events.append))
    assert not [event for event in events if isinstance(event, Notice)]
    assert (tiles / leftover).exists()


def test_a_link_in_a_circle_is_no_hindrance_to_inspect(store):
    (store / "loop").symlink_to("loop")
    assert inspect(store)["damaged"] == []


@pytest.mark.parametrize("name", ["tiles", "pieces"])
def test_a_file_in_the_place_of_a_folder_is_one_line(store, name):
    (store / name).rename(store.parent / "elsewhere")
    (store / name).write_text("precious")
    with pytest.raises(StoreError, match=f"{name}: is a regular file, not a directory"):
        DirectoryStore.open(store)
    assert (store / name).read_text() == "precious"


@pytest.mark.parametrize("name", ["manifest.json", "sequences.h5", "path.h5", "pieces/p000000.h5"])
@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_in_the_place_of_one_is_one_line_and_left_alone(store, name, make):
    (store / name).unlink()
    make(store / name)
    with pytest.raises(StoreError, match=f"{name}: is a (pipe|directory|device), not a regular file"):
        run(store)
    assert not (store / name).is_file()


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_what_is_no_file_in_the_place_of_a_tile_is_one_line_and_left_alone(store, make):
    path = store / "tiles" / "r00000c00000.h5"
    path.unlink()
    make(path)
    with pytest.raises(StoreError, match=r"r00000c00000.h5: is a (pipe|directory), not a regular file"):
        run(store)
    assert path.exists()


@pytest.mark.parametrize(
    "name", ["lock", "sequences.h5", "tiles", ".tmp-0123456789abcdef0123456789abcdef-path.h5"]
)
def test_a_directory_with_a_pipe_in_it_is_no_place_for_a_store(tmp_path, name):
    path = tmp_path / "s"
    path.mkdir()
    os.mkfifo(path / name)
    with pytest.raises(StoreError, match="s: neither empty nor a store"):
        run(path)


# --- where nothing can be written


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A finished store that nobody may write to; `tmp_path` hides from other users."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        path = Path(name) / "s"
        run(path)
        everything = [path, *path.rglob("*")]
        for entry in everything:
            entry.chmod(0o555 if entry.is_dir() else 0o444)
        yield path
        for entry in everything:
            if entry.exists():
                entry.chmod(0o755)


def resume(path: Path) -> list[str]:
    """Go on with a store; the notices."""
    events: list[Event] = []
    with small_geometry():
        PAIR.check(pipeline.resume(path, using(SmallTiles((17, 17))), emit=events.append))
    return [event.text for event in events if isinstance(event, Notice)]


@pytest.mark.parametrize("lock", ["there", "gone"])
def test_a_finished_store_that_cannot_be_written_to_is_resumed_for_output(read_only, lock):
    if lock == "gone":
        read_only.chmod(0o755)
        (read_only / "lock").unlink()
        read_only.chmod(0o555)
    before = sorted(read_only.rglob("*"))
    with unprivileged():
        assert resume(read_only) == []
    assert sorted(read_only.rglob("*")) == before


def test_what_would_have_to_be_written_to_a_read_only_store_is_one_line(read_only):
    (read_only / "pieces" / "p000000.h5").unlink()
    with unprivileged(), pytest.raises(StoreError, match="s: cannot be written: permission denied"):
        resume(read_only)


def test_a_damaged_tile_of_a_read_only_store_is_one_line(read_only):
    (read_only / "tiles" / "r00000c00000.h5").write_bytes(b"rubbish")
    (read_only / "tiles" / "r00000c00000.h5").chmod(0o444)
    with unprivileged(), pytest.raises(StoreError, match="s: cannot be written: permission denied"):
        resume(read_only)


def test_the_same_command_again_goes_on_where_it_cannot_be_noted(read_only):
    events: list[Event] = []
    with unprivileged(), small_geometry():
        outcome = pipeline.run(
            PAIR.spec(read_only),
            using(SmallTiles((17, 17))),
            events.append,
            note=lambda manifest: replace(manifest, output="/elsewhere.paf"),
        )
    PAIR.check(outcome)
    [notice] = [event.text for event in events if isinstance(event, Notice)]
    assert notice == (
        f"{read_only}/manifest.json: cannot be written: permission denied; "
        "a later resume asks for what was noted there before"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="takes two users")
def test_many_may_read_a_read_only_store_but_not_while_a_run_writes(read_only):
    in_use = pytest.raises(StoreError, match="the store is in use by")
    with DirectoryStore.open(read_only), unprivileged(), in_use:
        DirectoryStore.open(read_only)
    with unprivileged(), DirectoryStore.open(read_only), DirectoryStore.open(read_only) as second:
        assert not second.is_writable
        os.seteuid(0)
        with pytest.raises(StoreError, match="the store is in use by"):
            DirectoryStore.open(read_only)


FULL = """
import resource, signal, sys
from longalign.cli import main
from runs import small_geometry
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
with small_geometry():
    sys.exit(main(["resume", sys.argv[1], "--backend", "cpu", "--progress", "none", "--threads", "1"]))
"""


@pytest.mark.slow
def test_a_finished_store_is_resumed_for_output_where_no_file_can_grow(store):
    (store / "lock").write_text("")
    arguments = [sys.executable, "-c", FULL, str(store)]
    here = Path(__file__).parents[1] / "helpers"
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=here, check=False)
    assert (done.returncode, done.stdout[:9]) == (0, "query\t33\t"), done.stderr


def test_a_run_that_dies_leaves_a_store_that_is_free(store):
    hold = "import sys, time; from pathlib import Path; from longalign.store import DirectoryStore\n"
    hold += "store = DirectoryStore.open(Path(sys.argv[1])); print('held', flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", hold, str(store)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        (store / "lock").unlink()
        with pytest.raises(StoreError, match="the store is in use by another process"):
            DirectoryStore.open(store)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    DirectoryStore.open(store).close()
