"""What is refused, and tried, before anything is trained."""
