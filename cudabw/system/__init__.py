"""What this machine is: its link, its memory, and the environment that a figure was measured in."""
