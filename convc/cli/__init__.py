"""The command line: arguments in, verbs called, reports out."""
