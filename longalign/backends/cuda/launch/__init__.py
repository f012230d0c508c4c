"""The host's side of a launch: work lists, device memory, uploads and downloads, waiting."""
