"""What a session has beside its namespace, for its host to look at and to change."""

from cloister.sessions.attachments import Attachments
from cloister.sessions.belongings import Belongings
from cloister.sessions.files import Files
from cloister.sessions.secrets import SessionSecrets
from cloister.sessions.values import Values


class Furnished:
    """A part of `Session`."""

    _values: Values
    _files: Files
    _belongings: Belongings

    @property
    def values(self) -> Values:
        """What its programs `store` and `load`, for the host to read and to replace."""
        return self._values

    @property
    def files(self) -> Files:
        """What its programs read and write as files, for the host to use too."""
        return self._files

    @property
    def secrets(self) -> SessionSecrets:
        """The secrets that it keeps, beside those given in code: names and times, never values."""
        return self._belongings.secrets

    @property
    def attachments(self) -> Attachments:
        """The bytes that it refers to."""
        return self._belongings.attachments
