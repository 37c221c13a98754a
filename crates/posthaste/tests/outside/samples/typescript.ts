// Reads requests from stdin, one per line, and prints whether a sample in docs/samples/typescript accepts each
// request. The argument "library" selects the sample that uses the package standardwebhooks.
import { readFileSync } from "node:fs";
import * as library from "./library.js";
import { verify } from "./verify.js";

for (const line of readFileSync(0, "utf8").split("\n").slice(0, -1)) {
  const [secret, id, timestamp, signatures, encoded] = line.split("\t");
  const body = Buffer.from(encoded, "base64");
  const headers = { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signatures };
  const accepted =
    process.argv[2] === "library"
      ? library.verify(secret, headers, body)
      : verify(secret, id, timestamp, signatures, body);
  console.log(accepted);
}
