"""The commands of the bench: run, show, list, sensitivity."""
