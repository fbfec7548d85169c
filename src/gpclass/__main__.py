"""`python -m gpclass` is the command line."""

from .cli import main

main()
