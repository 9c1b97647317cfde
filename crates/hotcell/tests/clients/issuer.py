"""An issuer of tokens: it describes itself and shows its keys over HTTP on this machine, and signs
what it is asked to, right or wrong. Orders come on standard input, one JSON object a line; each is
answered by one on standard output.

    {"do": "sign", "key": "a", "claims": {...}, "head": {...}, "algorithm": "RS256"}
    {"do": "forge", "how": "none" | "hs256", "claims": {...}}
    {"do": "show", "keys": ["a", "b"]}
    {"do": "count"}
    {"do": "away"} and {"do": "back"}
"""

import base64
import hashlib
import hmac
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
from cryptography.hazmat.primitives import serialization
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


def serve(issuer, port=0):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path == "/.well-known/openid-configuration":
                body = {"issuer": issuer.url, "jwks_uri": issuer.url + "/keys"}
            elif self.path == "/keys":
                issuer.count += 1
                body = {"keys": [issuer.jwk(name) for name in issuer.shown]}
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
    issuer.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main():
    issuer = Issuer(json.loads(sys.argv[1]))
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
