"""What a reader of a plan is told: the table, why, what else, what if, and why not."""
