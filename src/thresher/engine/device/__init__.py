"""How a step runs on a device: captured as a CUDA graph, compiled, on several streams."""
