"""The garbage collector pauses during a compilation, and then works as before."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from longalign.system.gc_pause import collector_at_rest


@pytest.fixture(params=[True, False], ids=["at work", "at rest"])
def before(request) -> Iterator[bool]:
    """Whether the collector was enabled when the block was entered."""
    found = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if found else gc.disable)()


def test_it_rests_inside_and_is_afterwards_what_it_was(before):
    with collector_at_rest():
        assert not gc.isenabled()
    assert gc.isenabled() == before


def test_an_error_does_not_leave_it_at_rest(before):
    with pytest.raises(ZeroDivisionError), collector_at_rest():
        1 / 0  # noqa: B018
    assert gc.isenabled() == before


def test_blocks_may_be_nested(before):
    with collector_at_rest():
        with collector_at_rest():
            pass
        assert not gc.isenabled()
    assert gc.isenabled() == before


def test_what_was_made_meanwhile_is_old_afterwards():
    with collector_at_rest():
        made: list[int] = []
        assert any(each is made for each in gc.get_objects(generation=0))
    assert any(each is made for each in gc.get_objects(generation=2))
    assert gc.get_freeze_count() == 0


def test_what_a_program_froze_stays_frozen():
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with collector_at_rest():
            pass
        assert gc.get_freeze_count() == frozen
    finally:
        gc.unfreeze()
