"""Epochs: what is decided before one, the order of its batches, and what is kept of it."""
