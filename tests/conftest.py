"""Settings that must be made before anything numerical is imported."""

import os

# The tests' tables are small. Threads that share a small batch and wait for each other slow
# a busy machine down many times, and the suite never measures time.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
