"""Stored results beside the papers' numbers: rows, averages and claims."""
