"""The only place that knows ``cuda.bindings``: drivers, real and emulated, and checked calls into them."""
