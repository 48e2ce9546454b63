"""What a session has beside its namespace, for its host to look at and to change."""

from cloister.ports.rows import SessionRow
from cloister.sessions.attachments import Attachments
from cloister.sessions.belongings import Belongings
from cloister.sessions.environments import check_directory
from cloister.sessions.files import Files
from cloister.sessions.keeper import Keeper
from cloister.sessions.secrets import SessionSecrets
from cloister.sessions.values import Values


class Furnished:
    """A part of `Session`."""

    _values: Values
    _files: Files
    _belongings: Belongings
    _keeper: Keeper | None

    def row(self, image: str | None) -> SessionRow:
        raise NotImplementedError

    def _check_open(self) -> None:
        raise NotImplementedError

    @property
    def values(self) -> Values:
        """What its programs `store` and `load`, for the host to read and to replace."""
        return self._values

    @property
    def files(self) -> Files:
        """What its programs read and write as files, for the host to use too."""
        return self._files

    @property
    def environments(self) -> tuple[str, ...]:
        """The workspaces of its host that it has, by their ids."""
        return tuple(self._belongings.environments.names)

    async def add_environment(self, environment_id: str) -> None:
        """Have a workspace of the host among its files, below `/environments`. Raises `InvalidInput` for an id that
        the host does not have."""
        self._check_open()
        if self._belongings.environments.add(environment_id, self._files) and self._keeper is not None:
            await self._keeper.session(self.row(self._keeper.image))

    async def base_in(self, environment_id: str, cwd: str = "/", *, must_exist: bool = True) -> str:
        """What `exec` takes as `cwd` for this directory of an environment that it has. Raises `InvalidInput`."""
        self._check_open()
        base = self._belongings.environments.base(environment_id, cwd)
        if must_exist:
            await check_directory(self._files, base, environment_id)
        return base

    @property
    def secrets(self) -> SessionSecrets:
        """The secrets that it keeps, beside those given in code: names and times, never values."""
        return self._belongings.secrets

    @property
    def attachments(self) -> Attachments:
        """The bytes that it refers to."""
        return self._belongings.attachments
