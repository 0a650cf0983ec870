# A helper forgot to return the stage that it declared.
import ebrl
from toy import Learn, Linear, Reach


def declare_policy(graph):
    graph.generate(Linear())  # wrong: input-unconnected, input-unconnected


graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)  # wrong: input-unconnected
act = declare_policy(graph)
ppo = graph.train(Learn())  # wrong: input-unconnected

sim.obs >> act  # wrong: port-not-a-port
sim.transition >> ppo.transition
