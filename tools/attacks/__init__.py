"""The attacks of `tools/campaign.py`: one module for each, loaded by name."""

from __future__ import annotations

from importlib import import_module

from attacks.base import Attack

#: In the order in which a campaign first runs them.
NAMES = ("exactness", "kills", "damage", "fuzz", "faults", "limits", "rivals", "cluster", "gpu", "gpu_memory")


def load(name: str) -> type[Attack]:
    """The class of the attack with this name. Raises ValueError for an unknown name."""
    if name not in NAMES:
        raise ValueError(f"no attack is called {name}: choose from {', '.join(NAMES)}")
    attack: type[Attack] = import_module(f"attacks.{name}").ATTACK
    return attack
