"""Rules of the design that layers of imports cannot express; the layers themselves are import-linter's."""

from __future__ import annotations

import ast
import operator
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import longalign
from longalign.model.mode import MODES

PACKAGE = Path(longalign.__file__).parent


def imports(path: Path) -> Iterator[str]:
    """The full names that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def importers(name: str) -> set[str]:
    """The modules of the package that import `name` or something inside it."""
    return {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if any(f"{found}.".startswith(f"{name}.") for found in imports(path))
    }


def test_the_recurrence_imports_nothing():
    assert not list(imports(PACKAGE / "model/recurrence.py"))


def test_no_code_compares_modes_by_their_words():
    """It asks a mode for what it needs to know: `model/mode.py` says what a mode is."""
    words = {*MODES}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare | ast.MatchValue):
                texts = {inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant)}
                assert words.isdisjoint(texts), f"{path}:{node.lineno}"


def test_one_module_imports_the_cuda_package():
    assert importers("numba.cuda") == {"backends/cuda/numba_api.py"}


def test_one_module_imports_dask():
    assert importers("dask") | importers("distributed") == {"run/engines/dask.py"}


def test_only_the_suite_imports_test_libraries():
    suites = {f"testing/{name}.py" for name in ("conformance", "sweeps", "start_states", "traces")}
    strategies = {f"testing/{name}.py" for name in ("inputs", "sweep_jobs", "pruned_jobs", "gains")}
    assert importers("hypothesis") == suites | strategies
    assert importers("pytest") == suites


def test_importing_longalign_leaves_large_libraries_alone():
    program = "import sys, longalign.api, longalign.cli.runs; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    large = {"numba.cuda", "hypothesis", "pytest", "dask", "distributed", "h5py", "tqdm"}
    assert not large & {*done.stdout.split()}


@pytest.mark.parametrize("arguments", [["--version"], ["align", "--help"], ["align", "only-one.fa"]])
def test_cheap_commands_need_no_compiler(arguments):
    program = f"""
import atexit, sys
atexit.register(lambda: print(*sys.modules))
from longalign.cli import main
main({arguments})
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    loaded = done.stdout.split()
    assert "longalign.cli.parser" in loaded
    assert not {"numba", "llvmlite", "h5py", "tqdm", "longalign.api"} & set(loaded)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, the CUDA packages themselves are asked")
def test_without_a_driver_no_cuda_package_is_imported():
    program = """
import sys
from unittest import mock
from longalign.backends import cuda
with mock.patch("ctypes.CDLL", side_effect=OSError("no such library")):
    assert not cuda.available()
    assert cuda.why_unavailable() == "no usable NVIDIA driver or GPU found"
print(*sys.modules)
"""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert "numba" not in done.stdout.split()


def test_every_public_name_is_there_and_listed():
    assert all(hasattr(longalign, name) for name in longalign.__all__)
    assert set(longalign.__all__) <= set(dir(longalign))
    with pytest.raises(AttributeError, match="no attribute 'aline'"):
        operator.attrgetter("aline")(longalign)
