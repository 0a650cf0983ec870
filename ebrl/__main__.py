"""`python -m ebrl`: the `ebrl` command without its script."""

from ebrl.cli.main import main

main()
