"""Checkpoints, and what makes a run this run and no other."""
