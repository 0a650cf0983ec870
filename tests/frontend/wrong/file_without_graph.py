# A file that declares no graph.
# wrong file: graph-missing
hidden = (64, 64)
