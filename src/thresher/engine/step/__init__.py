"""One training step: forward passes, the only backward, the optimizer and the moving average."""
