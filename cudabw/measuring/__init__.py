"""How a number is taken: timing, sampling, verification."""
