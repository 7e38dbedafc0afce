"""`python -m questlined` is the `questlined` command."""

from questlined.main import main

if __name__ == "__main__":
    raise SystemExit(main())
