"""Explains failures of TLS, with advice."""

import socket
import ssl

from spark_source.settings.connection_options import ConnectionOptions

PROBE_S = 2.0
FINAL = ("CERTIFICATE", "WRONG_VERSION_NUMBER", "PEM lib", "KEY_VALUES_MISMATCH", "BAD_DECRYPT", "HANDSHAKE_FAILURE")
"""What OpenSSL says of trouble that does not go away by waiting."""

# What streamd says to a client that shows none.
_NO_CERTIFICATE = "a client certificate is required"


def is_final(text: str) -> bool:
    """Return whether an error's text tells of a TLS failure that a retry will not mend."""
    return ("SSL" in text and any(word in text for word in FINAL)) or _NO_CERTIFICATE in text


def trouble(text: str, options: ConnectionOptions) -> str | None:
    """Return the explanation if TLS is the reason for a broken connection, else None.

    May connect to the server again, for some seconds: a plain port meets TLS with silence, and the alert of a server
    that closes at once is not always read.
    """
    where = options.endpoint
    if options.ssl:
        if "CERTIFICATE_VERIFY_FAILED" in text and "mismatch" in text:
            name = f"the certificate of {where} is for another name"
            return f"{name} ({_reason(text)}): use that one, or set sslCheckHostname=false"
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return f"the certificate of {where} is not trusted ({_reason(text)}): give the CA's in sslCa"
        if any(word in text for word in ("PEM lib", "KEY_VALUES_MISMATCH", "BAD_DECRYPT")):
            return f"sslCert and sslKey cannot be used ({text}): give a pair in PEM form, or correct sslKeyPassword"
        if "WRONG_VERSION_NUMBER" in text or _speaks_plain(options):
            return f"there is no TLS at {where}: use redis:// there (without ssl options), or give its port for TLS"
        is_told = "CERTIFICATE_REQUIRED" in text or _NO_CERTIFICATE in text
        if is_told or (options.ssl_cert is None and _wants_certificate(options)):
            return f"{where} wants a client certificate: give sslCert and sslKey"
    elif _speaks_tls(options):
        return f"{where} speaks only TLS: use rediss:// or set ssl=true"
    return None


def _reason(text: str) -> str:
    return text.partition("certificate verify failed: ")[2].partition(" (_ssl")[0].rstrip(".") or text


def _speaks_plain(options: ConnectionOptions) -> bool:
    """Return whether the first node answers a PING in the clear."""
    try:
        with socket.create_connection(options.nodes[0], PROBE_S) as plain:
            plain.settimeout(PROBE_S)
            plain.sendall(b"PING\r\n")
            return plain.recv(1) in (b"+", b"-")
    except OSError:
        return False


def _speaks_tls(options: ConnectionOptions) -> bool:
    """Return whether the first node begins TLS."""
    try:
        with _handshake(options):
            return True
    except ssl.SSLError as error:
        return "ALERT" in str(error)  # only who speaks TLS can refuse in it
    except OSError:
        return False


def _wants_certificate(options: ConnectionOptions) -> bool:
    """Return whether the first node refuses clients without a certificate."""
    try:
        with _handshake(options) as connection:
            # From TLS 1.3 on it is refused after the handshake only; by streamd in words.
            return _NO_CERTIFICATE.encode() in connection.recv(1024)
    except ssl.SSLError as error:
        return any(word in str(error) for word in ("CERTIFICATE_REQUIRED", "HANDSHAKE_FAILURE"))
    except OSError:
        return False


def _handshake(options: ConnectionOptions) -> ssl.SSLSocket:
    """Return a connection without any check of the server: nothing is sent over it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    plain = socket.create_connection(options.nodes[0], PROBE_S)
    try:
        return context.wrap_socket(plain, server_hostname=options.host)
    except BaseException:
        plain.close()
        raise
