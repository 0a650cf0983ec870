"""Running a plan without its hardware: the real processes, slab, admission, weights and
supervision, with each stage's body replaced by a wait of the profiled length.

Invariant: nothing of the runtime knows whether a stage is emulated but the worker that builds it.
"""
