// The same in JavaScript; OTEL_EXPORTER_OTLP_PROTOCOL says which exporter.
const { logs, SeverityNumber } = require("@opentelemetry/api-logs");
const { LoggerProvider, BatchLogRecordProcessor } = require("@opentelemetry/sdk-logs");
const { resourceFromAttributes } = require("@opentelemetry/resources");
const kind = process.env.OTEL_EXPORTER_OTLP_PROTOCOL === "http/json" ? "http" : "proto";
const { OTLPLogExporter } = require(`@opentelemetry/exporter-logs-otlp-${kind}`);

const resource = resourceFromAttributes({
  "service.name": "shop", "service.version": "1.2.3", "deployment.environment.name": "staging",
});
const exporter = new OTLPLogExporter();
const provider = new LoggerProvider({
  resource,
  processors: [new BatchLogRecordProcessor({ exporter })],
});
const logger = provider.getLogger("shop");

class PaymentError extends Error {
  constructor(message) {
    super(message);
    this.name = "PaymentError";
  }
}

function charge(number) {
  throw new PaymentError(`Payment ${number} failed`);
}

function report(number) {
  logger.emit({ severityNumber: SeverityNumber.INFO, body: `order ${number}` });
  try {
    charge(number);
  } catch (error) {
    logger.emit({
      severityNumber: SeverityNumber.ERROR,
      severityText: "ERROR",
      body: "charging failed",
      attributes: {
        "exception.type": error.name,
        "exception.message": error.message,
        "exception.stacktrace": error.stack,
      },
    });
  }
}

async function main() {
  for (let number = 0; number < Number(process.argv[2]); number++) report(number);
  await provider.forceFlush();
  if (process.argv[3]) {
    console.log("flushed");
    await require("node:events").once(process.stdin, "data");
    for (let number = 0; number < Number(process.argv[2]); number++) report(number);
    await provider.forceFlush();
    process.stdin.destroy();
  }
  await provider.shutdown();
}

main();
