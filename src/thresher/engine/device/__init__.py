"""How a step runs on a device: in which precision, compiled, captured as a CUDA graph."""
