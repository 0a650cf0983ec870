# A graph without stages.
import ebrl

graph = ebrl.Graph("wrong")  # wrong: kind-missing
