"""Work in threads: results in order, errors passed on, and no thread for a single call."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextvars import ContextVar

import pytest

from longalign.system.threads import (
    MAX_THREADS,
    WorkerThreads,
    calls_in_background,
    in_own_thread,
    in_threads,
    short_turns,
    streamed,
)


@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_results_come_in_the_order_of_the_arguments(count):
    def slowly(x, y):
        time.sleep(0.001 * (x % 3))
        return x - y

    assert in_threads(slowly, range(count), range(0, -count, -1)) == [2 * x for x in range(count)]


def test_a_single_call_is_made_by_the_calling_thread():
    assert in_threads(lambda _: threading.current_thread(), [0]) == [threading.current_thread()]
    assert threading.current_thread() not in in_threads(lambda _: threading.current_thread(), [0, 1])
    assert {*in_threads(lambda _: threading.current_thread(), [0, 1], max_threads=1)} == {
        threading.current_thread()
    }


@pytest.mark.parametrize("count", [1, 5])
def test_what_a_call_raises_is_raised(count):
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda x: 1 // (x - count + 1), range(count))


def test_calls_are_made_while_the_caller_does_something_else():
    done = threading.Event()
    with calls_in_background(lambda _: done.set(), [0]) as results:
        assert done.wait(10)
        assert results() == [None]


def test_calls_that_no_caller_waits_for_are_not_made():
    made = []

    def slowly(number):
        time.sleep(0.1)
        made.append(number)

    with pytest.raises(ZeroDivisionError), calls_in_background(slowly, range(16 * MAX_THREADS)):
        raise ZeroDivisionError
    assert len(made) < 16 * MAX_THREADS


@pytest.mark.parametrize("most", [1, 2, 1000])
def test_no_more_threads_are_at_work_than_there_may_be(most):
    names = set()

    def slowly(number):
        names.add(threading.current_thread().name)
        time.sleep(0.001)
        return -number

    with calls_in_background(slowly, range(50), max_threads=most) as results:
        assert results() == [-number for number in range(50)]
    assert 1 <= len(names) <= min(most, MAX_THREADS)


def test_nothing_to_do_is_done():
    with calls_in_background(len, []) as results:
        assert results() == []


def test_arguments_of_unequal_number_are_an_error():
    with pytest.raises(ValueError, match="shorter"):
        in_threads(lambda x, y: None, [1, 2], [1])


@pytest.mark.parametrize("count", [0, 1, 2, 200])
def test_streamed_results_come_in_the_order_of_the_arguments(count):
    def slowly(x):
        time.sleep(0.001 * (x % 3))
        return 2 * x

    with streamed(slowly, range(count)) as results:
        assert list(results) == [2 * x for x in range(count)]


def test_a_single_streamed_call_is_made_by_the_calling_thread():
    with streamed(lambda _: threading.current_thread(), [0]) as results:
        assert list(results) == [threading.current_thread()]


def test_what_a_streamed_call_raises_is_raised_in_its_turn():
    with streamed(lambda x: 1 // (3 - x), range(9)) as results:
        assert [next(results) for _ in range(3)] == [0, 0, 1]
        with pytest.raises(ZeroDivisionError):
            next(results)


def test_streamed_results_wait_for_the_caller_in_bounded_number():
    made = []
    with streamed(made.append, range(1000)) as results:
        next(results)
        time.sleep(0.05)
        assert len(made) <= 4 * MAX_THREADS + 1
        assert len([None, *results]) == 1000
    assert sorted(made) == list(range(1000))


def test_streamed_calls_that_no_caller_waits_for_are_not_made():
    made = []

    def slowly(number):
        time.sleep(0.01)
        made.append(number)

    with streamed(slowly, range(1000)) as results:
        next(results)
    done = len(made)
    assert done <= 4 * MAX_THREADS + 1
    time.sleep(0.05)
    assert len(made) == done


@pytest.fixture(params=[0, 1, 2])
def few_threads(monkeypatch, request):
    """The system refuses to start more threads than this, as at a limit on processes."""
    start, started = threading.Thread.start, []

    def limited(thread):
        if len(started) == request.param:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    return started


def test_each_call_is_made_once_where_there_are_few_threads(few_threads):
    made = []

    def slowly(number):
        time.sleep(0.001)
        made.append(number)
        return number + 1

    assert in_threads(slowly, range(50)) == [*range(1, 51)]
    few_threads.clear()
    with streamed(slowly, range(50, 100)) as results:
        assert [*results] == [*range(51, 101)]
    few_threads.clear()
    with calls_in_background(slowly, range(100, 150)) as results:
        assert results() == [*range(101, 151)]
    time.sleep(0.02)
    assert sorted(made) == [*range(150)]


def test_what_a_call_raises_is_its_future_s_where_there_are_few_threads(few_threads):
    with WorkerThreads(4) as threads:
        futures = [threads.submit(lambda x: 1 // x, x) for x in (0, 1)]
    assert isinstance(futures[0].exception(), ZeroDivisionError)
    assert futures[1].result() == 1


def test_an_interrupt_of_a_call_that_the_caller_makes_strikes_the_caller(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with WorkerThreads(4) as threads, pytest.raises(KeyboardInterrupt):
        threads.submit(interrupted)


def test_threads_that_have_been_shut_down_take_no_more_calls():
    with WorkerThreads(2) as threads:
        assert threads.submit(int).result() == 0
    with pytest.raises(RuntimeError, match="shut down"):
        threads.submit(int)


def test_queued_calls_are_cancelled_on_request():
    has_started, may_end = threading.Event(), threading.Event()

    def slowly():
        has_started.set()
        return may_end.wait(60)

    with WorkerThreads(1) as threads:
        first = threads.submit(slowly)
        assert has_started.wait(60)
        queued = [threads.submit(int) for _ in range(5)]
        threads.shutdown(wait=False, cancel_futures=True)
        may_end.set()
    assert first.result()
    assert all(future.cancelled() for future in queued)


def test_no_thread_is_started_while_one_has_nothing_to_do():
    names, deadline = set(), time.monotonic() + 60
    with WorkerThreads(8) as threads:
        for _ in range(20):
            names.add(threads.submit(lambda: threading.current_thread().name).result())
            while threads._unfinished and time.monotonic() < deadline:  # the thread may report late
                time.sleep(0.001)
    assert len(names) == 1


@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_interrupt_while_a_thread_starts_leaves_no_thread_running(monkeypatch, at):
    start, threads = threading.Thread.start, []

    def interrupted(thread):
        start(thread)
        threads.append(thread)
        if len(threads) == at:
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    calls = streamed(lambda _: time.sleep(0.01), range(50), threads=8)
    with pytest.raises(KeyboardInterrupt), calls as results:
        list(results)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def test_a_process_ends_though_its_threads_were_never_shut_down():
    code = "from longalign.system.threads import WorkerThreads; WorkerThreads(2).submit(print, 1).result()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=True)
    assert done.stdout == b"1\n"


# --- calls that are not interrupted


def test_a_call_in_a_thread_of_its_own_has_its_result():
    assert in_own_thread(threading.current_thread) is not threading.current_thread()
    with pytest.raises(ZeroDivisionError):
        in_own_thread(lambda: 1 // 0)


def test_a_thread_of_its_own_is_no_daemon():
    """So the interpreter waits for it at its end, also if a daemon started it, as a thread of a pool is."""
    with WorkerThreads(1) as threads:
        own = threads.submit(in_own_thread, threading.current_thread).result()
    assert not own.daemon


def test_a_pool_works_in_the_context_of_its_caller():
    variable = ContextVar("variable", default=0)
    variable.set(1)
    with WorkerThreads(1) as threads:
        assert threads.submit(variable.get).result() == 1
        variable.set(2)
        assert threads.submit(variable.get).result() == 2


def test_a_poll_that_raises_ends_the_wait_and_not_the_call():
    started, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def call() -> None:
        started.set()
        may_end.wait(60)
        ended.set()

    def poll() -> None:
        if started.is_set():
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        in_own_thread(call, poll)
    assert not ended.is_set()
    may_end.set()
    assert ended.wait(60)


def test_a_call_that_nobody_waits_for_is_not_begun():
    made = []

    def poll() -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        in_own_thread(lambda: made.append(1), poll)
    assert made == []


def test_without_another_thread_the_call_is_made_once_in_this_one(monkeypatch):
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    made = []
    in_own_thread(lambda: made.append(threading.current_thread()))
    assert made == [threading.current_thread()]


def test_short_turns_end_with_the_block():
    before = sys.getswitchinterval()
    with short_turns():
        assert sys.getswitchinterval() < before
    assert sys.getswitchinterval() == before
