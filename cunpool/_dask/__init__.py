"""The parts of `cunpool.dask`."""
