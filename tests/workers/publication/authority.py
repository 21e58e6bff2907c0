"""A time stamping authority of the test's own: `openssl ts` with a root that is made here."""

import subprocess
from datetime import UTC, datetime, timedelta

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

URL = "http://tsa.test/tsr"
REPLY = {"Content-Type": "application/timestamp-reply"}

CONFIGURATION = """
[tsa]
default_tsa = here
[here]
serial = {folder}/serial
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
"""


def _certificate(name, key, issuer, issuer_key, *extensions):
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=365))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=True)
    return builder.sign(issuer_key, hashes.SHA256())


def _named(name):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, signs_certificates):
    flags = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"), False
    )
    flags |= {"encipher_only": False, "decipher_only": False}
    flags |= {"digital_signature": not signs_certificates}
    return x509.KeyUsage(**flags, key_cert_sign=signs_certificates, crl_sign=signs_certificates)


def reply_of(content):
    """The answer of an authority as it comes over the wire."""
    return httpx.Response(200, headers=REPLY, stream=httpx.ByteStream(content))


class Authority:
    """Answers requests for stamps, below a folder."""

    def __init__(self, folder):
        folder.mkdir()
        self._folder = folder
        root_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        is_authority = x509.BasicConstraints(ca=True, path_length=1)
        root = _certificate(
            "root", root_key, "root", root_key, is_authority, _usage(signs_certificates=True)
        )
        leaf = _certificate(
            "tsa",
            key,
            "root",
            root_key,
            x509.BasicConstraints(ca=False, path_length=None),
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]),
            _usage(signs_certificates=False),
        )
        self.pem = root.public_bytes(serialization.Encoding.PEM)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        files = {
            "root.pem": self.pem,
            "tsa.pem": leaf.public_bytes(serialization.Encoding.PEM),
            "tsa.key": private,
            "serial": b"01\n",
            "tsa.cnf": CONFIGURATION.format(folder=folder).encode(),
        }
        for name, content in files.items():
            (folder / name).write_bytes(content)

    def answer(self, request):
        """Return what `openssl ts` answers to a request."""
        query, reply = self._folder / "query", self._folder / "reply"
        query.write_bytes(request)
        self._openssl("-reply", "-config", "tsa.cnf", "-queryfile", "query", "-out", "reply")
        return reply.read_bytes()

    def verifies(self, stamp, text):
        """Tell whether `openssl ts` takes a stamp for one of a text."""
        for name, content in (("stamp", stamp), ("text", text)):
            (self._folder / name).write_bytes(content)
        said = self._openssl(
            "-verify", "-in", "stamp", "-data", "text", "-CAfile", "root.pem", check=False
        )
        return said.returncode == 0

    def transport(self):
        def handle(request):
            assert request.headers["content-type"] == "application/timestamp-query"
            return reply_of(self.answer(request.read()))

        return httpx.MockTransport(handle)

    def _openssl(self, *arguments, check=True):
        return subprocess.run(
            ["/usr/bin/openssl", "ts", *arguments],
            cwd=self._folder,
            check=check,
            capture_output=True,
        )
