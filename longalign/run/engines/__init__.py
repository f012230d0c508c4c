"""Engines: they run tile steps on threads, on any executor, or on a Dask cluster."""
