"""Defaults that study files and beliefs share: reading a file loads no belief."""

SPARSE_INDUCING, SPARSE_BATCH, SPARSE_RATE, SPARSE_STEPS = 1000, 2500, 0.1, 1
"""The paper's parameters of its variational approximation (appendix B.3)."""

STREAMING_INDUCING = 500
"""How many arms a streaming belief keeps."""
