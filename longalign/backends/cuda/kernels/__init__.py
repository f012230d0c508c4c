"""The four kernels: the sweep, start states, the traceback, and filling edges."""
