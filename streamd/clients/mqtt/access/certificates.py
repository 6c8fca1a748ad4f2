"""The name of a user in a TLS certificate."""

from collections.abc import Mapping


def username_of_certificate(certificate: Mapping[str, object] | None) -> str | None:
    """Return the common name (CN) of a certificate's subject, None when it has none that can be a user's name.

    certificate: what `ssl.SSLSocket.getpeercert()` returns: its "subject" is a tuple of relative distinguished names,
    each a tuple of (name, value); empty when the certificate was not checked, None when the client sent none.
    The first CN counts, as in mosquitto. A CN that is empty or has a control character names nobody: a NUL in a name
    once made "ann" of "ann\\0.example.com".
    """
    subject = (certificate or {}).get("subject", ())
    assert isinstance(subject, tuple)
    for relative_name in subject:
        for name, value in relative_name:
            if name == "commonName":
                return value if value and value.isprintable() else None
    return None
