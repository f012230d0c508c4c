"""How many examples a property gets, relative to the hypothesis profile in `tests/conftest.py`."""

from __future__ import annotations

from hypothesis import settings


def share_of_examples(share: float) -> settings:
    """A share of the profile's examples: below 1 if each takes long, above 1 if only some tell anything."""
    return settings(max_examples=max(1, round(settings().max_examples * share)))
