# Every number is wrong, and every one is told.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=0)  # wrong: environments-invalid
act = graph.generate(Linear(chunk=-1))  # wrong: chunk-invalid
ppo = graph.train(Learn(horizon=0, batch=1.5), max_staleness=-1)  # wrong: learner-setting-invalid, learner-setting-invalid, staleness-invalid

sim.obs >> act.obs
act.action >> sim.action
graph.connect(sim.transition, ppo.transition, capacity=0, reuse=0)  # wrong: edge-option-invalid, edge-option-invalid
act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
