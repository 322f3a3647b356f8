"""Builds the site in docs/: runs the code of its pages, and makes tables and pictures from stored results."""
