"""`python -m cloister.cli`: the command line where no `cloister` script is on the path."""

from cloister.cli.main import main

raise SystemExit(main())
