"""Ready-made stages. Declaring one costs nothing; torch and simulators load in workers."""

from ebrl.stages.algorithms import GRPO, PPO
from ebrl.stages.base import Learner, Policy, Simulator
from ebrl.stages.networks import CNNPolicy, MLPPolicy
from ebrl.stages.simulators import Gymnasium, ManiSkill

__all__ = [
    "GRPO",
    "PPO",
    "CNNPolicy",
    "Gymnasium",
    "Learner",
    "MLPPolicy",
    "ManiSkill",
    "Policy",
    "Simulator",
]
