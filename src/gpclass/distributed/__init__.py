"""Training and prediction on Dask clusters: `gpclass[dask]`."""
