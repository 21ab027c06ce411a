"""`python -m plinth.cli` is the `plinth` command."""

from plinth.cli import main

if __name__ == "__main__":
    main()
