"""TLS from the options: the server's certificate, and the clients that it accepts."""

import os
import ssl
from typing import Final

from streamd.configuration.option import ConfigError
from streamd.configuration.server_options import Config

# The options that a context is made of.
TLS_OPTIONS: Final = (
    "tls-cert-file",
    "tls-key-file",
    "tls-key-file-pass",
    "tls-ca-cert-file",
    "tls-ca-cert-dir",
    "tls-auth-clients",
    "tls-protocols",
)

# Who says nothing for so long has no handshake; and who does not say good-bye is not waited for.
HANDSHAKE_S: Final = 10.0
SHUTDOWN_S: Final = 2.0


def make_context(config: Config) -> ssl.SSLContext:
    """Return the TLS context of the options; see gate for `tls-auth-clients yes`.

    Raises: ConfigError, which names the option and the fault.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = config.text("tls-protocols").split() or ["TLSv1.2", "TLSv1.3"]
    context.minimum_version = getattr(ssl.TLSVersion, min(versions).replace(".", "_"))
    context.maximum_version = getattr(ssl.TLSVersion, max(versions).replace(".", "_"))
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    cert, key = _file(config, "tls-cert-file"), _file(config, "tls-key-file")
    try:
        # (A password that is empty, so that nobody is asked at a terminal.)
        context.load_cert_chain(cert, key, config.text("tls-key-file-pass"))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"tls-cert-file and tls-key-file are no pair of certificate and key: {_reason(error)}")
    verify = config.text("tls-auth-clients")
    if verify != "no":
        ca, directory = config.text("tls-ca-cert-file"), config.text("tls-ca-cert-dir")
        if not ca and not directory:
            raise ConfigError(
                "give tls-ca-cert-file, which says whose clients are let in, or tls-auth-clients no, which lets in all"
            )
        try:
            context.load_verify_locations(_file(config, "tls-ca-cert-file") if ca else None, directory or None)
        except (ssl.SSLError, OSError) as error:
            raise ConfigError(f"tls-ca-cert-file {ca}: {_reason(error)}")
        context.verify_mode = ssl.CERT_OPTIONAL  # who must have one and has none comes to the gate, and no further
    return context


def make_link_context(config: Config) -> ssl.SSLContext | None:
    """Return the TLS context of a replica's link to its primary, None without `tls-replication`.

    The certificate of the primary must be of the CA; its name is not looked at, as in Redis. Raises: ConfigError.
    """
    if not config["tls-replication"]:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    ca, directory = config.text("tls-ca-cert-file"), config.text("tls-ca-cert-dir")
    if not ca and not directory:
        raise ConfigError("tls-replication needs tls-ca-cert-file, which says whose certificate the primary may have")
    cert, key = _file(config, "tls-cert-file"), _file(config, "tls-key-file")
    try:
        context.load_verify_locations(_file(config, "tls-ca-cert-file") if ca else None, directory or None)
        context.load_cert_chain(cert, key, config.text("tls-key-file-pass"))
    except (ssl.SSLError, OSError, ValueError) as error:
        raise ConfigError(f"the files of tls-replication cannot be used: {_reason(error)}")
    return context


def _file(config: Config, option: str) -> str:
    path = config.text(option)
    if not path:
        raise ConfigError(f"{option} is missing: a tls-port needs tls-cert-file and tls-key-file")
    try:
        os.close(os.open(path, os.O_RDONLY))
    except OSError as error:
        raise ConfigError(f"{option} {path}: {error.strerror}; give a file that the server can read")
    return path


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
