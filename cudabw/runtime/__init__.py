"""The objects a CUDA programmer knows: devices, streams, pointers, memory and who owns it."""
