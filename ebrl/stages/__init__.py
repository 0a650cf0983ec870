"""Ready-made stages. Importing a declaration costs nothing; torch and simulators load in workers."""

from ebrl.stages.base import Learner, Policy, Simulator

__all__ = ["Learner", "Policy", "Simulator"]
