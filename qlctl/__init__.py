"""qlctl: the command line of questlined. Imports the standard library and questlined.wire, and those only as needed."""
