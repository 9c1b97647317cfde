"""An issuer of tokens: it describes itself and shows its keys over HTTP on this machine, and signs
what it is asked to, right or wrong. Orders come on standard input, one JSON object a line; each is
answered by one on standard output.

    {"do": "sign", "key": "a", "claims": {...}, "head": {...}, "algorithm": "RS256"}
    {"do": "forge", "how": "none" | "hs256", "claims": {...}}
    {"do": "show", "keys": ["a", "b"]}
    {"do": "count"}
    {"do": "away"} and {"do": "back"}
    {"do": "keys", "are": "plain" | "huge" | "slow"}

With a directory as second argument it speaks TLS: `ca.pem` there is the authority of its certificate,
which is for the name or address of the third argument.
"""

import base64
import datetime
import hashlib
import hmac
import ipaddress
import json
import pathlib
import ssl
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

KINDS = {
    "rsa": (lambda: rsa.generate_private_key(65537, 2048), RSAAlgorithm, "RS256"),
    "weak": (lambda: rsa.generate_private_key(65537, 1024), RSAAlgorithm, "RS256"),
    "p256": (lambda: ec.generate_private_key(ec.SECP256R1()), ECAlgorithm, "ES256"),
    "p384": (lambda: ec.generate_private_key(ec.SECP384R1()), ECAlgorithm, "ES384"),
    "ed25519": (ed25519.Ed25519PrivateKey.generate, OKPAlgorithm, "EdDSA"),
}


class Issuer:
    def __init__(self, kinds):
        self.keys = {}
        for name, kind in kinds.items():
            make, encoding, algorithm = KINDS[kind]
            self.keys[name] = (make(), encoding, algorithm)
        self.shown = list(self.keys)
        self.count = 0
        self.url = None
        self.tls = None
        self.keys_are = "plain"

    def jwk(self, name):
        key, encoding, _ = self.keys[name]
        shown = encoding.to_jwk(key.public_key(), as_dict=True)
        return {**shown, "kid": name, "use": "sig"}

    def sign(self, key, claims, head=None, algorithm=None):
        private, _, usual = self.keys[key]
        head = {"kid": key, "typ": "at+jwt", **(head or {})}
        head = {name: value for name, value in head.items() if value is not None}
        return jwt.encode(claims, private, algorithm=algorithm or usual, headers=head)

    def forge(self, how, claims, key="a"):
        if how == "none":
            return jwt.encode(claims, None, algorithm="none", headers={"kid": key})
        # By hand: a careful library does not take a public key for a secret.
        public = self.keys[key][0].public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        parts = [{"alg": "HS256", "typ": "JWT", "kid": key}, claims]
        signed = b".".join(encode(json.dumps(part).encode()) for part in parts)
        signature = hmac.new(public, signed, hashlib.sha256).digest()
        return (signed + b"." + encode(signature)).decode()


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def certify(directory, host):
    """A certificate for a host, by an authority of its own."""

    def issue(name, key, authority, signer, extensions):
        today = datetime.datetime.now(datetime.timezone.utc)
        named = lambda text: x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(named(name))
            .issuer_name(named(authority))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(today - datetime.timedelta(days=1))
            .not_valid_after(today + datetime.timedelta(days=1))
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    try:
        shown = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        shown = x509.DNSName(host)
    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    is_authority = x509.BasicConstraints(ca=True, path_length=None)
    root = issue("authority", authority, "authority", authority, [is_authority])
    names = x509.SubjectAlternativeName([shown])
    certificate = issue("issuer", own, "authority", authority, [names])
    key = own.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    directory = pathlib.Path(directory)
    (directory / "ca.pem").write_bytes(root)
    (directory / "issuer.pem").write_bytes(key + certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "issuer.pem")
    return context


def serve(issuer, port=0):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/.well-known/openid-configuration":
                body = {"issuer": issuer.url, "jwks_uri": issuer.url + "/keys"}
            elif self.path == "/keys":
                issuer.count += 1
                body = {"keys": [issuer.jwk(name) for name in issuer.shown]}
                if issuer.keys_are == "huge":
                    body["padding"] = "x" * (8 << 20)
                elif issuer.keys_are == "slow":
                    time.sleep(60)
            else:
                self.send_error(404)
                return
            data = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    if issuer.tls:
        server.socket = issuer.tls.wrap_socket(server.socket, server_side=True)
    scheme = "https" if issuer.tls else "http"
    issuer.url = f"{scheme}://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main():
    issuer = Issuer(json.loads(sys.argv[1]))
    if len(sys.argv) > 2:
        issuer.tls = certify(*sys.argv[2:4])
    server = serve(issuer)
    print(json.dumps({"url": issuer.url}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        what = order.pop("do")
        if what == "sign":
            answer = {"token": issuer.sign(**order)}
        elif what == "forge":
            answer = {"token": issuer.forge(**order)}
        elif what == "show":
            issuer.shown = order["keys"]
            answer = {}
        elif what == "count":
            answer = {"count": issuer.count}
        elif what == "keys":
            issuer.keys_are = order["are"]
            answer = {}
        elif what == "away":
            server.shutdown()
            server.server_close()
            answer = {}
        else:
            server = serve(issuer, int(issuer.url.rsplit(":", 1)[1]))
            answer = {}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
