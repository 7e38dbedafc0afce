"""Why a database is not used at all."""

from __future__ import annotations

from questlined.wire.errors import Unavailable


class RefusedDatabase(Unavailable):
    """The file must not be used as it is; nothing was changed. Another start meets the same: the exit status is that of
    a wrong configuration, after which systemd tries no more."""

    exit_status = 78


class NewerSchema(RefusedDatabase):
    """The file was written by a later version."""
