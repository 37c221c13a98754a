"""Verifies one request with the official library of its signature format.

Reads an object of format, secret, headers and body from stdin. Prints whether the library accepts the request, and
whether it accepts the same request with a changed body.
"""

import base64
import json
import sys

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def standard(secret, headers, body):
    import standardwebhooks

    try:
        standardwebhooks.Webhook(secret).verify(body, headers)
        return True
    except standardwebhooks.WebhookVerificationError:
        return False


def svix(secret, headers, body):
    from svix.webhooks import Webhook, WebhookVerificationError

    # The library also accepts the headers of Standard Webhooks.
    ours = {name: value for name, value in headers.items() if name.startswith("svix-")}
    try:
        Webhook(secret).verify(body, ours)
        return True
    except WebhookVerificationError:
        return False


def stripe(secret, headers, body):
    import stripe

    try:
        return stripe.WebhookSignature.verify_header(body, headers["stripe-signature"], secret, 300)
    except stripe.SignatureVerificationError:
        return False


def slack(secret, headers, body):
    from slack_sdk.signature import SignatureVerifier

    return SignatureVerifier(secret).is_valid_request(body, headers)


def ed25519(public_key, headers, body):
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key.removeprefix("whpk_")))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    for entry in headers["webhook-signature"].split(" "):
        version, signature = entry.split(",", 1)
        try:
            if version == "v1a":
                key.verify(base64.b64decode(signature), signed)
                return True
        except InvalidSignature:
            pass
    return False


request = json.load(sys.stdin)
verify = {"standard": standard, "svix": svix, "stripe": stripe, "slack": slack, "ed25519": ed25519}[request["format"]]
secret, headers, body = request["secret"], request["headers"], request["body"].encode()
genuine, changed = verify(secret, headers, body), verify(secret, headers, body + b" ")
print(json.dumps({"genuine": genuine, "changed": changed}))
