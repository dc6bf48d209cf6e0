"""`python -m millpond` is the `millpond` command."""

from millpond.cli import main

main()
