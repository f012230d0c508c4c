"""How many examples a property gets, relative to the hypothesis profile in `tests/conftest.py`."""

from __future__ import annotations

from hypothesis import settings


def share_of_examples(share: float) -> settings:
    """A share of the profile's examples, for a property of which each example takes long."""
    return settings(max_examples=max(1, round(settings().max_examples * share)))
