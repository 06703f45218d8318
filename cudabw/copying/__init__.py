"""The engines that move bytes."""
