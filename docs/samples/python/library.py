# Verifies the signature of a webhook with the package standardwebhooks.
from standardwebhooks import Webhook, WebhookVerificationError


def verify(secret: str, headers: dict[str, str], body: bytes) -> bool:
    try:
        Webhook(secret).verify(body, headers)
        return True
    except WebhookVerificationError:
        return False
