"""The `optimise` command: a module a command, imported when it is called."""
