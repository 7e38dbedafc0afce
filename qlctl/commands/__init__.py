"""The verbs, one module a verb or tight family. Each module has COMMANDS: verb → Command."""
