"""The engine: one training step, the loop around it, sweeps and checkpoints."""
