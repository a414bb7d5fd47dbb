// A program that reports to PostHog: everything it is told is in its environment.
const { PostHog } = require("posthog-node");

class PaymentError extends Error {
  constructor(message) {
    super(message);
    this.name = "PaymentError";
  }
}

function charge(card) {
  throw new PaymentError(`Card ${card} refused`);
}

async function main() {
  const client = new PostHog(process.env.POSTHOG_API_KEY, {
    host: process.env.POSTHOG_HOST,
    disableCompression: !process.env.PACKED,
  });
  client.on("error", (error) => {
    console.error(error);
    process.exitCode = 1;
  });
  try {
    charge(17);
  } catch (error) {
    client.captureException(error, "u1", { release: "shop@1.2.3" });
  }
  client.capture({ distinctId: "u1", event: "order placed", properties: { total: 12.5 } });
  const flags = await client.getAllFlags("u1");
  if (Object.keys(flags).length || (await client.isFeatureEnabled("new-checkout", "u1"))) {
    throw new Error("there are flags");
  }
  await client.shutdown(10000);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
