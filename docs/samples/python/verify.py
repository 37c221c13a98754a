# Verifies the signature of a webhook with Python's standard library.
import base64
import hashlib
import hmac
import time


def verify(secret: str, webhook_id: str, timestamp: str, signatures: str, body: bytes) -> bool:
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        age = int(time.time()) - int(timestamp)
    except ValueError:  # the secret is not base64, or the timestamp is not a number
        return False
    if len(key) < 24 or abs(age) > 300:
        return False
    mac = hmac.digest(key, f"{webhook_id}.{timestamp}.".encode() + body, hashlib.sha256)
    expected = b"v1," + base64.b64encode(mac)
    return any(hmac.compare_digest(expected, given.encode()) for given in signatures.split(" "))
