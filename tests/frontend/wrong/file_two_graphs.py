# Two graphs, and neither is called graph.
# wrong file: graph-several
import ebrl

teacher = ebrl.Graph("teacher")
student = ebrl.Graph("student")
