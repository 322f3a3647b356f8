"""Pages, pictures and terminal tables made from stored results."""
