"""Stage times of this machine, measured with the real loops: quick (calibration) and thorough."""
