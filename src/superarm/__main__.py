"""``python -m superarm``: the command line where its script is not on the path."""

from superarm.cli import main

if __name__ == "__main__":
    main()
