"""The commands of the command line, one file each; what a command needs is imported when it is called."""
