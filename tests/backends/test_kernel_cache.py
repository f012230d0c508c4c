"""The cache of compiled kernels: kernels are found again, stale ones never run, and failures do no harm."""

from __future__ import annotations

import ast
import gc
import os
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shutil import copytree
from types import SimpleNamespace
from unittest import mock

import pytest
from numba.core.dispatcher import Dispatcher

from longalign.backends import kernel_cache
from longalign.backends.cpu.jit import compile_entry

pytestmark = pytest.mark.usefixtures("folder")

PACKAGE = Path(kernel_cache.__file__).parents[1]


def files(folder: Path) -> dict[Path, int]:
    """The files in a folder, with the time at which each was written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def answer(key: str = "one") -> int:
    """Compile a function or load it from disk, as a new process would, and run it."""

    def add_one(x: int) -> int:
        return x + 1

    return compile_entry(add_one, key, (1,))(41)


#: A context in which compiling is an error.
NO_COMPILER = mock.patch("numba.core.dispatcher._FunctionCompiler.compile", side_effect=AssertionError)

#: A context in which initialising the compiler is an error, too. That takes longer than the rest of loading.
NOT_EVEN_READY = mock.patch("numba.core.base.BaseContext.refresh", side_effect=AssertionError)


# --- files -------------------------------------------------------------------------------------------


def test_what_is_kept_is_found_again(folder):
    assert answer() == 42
    kept = files(folder)
    assert len(kept) == 1
    assert answer() == 42
    assert files(folder) == kept


def test_what_is_found_is_not_compiled():
    assert answer() == 42
    with NO_COMPILER, NOT_EVEN_READY:
        assert answer() == 42


def test_other_settings_of_the_compiler_make_other_files(folder, monkeypatch):
    answer()
    before = files(folder)
    monkeypatch.setattr("numba.config.OPT", 0)
    kernel_cache.cache_directory.cache_clear()
    assert answer() == 42
    assert set(before) < set(files(folder))


def test_every_key_has_a_file_of_its_own(folder):
    assert answer("one") == answer("other") == 42
    assert len(files(folder)) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"rubbish",
        lambda content: content[:-1],
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
    ],
    ids=["empty", "rubbish", "cut off", "one bit"],
)
def test_a_damaged_file_is_compiled_over(folder, damage):
    assert answer() == 42
    [path] = files(folder)
    path.write_bytes(damage(path.read_bytes()))
    assert answer() == 42
    with NO_COMPILER:
        assert answer() == 42


def test_an_intact_cache_file_without_a_kernel_is_replaced(folder):
    assert answer() == 42
    [path] = files(folder)
    path.unlink()
    with mock.patch("longalign.backends.cpu.kernel_cache.CpuCache.pack", return_value=b"not a pickle"):
        assert answer() == 42
    assert answer() == 42
    with NO_COMPILER:
        assert answer() == 42


def test_a_folder_that_cannot_be_made_is_done_without(folder):
    folder.write_text("a file is in the way")
    assert answer() == 42


def test_a_user_without_a_home_goes_without(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    with mock.patch("pathlib.Path.home", side_effect=RuntimeError("could not determine home directory")):
        assert answer() == 42


def test_a_full_disk_leaves_no_partial_file(folder, monkeypatch):
    def fill_disk(path: Path, content: bytes) -> None:
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fill_disk)
    assert answer() == 42
    assert not files(folder)


@pytest.mark.slow
def test_two_processes_use_the_cache_at_the_same_time(folder):
    """They compile the same function, and a third process can use either one's file."""
    program = "from tests.backends.test_kernel_cache import answer; print(answer())"
    started = [
        subprocess.Popen([sys.executable, "-c", program], cwd=PACKAGE.parent, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    assert [process.communicate()[0].strip() for process in started] == [b"42", b"42"]
    kept = files(folder)
    assert len(kept) == 1
    assert answer() == 42
    assert files(folder) == kept


# --- the directory's name ----------------------------------------------------------------------------


def name(target: str = "cpu", compiler: str = "a compiler") -> str:
    kernel_cache.cache_directory.cache_clear()
    return kernel_cache.cache_directory(target, compiler).name


def test_the_directory_is_the_users(folder, monkeypatch):
    assert kernel_cache.cache_directory("cpu", "a compiler").parent == folder / "longalign"
    kernel_cache.cache_directory.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the XDG standard says that a relative path is ignored
    assert kernel_cache.cache_directory("cpu", "a compiler").parent == Path.home() / ".cache" / "longalign"


def test_the_directory_is_one_compilers():
    assert name() == name()
    assert name() != name(compiler="another compiler")
    assert name() != name("cuda")


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_an_edit_of_any_source_of_a_kernel_changes_the_directory(monkeypatch, tmp_path, target):
    copy = copytree(PACKAGE, tmp_path / "longalign", ignore=lambda *_: ["__pycache__"])
    monkeypatch.setattr(kernel_cache, "_PACKAGE", copy)
    names_of_shared = ("model/recurrence.py", "model/pruning.py", "backends/trace_table.py")
    shared = [copy / name for name in names_of_shared]
    sources = [*shared, *sorted((copy / "backends" / target).rglob("*.py"))]
    names = {name(target)}
    for source in sources:
        with source.open("a") as file:
            file.write("# another line\n")
        names.add(name(target))
    assert len(names) == 1 + len(sources) > 15
    (copy / "cli/progress.py").write_text("# not a source of any kernel\n")
    assert name(target) in names


def test_every_function_that_is_compiled_is_in_one_of_the_sources():
    """Of those that exist once the modules are imported, without the functions that are made when needed."""
    import_module("longalign.backends.cpu.backend")
    compiled = [one.py_func for one in gc.get_objects() if issubclass(type(one), Dispatcher)]
    sources = {Path(function.__code__.co_filename) for function in compiled}
    own = {source for source in sources if source.is_relative_to(PACKAGE)}
    of_cpu = {source for source in own if not source.is_relative_to(PACKAGE / "backends/cuda")}
    assert PACKAGE / "model/pruning.py" in of_cpu
    assert of_cpu <= {*kernel_cache._sources("cpu")}


def test_every_module_whose_functions_cuda_kernels_use_is_one_of_the_sources():
    used = set()
    for folder in ("device", "kernels"):
        for path in (PACKAGE / "backends/cuda" / folder).glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("longalign."):
                    module = PACKAGE.parent / node.module.replace(".", "/")
                    files = [module / f"{alias.name}.py" for alias in node.names]
                    used |= {file for file in files if file.exists()} or {module.with_suffix(".py")}
    assert PACKAGE / "model/pruning.py" in used
    assert used <= {*kernel_cache._sources("cuda")}


def test_the_same_text_in_another_folder_is_another_source(monkeypatch, tmp_path):
    copy = copytree(PACKAGE, tmp_path / "longalign", ignore=lambda *_: ["__pycache__"])
    monkeypatch.setattr(kernel_cache, "_PACKAGE", copy)
    before = name("cuda")
    (copy / "backends/cuda/device/row.py").rename(copy / "backends/cuda/kernels/row.py")
    assert name("cuda") != before


# --- CUDA --------------------------------------------------------------------------------------------


@contextmanager
def device_without_driver(capability: tuple[int, int] = (9, 0), number: int = 0):
    """Replaces a device and its driver. Kernels are compiled to machine code, and are not loaded.

    Yields a list of the images of machine code that would be loaded.
    """
    function = SimpleNamespace(module=SimpleNamespace(initialized=True), attrs=SimpleNamespace(regs=1))
    images: list[object] = []

    def load(image, *_):
        images.append(image)
        return SimpleNamespace(get_function=lambda _: function)

    context = SimpleNamespace(
        device=SimpleNamespace(compute_capability=capability, id=number), create_module_image=load
    )
    with (
        mock.patch("numba.cuda.dispatcher.get_current_device", return_value=context.device),
        mock.patch("numba.cuda.cudadrv.devices.get_context", return_value=context),
        mock.patch("numba.cuda.current_context", return_value=context),
        mock.patch("numba.cuda.cudadrv.driver.get_version", return_value=(13, 0)),
    ):
        yield images


needs_compiler = pytest.mark.skipif(
    find_spec("numba_cuda") is None or os.environ.get("NUMBA_ENABLE_CUDASIM") == "1",
    reason="needs numba-cuda, and not its simulator",
)


@needs_compiler
def test_cuda_kernels_are_kept_for_one_kind_of_device():
    from longalign.backends.cuda.kernel_cache import CudaCache

    directories = []
    for capability in ((8, 0), (9, 0), (9, 0)):
        with device_without_driver(capability):
            directories.append(CudaCache("a kernel").directory())
    assert directories[0] != directories[1] == directories[2]


@pytest.mark.slow
@needs_compiler
def test_a_cuda_kernel_is_the_same_from_disk(folder):
    from longalign.backends.cuda import kernel_library
    from longalign.backends.cuda.kernels.traceback import SIGNATURE

    spec = kernel_library.trace_spec(False)

    def build() -> object:
        kernel_library.dispatcher.cache_clear()
        return kernel_library.compiled(spec, "cuda:0", nullcontext()).overloads[SIGNATURE]

    with device_without_driver():
        compiled = build()
        kept = files(folder)
        assert len(kept) == 1
        with (
            mock.patch("numba.cuda.dispatcher.compile_cuda", side_effect=AssertionError),
            mock.patch("numba.cuda.core.base.BaseContext.refresh", side_effect=AssertionError),
        ):
            loaded = build()
        assert loaded is not compiled
        assert loaded.library.get_cubin().code == compiled.library.get_cubin().code
        assert loaded.argument_types == compiled.argument_types
        assert loaded.entry_name == compiled.entry_name
        for path in kept:
            path.write_bytes(b"rubbish")
        assert build().library.get_cubin().code
    kernel_library.dispatcher.cache_clear()


@needs_compiler
def test_each_device_loads_machine_code_of_its_own(folder):
    from longalign.backends.cuda import kernel_library

    kernel_library.dispatcher.cache_clear()
    loaded = []
    for number in (0, 1, 1):
        with device_without_driver(number=number) as images:
            kernel_library.compiled(kernel_library.edge_spec(), f"cuda:{number}", nullcontext())
        loaded += images
    kernel_library.dispatcher.cache_clear()
    # Numbers and bytes, because pytest would look for a driver to print what is loaded.
    times, images, codes = len(loaded), len({*map(id, loaded)}), {image.code for image in loaded}
    assert (times, images, len(codes)) == (2, 2, 1)  # the second device has loaded it once
