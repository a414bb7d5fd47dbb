// A program that reports to Sentry: everything it is told is in its environment.
const sentry = require(process.argv[2]);

class PaymentError extends Error {
  constructor(message) {
    super(message);
    this.name = "PaymentError";
  }
}

function charge(card) {
  throw new PaymentError(`Card ${card} refused`);
}

sentry.init({ environment: "staging", release: "shop@1.2.3" });
// The SDK packs what is large, and nothing else.
if (process.env.PACKED) {
  sentry.setExtra("cart", "x".repeat(40000));
}
try {
  charge(17);
} catch (error) {
  sentry.captureException(error);
}
sentry.captureMessage("An order was placed", "info");
sentry.close(5000).then((flushed) => process.exit(flushed ? 0 : 1));
