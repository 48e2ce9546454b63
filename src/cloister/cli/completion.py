"""`cloister completion`: the script that has a shell complete commands and options."""

from typing import Annotated, Literal

from cyclopts import Parameter

from cloister.cli.exits import OK

Shell = Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Which shell.")]


def completion(shell: Shell, /) -> int:
    from cloister.cli.main import every_command

    print(every_command().generate_completion(prog_name="cloister", shell=shell))
    return OK
