"""What a run tells while it lasts."""

from __future__ import annotations

from longalign.events import CompileFinished, CompileStarted, Event, Notice
from longalign.run.outcome import Recorder


def compile_twice(events: list[Event]) -> list[str]:
    recorder = Recorder(events.append)
    for event in (CompileStarted("cpu"), CompileFinished("cpu", 1.5)) * 2:
        recorder(event)
    assert recorder.compile_seconds == 3
    return [event.text for event in events if isinstance(event, Notice)]


def test_a_cache_that_cannot_be_written_is_mentioned_once(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    assert compile_twice([]) == [
        f"{file}/longalign cannot be written: every run compiles its kernels again; set XDG_CACHE_HOME"
    ]


def test_a_cache_that_can_be_written_is_not(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compile_twice([]) == []
