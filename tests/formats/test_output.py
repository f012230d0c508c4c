"""Output files: whole under their name, or absent."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from longalign.errors import InputError
from longalign.formats.output import check_output, open_output


def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "x.paf"
    with open_output(path) as file:
        file.write("one\n")
        assert not path.exists()
        assert len(list(tmp_path.iterdir())) == 1
    assert path.read_bytes() == b"one\n"
    assert list(tmp_path.iterdir()) == [path]


def fail_while_writing(path: str | Path, cause: BaseException) -> None:
    with open_output(path) as file:
        file.write("new\n")
        raise cause


@pytest.mark.parametrize("cause", [ValueError(), KeyboardInterrupt(), OSError(errno.ENOENT, "elsewhere")])
def test_a_failure_leaves_what_was_there(tmp_path: Path, cause: BaseException) -> None:
    path = tmp_path / "x.paf"
    path.write_text("old\n")
    with pytest.raises(type(cause)):
        fail_while_writing(path, cause)
    assert path.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.paf"
    with pytest.raises(InputError) as caught:
        fail_while_writing(path, OSError(errno.ENOSPC, "No space left on device"))
    assert str(caught.value) == f"{path}: cannot be written: no space left on device"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [errno.EROFS, errno.ESTALE])
def test_a_file_system_that_can_no_longer_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Not even to remove what was begun."""
    path, error = tmp_path / "x.paf", OSError(number, os.strerror(number))

    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(InputError) as caught:
        fail_while_writing(path, error)
    assert str(caught.value) == f"{path}: cannot be written: {os.strerror(number).lower()}"


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EPERM, errno.EXDEV])
def test_a_file_that_cannot_be_replaced_gets_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Such as one that a container mounts, or another user's in a directory with the sticky bit."""
    path = tmp_path / "x.paf"
    path.write_text("old, and longer\n")

    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "replace", refuse)
    with open_output(path) as file:
        file.write("new\n")
    assert path.read_text() == "new\n"
    assert list(tmp_path.iterdir()) == [path]


def test_text_that_gets_no_place_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.paf"

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "replace", refuse)
    monkeypatch.setattr("shutil.copyfile", refuse)
    with pytest.raises(InputError) as caught, open_output(path) as file:
        file.write("new\n")
    (left,) = tmp_path.iterdir()
    assert left.read_text() == "new\n"
    assert str(caught.value) == (
        f"{path}: cannot be written: operation not permitted; the complete output is {left}"
    )


def test_permissions_and_links_stay(tmp_path: Path) -> None:
    path, link = tmp_path / "x.paf", tmp_path / "link.paf"
    path.write_text("old\n")
    path.chmod(0o640)
    link.symlink_to(path)
    with open_output(link) as file:
        file.write("new\n")
    assert link.is_symlink()
    assert path.read_text() == "new\n"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_obeys_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with open_output(tmp_path / "x.paf"):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "x.paf").stat().st_mode & 0o777 == 0o640


def test_devices_and_stdout_are_written_directly(capsys: pytest.CaptureFixture[str]) -> None:
    with open_output("/dev/null") as file:
        file.write("gone\n")
    with open_output("-") as file:
        file.write("here\n")
    assert capsys.readouterr().out == "here\n"


def test_a_pipe_that_may_not_be_written_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    check_output(pipe)
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as it is for all users but root
    with pytest.raises(InputError, match="pipe: cannot be written: permission denied"):
        check_output(pipe)


def test_no_temporary_file_is_left_where_permissions_cannot_be_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.paf"
    path.write_text("old\n")

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("shutil.copymode", refuse)
    with pytest.raises(InputError, match=r"x\.paf: cannot be written: operation not permitted"):
        check_output(path)
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}", "/proc/thread-self/fd/{}", "link"])
def test_a_descriptor_is_written_where_the_next_text_goes(tmp_path: Path, name: str) -> None:
    """As a shell has it that runs several commands with one output, such as /dev/stdout."""
    file = tmp_path / "all.paf"
    shared = os.open(file, os.O_WRONLY | os.O_CREAT)
    link = tmp_path / "link"
    link.symlink_to(f"/dev/fd/{shared}")
    path = link if name == "link" else name.format(shared)
    for line in (b"first\n", b"last\n"):
        os.write(shared, line)
        check_output(path)
        with open_output(path) as output:
            output.write(f"after {line.decode()}")
    os.close(shared)
    assert file.read_text() == "first\nafter first\nlast\nafter last\n"
    assert {*tmp_path.iterdir()} == {file, link}


def test_a_pipe_behind_a_descriptor_is_written(tmp_path: Path) -> None:
    read, write = os.pipe()
    with open_output(f"/dev/fd/{write}") as output:
        output.write("x\n")
    os.close(write)
    assert os.read(read, 10) == b"x\n"
    for path, why in [
        (f"/dev/fd/{read}", "it is open for reading only"),
        (f"/dev/fd/{write}", "bad file descriptor"),
    ]:
        with pytest.raises(InputError) as caught:
            check_output(path)
        assert str(caught.value) == f"{path}: cannot be written: {why}"
    os.close(read)


def test_stdout_takes_every_text_and_stays_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    content = BytesIO()
    stdout = TextIOWrapper(content, encoding="latin-1", errors="replace")
    monkeypatch.setattr("sys.stdout", stdout)
    stdout.write("\u00e9")
    with open_output("-") as file:
        file.write("\u00e9\u03b1\udcff\n")
    stdout.write("\u00e9\u03b1")
    stdout.flush()
    assert content.getvalue() == b"\xe9" + "\u00e9\u03b1\\udcff\n".encode() + b"\xe9?"


def test_pending_text_for_a_full_stdout_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = Path("/dev/full").open("w")  # noqa: SIM115
    monkeypatch.setattr("sys.stdout", stdout)
    stdout.write("pending")
    with pytest.raises(InputError, match=r"^stdout: cannot be written: no space left on device$"):
        fail_while_writing("-", ValueError())
    with suppress(OSError):
        stdout.close()


def test_a_full_device_is_one_line() -> None:
    def write() -> None:
        with open_output("/dev/full") as file:
            file.write("x")

    with pytest.raises(InputError, match=r"^/dev/full: cannot be written: no space left on device$"):
        write()


def test_names_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    existing = tmp_path / "x.paf"
    existing.write_text("old\n")
    for path, why in [
        (tmp_path, "is a directory"),
        ("/", "is a directory"),
        (tmp_path / "none" / "x.paf", "no such file or directory"),
        (existing / "x.paf", "not a directory"),
        (tmp_path / ("x" * 300), "file name too long"),
        ("/dev/fd/01", "no such file or directory"),
        ("/dev/fd/\u0661", "no such file or directory"),
        ("/dev/fd/99999999999999999999", "no such file or directory"),
    ]:
        with pytest.raises(InputError) as caught, open_output(path):
            pytest.fail("opened")
        assert str(caught.value) == f"{path}: cannot be written: {why}"
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write every file
    with pytest.raises(InputError, match="cannot be written: permission denied"), open_output(existing):
        pytest.fail("opened")
