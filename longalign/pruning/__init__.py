"""What a run needs to know before a sweep in order to leave out cells that no optimal path can meet."""
