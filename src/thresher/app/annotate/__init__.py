"""People who label: tasks for them, their answers, and the folder that remembers both."""
