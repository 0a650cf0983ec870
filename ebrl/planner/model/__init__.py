"""What may be chosen, and the best of it: options, patterns, the integer program, its bound."""
