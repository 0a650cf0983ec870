"""A run that looks at itself: stage times as they are, drift told from noise, another plan."""
