"""Results as tables and progress, from the results alone."""
