# The class is named, no graph is made.
# wrong file: graph-missing
import ebrl

graph = ebrl.Graph
