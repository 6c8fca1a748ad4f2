"""The gate before an encrypted connection: a client that needs a certificate and has none gets an error line."""

import asyncio
from collections.abc import Callable
from typing import Final, cast

from streamd.base.log import log

NO_CERTIFICATE: Final = (
    b"-DENIED a client certificate is required at this port (tls-auth-clients yes): give one, with its key\r\n"
)


class Gate(asyncio.Protocol):
    """Looks at a connection whose handshake is done, and hands it on.

    The handshake itself asks for a certificate and refuses an untrusted one, but lets in clients without a certificate:
    asyncio closes a connection whose handshake fails without telling the other side why.
    """

    def __init__(self, serve: Callable[[], asyncio.Protocol], needs_certificate: bool) -> None:
        self._serve = serve
        self._needs_certificate = needs_certificate

    def connection_made(self, given: asyncio.BaseTransport) -> None:
        """Hand the connection on, or end it."""
        transport = cast(asyncio.Transport, given)  # as which not all loops declare theirs
        if self._needs_certificate and not transport.get_extra_info("peercert"):
            log.warning("client-uncertified", "TLS: %s shows no certificate", transport.get_extra_info("peername"))
            transport.write(NO_CERTIFICATE)
            transport.close()
            return
        protocol = self._serve()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
