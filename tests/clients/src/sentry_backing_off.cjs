// The same in JavaScript.
const sentry = require(process.argv[2]);
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

const told = () => new Promise((done) => process.stdin.once("data", done));

async function main() {
  sentry.init({ release: "shop@1.2.3" });
  await told();
  sentry.captureMessage("first", "error");
  await sentry.flush(5000);
  sentry.captureMessage("second", "error");
  await sentry.flush(5000);
  console.log("refused");
  await told();
  await pause(1500);
  sentry.captureMessage("third", "error");
  await sentry.flush(5000);
  process.emit("beforeExit"); // when the SDK tells what it has dropped
  await sentry.close(5000);
  process.exit(0);
}

main();
