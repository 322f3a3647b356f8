"""Stored results beside the papers': rows, averages and claims."""
