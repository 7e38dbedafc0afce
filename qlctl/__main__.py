"""`python -m qlctl` is the `qlctl` command."""

from qlctl.main import main

if __name__ == "__main__":
    raise SystemExit(main())
