"""The TLS context of the listeners, from files of certificates and keys."""

import os
import ssl
from pathlib import Path

from streamd.clients.mqtt.listening.faults import ListenFault
from streamd.clients.mqtt.listening.options import Listeners


def make_context(options: Listeners) -> ssl.SSLContext:
    """Return a context with the certificates that the files have now; TLS 1.2 and newer.

    Raises: ListenFault, which names the option, the file and the fault.
    """
    assert options.tls_cert is not None
    assert options.tls_key is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    _load_pair(context, options.tls_cert, options.tls_key)
    if options.tls_ca is not None:
        _check_readable("--tls-ca", options.tls_ca)
        try:
            context.load_verify_locations(options.tls_ca)
        except (ssl.SSLError, OSError) as error:
            raise ListenFault(f"--tls-ca {options.tls_ca}: no certificate in PEM form ({_reason(error)})")
        context.verify_mode = ssl.CERT_REQUIRED if options.tls_user_from_certificate else ssl.CERT_OPTIONAL
    return context


def _load_pair(context: ssl.SSLContext, cert: Path, key: Path) -> None:
    _check_readable("--tls-cert", cert)
    _check_readable("--tls-key", key)
    asked = False

    def passphrase() -> str:  # without it OpenSSL asks at the terminal
        nonlocal asked
        asked = True
        return ""

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cert)
    except (ssl.SSLError, OSError) as error:
        raise ListenFault(f"--tls-cert {cert}: no certificate in PEM form ({_reason(error)})")
    try:
        context.load_cert_chain(cert, key, passphrase)
    except (ssl.SSLError, OSError, ValueError) as error:
        reason = _reason(error)
        if asked:
            raise ListenFault(
                f"--tls-key {key}: the key is encrypted; give one without a passphrase (openssl pkey -in KEY -out NEW)"
            )
        if "MISMATCH" in reason:
            raise ListenFault(
                f"--tls-key {key}: not the key of the certificate {cert}; give the two that belong together"
            )
        raise ListenFault(f"--tls-cert {cert}, --tls-key {key}: no pair of certificate and key in PEM form ({reason})")


def _check_readable(option: str, path: Path) -> None:
    try:
        with path.open("rb") as file:
            os.read(file.fileno(), 1)
    except OSError as error:
        raise ListenFault(f"{option} {path}: {error.strerror}; give a file that this process can read")


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
