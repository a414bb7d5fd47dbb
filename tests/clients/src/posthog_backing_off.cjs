// The same in JavaScript.
const { PostHog } = require("posthog-node");

const client = new PostHog(process.env.POSTHOG_API_KEY, { host: process.env.POSTHOG_HOST });
client.capture({ distinctId: "u1", event: "order placed" });
client.capture({ distinctId: "u1", event: "order paid" });
client.shutdown(30000);
