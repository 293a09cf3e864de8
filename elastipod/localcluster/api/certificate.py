"""The certificate of the local API server, made anew for each.

Owns the key and what the certificate says. The key is never on a disk: it ends with the process.
"""

import datetime
import ipaddress
import os
import ssl
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_HOSTS: Final = (
    x509.DNSName("localhost"),
    x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
    x509.IPAddress(ipaddress.ip_address("::1")),
)
_SINCE: Final = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
# RFC 5280, 4.1.2.5: no end that is known. It ends with the process.
_UNTIL: Final = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)


class ServingCertificate(NamedTuple):
    """What clients must trust, as PEM, and the TLS that proves it."""

    pem: str
    tls: ssl.SSLContext


def serving_certificate() -> ServingCertificate:
    """A new key, and a certificate for this machine's loopback that signs nothing but itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "elastipod local cluster")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), _SINCE, _UNTIL)
        .add_extension(x509.SubjectAlternativeName(_HOSTS), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    shown = certificate.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return ServingCertificate(shown.decode(), _tls(shown + secret))


def _tls(chain: bytes) -> ssl.SSLContext:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    # OpenSSL takes a chain only from a file; an anonymous one in memory leaves no key on disk.
    handle = os.memfd_create("serving-certificate", os.MFD_CLOEXEC)
    try:
        os.write(handle, chain)
        tls.load_cert_chain(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)
    return tls
