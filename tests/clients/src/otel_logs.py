# A program that logs with OpenTelemetry's SDK, set up by nothing but the usual variables of the environment.
import logging
import sys

from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource

provider = LoggerProvider(Resource.create())
provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
logger = logging.getLogger("shop")
logger.addHandler(LoggingHandler(logger_provider=provider))
logger.setLevel(logging.INFO)


class PaymentError(Exception):
    pass


def charge(number):
    raise PaymentError(f"Payment {number} failed")


def report(number):
    logger.info("order %d", number)
    try:
        charge(number)
    except PaymentError:
        logger.exception("charging failed")


for number in range(int(sys.argv[1])):
    report(number)
if not provider.force_flush(60_000):
    sys.exit("not flushed")
if len(sys.argv) > 2:
    print("flushed", flush=True)
    sys.stdin.readline()
    for number in range(int(sys.argv[1])):
        report(number)
    provider.force_flush(60_000)
provider.shutdown()
