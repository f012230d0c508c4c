"""The store: boundaries, start states and alignment pieces of one run, in memory or on disk."""

from longalign.store.base import Piece, Store, TileRecord
from longalign.store.directory import DirectoryStore
from longalign.store.manifest import Manifest
from longalign.store.memory import MemoryStore

__all__ = ["DirectoryStore", "Manifest", "MemoryStore", "Piece", "Store", "TileRecord"]
