"""The machine and the process: memory limits, threads, byte sizes, the garbage collector; exact numbers."""
