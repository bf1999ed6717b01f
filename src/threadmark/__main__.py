"""``python -m threadmark``: the command line."""

from __future__ import annotations

from threadmark.cli import main

if __name__ == "__main__":
    main()
