// A program that reports each of nineteen errors to Sentry, PostHog and OpenTelemetry, each by its own SDK.
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const { SeverityNumber } = require("@opentelemetry/api-logs");
const { LoggerProvider, BatchLogRecordProcessor } = require("@opentelemetry/sdk-logs");
const { OTLPLogExporter } = require("@opentelemetry/exporter-logs-otlp-http");
const { PostHog } = require("posthog-node");
const sentry = require(path.join(process.env.NODE_PATH, "@sentry", "node-11"));

class PaymentError extends Error {
  constructor(message) {
    super(message);
    this.name = "PaymentError";
  }
}

class Unnamed extends Error {}

class Shop {
  constructor(name) {
    if (!name) throw new RangeError("A shop has a name");
  }

  static find() {
    throw new PaymentError("No such shop");
  }

  charge() {
    throw new PaymentError("Card 17 refused");
  }

  get total() {
    throw new PaymentError("The total is not known");
  }
}

function plain() {
  throw new Error("bad value");
}

function ofUndefined() {
  return undefined.card;
}

function outOfRange() {
  return (1).toFixed(200);
}

function notDefined() {
  return nothingOfTheKind;
}

function parsing() {
  return JSON.parse('{"shop": ');
}

function method() {
  new Shop("a").charge();
}

function ofAClass() {
  Shop.find();
}

function getter() {
  return new Shop("a").total;
}

function constructing() {
  return new Shop();
}

function unnamed() {
  throw new Unnamed("no name of its own");
}

function caused() {
  try {
    plain();
  } catch (error) {
    throw new PaymentError("charging failed", { cause: error });
  }
}

function withCause() {
  try {
    plain();
  } catch (error) {
    throw new Error("the shop is missing", { cause: error });
  }
}

function several() {
  throw new AggregateError([new Error("one"), new TypeError("two")], "several things");
}

async function later() {
  await new Promise((resolve) => setImmediate(resolve));
  throw new PaymentError("Card 18 refused later");
}

function anonymous() {
  return [1].map((number) => {
    throw new Error(`in a callback of order ${number}`);
  });
}

function inALibrary() {
  return fs.readFileSync("/nothing/of/the/kind");
}

function assertion() {
  assert.strictEqual(1, 2);
}

function severalLines() {
  throw new Error("the first line 🎉\n\n    at: é\n  the last line 'quoted' 4711");
}

function veryLong() {
  throw new Error("word ".repeat(6000));
}

const raising = [
  plain, ofUndefined, outOfRange, notDefined, parsing, method, ofAClass, getter, constructing, unnamed, withCause,
  caused, several, later, anonymous, inALibrary, assertion, severalLines, veryLong,
];

async function main() {
  sentry.init({ dsn: process.env.SENTRY_DSN });
  const posthog = new PostHog(process.env.POSTHOG_API_KEY, { host: process.env.POSTHOG_HOST });
  const provider = new LoggerProvider({
    processors: [new BatchLogRecordProcessor({ exporter: new OTLPLogExporter() })],
  });
  const logger = provider.getLogger("shop");
  for (const one of raising) {
    const which = one.name;
    try {
      await one();
    } catch (error) {
      sentry.withScope((scope) => {
        scope.setTag("which", which);
        sentry.captureException(error);
      });
      posthog.captureException(error, "u1", { which });
      logger.emit({
        severityNumber: SeverityNumber.ERROR,
        body: "failed",
        attributes: {
          which,
          "exception.type": error.name,
          "exception.message": error.message,
          "exception.stacktrace": error.stack,
        },
      });
    }
  }
  await sentry.close(10000);
  await posthog.shutdown(10000);
  await provider.forceFlush();
  await provider.shutdown();
  console.log(raising.map((one) => one.name).join(" "));
}

main();
