"""Damage and forgery: `resume` over a damaged store either gives the right result or refuses the store.

A finished store is copied. One or two of its files are damaged (flipped bits, truncation, appended bytes,
zeroed blocks, exchanged or deleted files, FIFOs, links or folders under their names) or forged (impossible
content under valid checksums, see `forgery`). Then `resume` runs over the copy. Asserted:

- it succeeds and writes the output of an undisturbed run, byte by byte; or
- it exits with 1 and one line on stderr that names the store or the file;
- it never shows a traceback or an internal error, never dies by a signal, and ends within seconds;
- files outside the store are not touched.
"""

from __future__ import annotations

import io
import json
import os
import random
import resource
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from attacks import forgery
from attacks.base import Attack, CaseFailed, expect
from attacks.children import ProcessResult
from attacks.problems import Problem, variants

_VARIANTS = 6
_MEMORY = 16 << 30
_BYSTANDER = b"must not be touched\n"


class Damage(Attack):
    weight = 3.5
    limit = 10.0
    unit = "damages, forgeries"

    def __init__(self, folder: Path, seed: int, backend: str) -> None:
        super().__init__(folder, seed, backend)
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        commands = "align", "align", "eager", "score"
        self._problem = variants(f"damage:{seed}", folder, [150, 400], commands)

    def run(self, rng: random.Random) -> int:
        problem = self._problem(rng.randrange(_VARIANTS))
        folder = self.fresh()
        os.chdir(folder)  # a forged manifest may name a relative path for its summary
        store, output = folder / "store", folder / "out"
        shutil.copytree(problem.pristine, store)
        (folder / "bystander").write_bytes(_BYSTANDER)
        if rng.random() < 0.3:  # an unfinished run
            for unfinished in [*rng.sample(_files(store, "tiles/*"), 1), *_files(store, "pieces/*")[:1]]:
                unfinished.unlink()
        what = _corrupt(store, rng)
        self.note(what)
        problem.sizes.set()
        ended = run_here(problem.resume_arguments(store, output))
        try:
            _check(problem, ended, output, store)
        except CaseFailed as fault:
            raise CaseFailed(f"{what}: {fault}") from fault
        expect(
            (folder / "bystander").read_bytes() == _BYSTANDER, f"{what}: a file outside the store was touched"
        )
        return 1


def run_here(arguments: list[object]) -> ProcessResult:
    """Run the command line in this process."""
    from longalign.cli import main

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
    return ProcessResult(code, out.getvalue(), err.getvalue())


def _check(problem: Problem, ended: ProcessResult, output: Path, store: Path) -> None:
    ended.check({0, 1}, "resume")
    if ended.code == 1:
        expect(str(store) in ended.err, f"the message does not name the store: {ended.err.strip()}")
        return
    if _question(store) != _question(problem.pristine):
        return  # the forged manifest is valid and asks another question
    found, wanted = output.read_bytes(), problem.expected
    expect(found == wanted, f"wrote {found[:150]!r}, not {wanted[:150]!r}")


def _question(store: Path) -> list[object]:
    """What decides the output of a resumed run, by the manifest of its store."""
    manifest = json.loads((store / "manifest.json").read_bytes())
    names = "query", "target", "strand", "mode", "scoring", "command", "top", "min_score"
    return [manifest.get(name) for name in names]


def _files(store: Path, pattern: str = "**/*") -> list[Path]:
    """The regular files: writing to a link would change another file."""
    return sorted(path for path in store.glob(pattern) if path.is_file() and not path.is_symlink())


def _corrupt(store: Path, rng: random.Random) -> str:
    """Change one or two files. Returns a description."""
    done: list[str] = []
    for _ in range(rng.choice([1, 1, 1, 2])):
        if not (files := _files(store)):
            break
        # Choose a kind of file first, as most files are tiles.
        kinds = sorted({path.relative_to(store).parts[0] for path in files})
        kind = rng.choice(kinds)
        path = rng.choice([path for path in files if path.relative_to(store).parts[0] == kind])
        name = str(path.relative_to(store))
        forge = forgery.hdf5 if path.suffix == ".h5" else forgery.manifest
        if kind != "lock" and not done and rng.random() < 0.5:
            what = forge(path, rng)
        else:
            what = _damage(path, store, rng)
        done.append(f"{name}: {what}")
    return "; ".join(done)


def _damage(path: Path, store: Path, rng: random.Random) -> str:
    kind = rng.choice(
        ["flip", "flip", "truncate", "append", "zero", "exchange", "delete", "obstacle", "rubbish"]
    )
    data = bytearray(path.read_bytes())
    if kind == "flip" and data:
        place, bit = rng.randrange(len(data)), rng.randrange(8)
        data[place] ^= 1 << bit
        path.write_bytes(data)
        return f"bit {bit} of byte {place} flipped"
    if kind == "truncate" and data:
        length = rng.choice([0, rng.randrange(len(data))])
        path.write_bytes(data[:length])
        return f"truncated to {length} bytes"
    if kind == "zero" and data:
        place = rng.randrange(len(data))
        data[place : place + 512] = bytes(len(data[place : place + 512]))
        path.write_bytes(data)
        return f"zeros from byte {place}"
    if kind == "exchange":
        other = rng.choice(_files(store))
        other_data = other.read_bytes()
        other.write_bytes(data)
        path.write_bytes(other_data)
        return f"exchanged with {other.relative_to(store)}"
    if kind == "delete":
        path.unlink()
        return "deleted"
    if kind == "obstacle":
        return _obstacle(path, store, rng)
    if kind == "rubbish":
        path.write_bytes(rng.randbytes(rng.randint(0, 3000)))
        return "random bytes"
    path.write_bytes(data + rng.randbytes(rng.randint(1, 600)))
    return "bytes appended"


def _obstacle(path: Path, store: Path, rng: random.Random) -> str:
    """Put something that is not a regular file under the name of a file."""
    kind = rng.choice(["fifo", "folder", "full folder", "link outside", "dangling link", "loop", "device"])
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind.endswith("folder"):
        path.mkdir()
        if kind == "full folder":
            (path / "mine").write_text("x")
    elif kind == "device":
        path.symlink_to(rng.choice(["/dev/zero", "/dev/null", "/dev/full"]))
    else:
        places = {"link outside": store.parent / "bystander", "dangling link": Path("nowhere"), "loop": path}
        path.symlink_to(places[kind])
    return kind


ATTACK = Damage
