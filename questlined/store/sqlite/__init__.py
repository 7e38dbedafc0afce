"""The store on one SQLite file, and the only importer of sqlite3."""
