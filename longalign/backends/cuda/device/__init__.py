"""Device functions: what runs on the GPU, from single instructions to the rows of a strip."""
