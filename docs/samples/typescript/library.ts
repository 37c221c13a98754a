// Verifies the signature of a webhook with the package standardwebhooks.
import { Webhook } from "standardwebhooks";

export function verify(secret: string, headers: Record<string, string>, body: Buffer): boolean {
  try {
    new Webhook(secret).verify(body, headers);
    return true;
  } catch {
    return false;
  }
}
