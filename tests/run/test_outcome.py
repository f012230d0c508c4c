"""What a run tells while it lasts."""

from __future__ import annotations

from longalign.events import CompileFinished, CompileStarted, Event, Notice, PhaseFinished
from longalign.model.boundary import State, Waypoint
from longalign.run.outcome import Outcome, Recorder


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


def test_a_recorder_inside_of_another_does_not_mention_it_again(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    events: list[Event] = []
    outer = Recorder(events.append)
    for _ in range(2):
        Recorder(outer)(CompileStarted("cpu"))
    assert sum(isinstance(event, Notice) for event in events) == 1


def test_a_cache_that_can_be_written_is_not(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compile_twice([]) == []


def outcome_of(*phases: PhaseFinished, compiling: float = 0.0) -> Outcome:
    return Outcome(None, Waypoint(0, 0, State.H, 0), None, phases, {}, compiling)


def test_the_seconds_of_further_alignments_count():
    first = outcome_of(PhaseFinished("score", 100, 1.0), PhaseFinished("stitch", 10, 0.5), compiling=2.0)
    further = outcome_of(PhaseFinished("score", 20, 0.25), PhaseFinished("stitch", 5, 0.5), compiling=1.0)
    all_three = first.followed_by((further, further))
    assert all_three.phases == (PhaseFinished("score", 140, 1.5), PhaseFinished("stitch", 20, 1.5))
    assert all_three.compile_seconds == 4.0
    assert all_three.further == (further, further)
    assert first.followed_by(()).phases == first.phases
