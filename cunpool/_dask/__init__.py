"""What `cunpool.dask` is made of."""
