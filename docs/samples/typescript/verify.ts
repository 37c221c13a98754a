// Verifies the signature of a webhook with the modules of Node.js.
import { createHmac, timingSafeEqual } from "node:crypto";

export function verify(secret: string, id: string, timestamp: string, signatures: string, body: Buffer): boolean {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const ageSeconds = Math.abs(Date.now() / 1000 - Number(timestamp));
  if (key.length < 24 || !(ageSeconds <= 300)) return false; // NaN is not at most 300 either
  const mac = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest("base64");
  const expected = Buffer.from(`v1,${mac}`);
  return signatures.split(" ").some((entry) => {
    const given = Buffer.from(entry);
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}
