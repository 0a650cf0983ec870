# Three stages and no edge.
import ebrl
from toy import Learn, Linear, Reach

graph = ebrl.Graph("wrong")
sim = graph.simulate(Reach(), envs=8)  # wrong: input-unconnected
act = graph.generate(Linear())  # wrong: input-unconnected, input-unconnected
ppo = graph.train(Learn())  # wrong: input-unconnected, input-unconnected
