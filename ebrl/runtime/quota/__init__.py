"""Who holds a stage to its share of a machine: one protocol, an enforcer for each mechanism."""
