// Has the package that is named judge signed requests: a JSON array of them on stdin, one of verdicts on stdout.
const { readFileSync } = require("node:fs");
const { Webhook, WebhookVerificationError } = require(process.argv[2]);

function accepts({ secret, headers, body }) {
  try {
    new Webhook(secret).verify(body, headers);
    return true;
  } catch (error) {
    if (error instanceof WebhookVerificationError) return false;
    throw error;
  }
}

console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(accepts)));
