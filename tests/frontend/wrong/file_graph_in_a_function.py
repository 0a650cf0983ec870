# The graph stays inside a function.
# wrong file: graph-missing
import ebrl


def pipeline():
    return ebrl.Graph("pipeline")
