"""The data contract: what a run gives, in memory and as files."""
