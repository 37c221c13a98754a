// Verifies one request with the official npm library of its signature format. The argument is the folder of the
// packages. Reads an object of format, secret, headers and body from stdin. Prints whether the library accepts the
// request, and whether it accepts the same request with a changed body.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const packages = process.argv[2];
const require = createRequire(join(packages, "index.js"));

const libraries = {
  async github(secret, headers, body) {
    const file = join(packages, "@octokit/webhooks-methods/dist-node/index.js");
    const { verify } = await import(pathToFileURL(file));
    return verify(secret, body, headers["x-hub-signature-256"]);
  },
  async stripe(secret, headers, body) {
    const stripe = require("stripe")("sk_test_unused");
    return accepts(() => stripe.webhooks.signature.verifyHeader(body, headers["stripe-signature"], secret, 300));
  },
  async standard(secret, headers, body) {
    const { Webhook } = require("standardwebhooks");
    return accepts(() => new Webhook(secret).verify(body, headers));
  },
};

function accepts(verify) {
  try {
    verify();
    return true;
  } catch (error) {
    if (/signature/i.test(error.message)) return false;
    throw error;
  }
}

const { format, secret, headers, body } = JSON.parse(readFileSync(0, "utf8"));
const genuine = await libraries[format](secret, headers, body);
const changed = await libraries[format](secret, headers, body + " ");
console.log(JSON.stringify({ genuine, changed }));
