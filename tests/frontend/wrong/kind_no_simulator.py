# Nothing simulates.
import ebrl
from toy import Learn, Linear

graph = ebrl.Graph("wrong")  # wrong: kind-missing
act = graph.generate(Linear())  # wrong: input-unconnected
ppo = graph.train(Learn())  # wrong: input-unconnected

act.behaviour >> ppo.behaviour
ppo.weights >> act.weights
