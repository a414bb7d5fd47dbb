// @hey-api/openapi-ts writes types and a function for each operation.
import { createClient, createConfig } from "./generated/hey/client";
import {
  authorizeDevice,
  createCredential,
  createProject,
  listCases,
  pollDevice,
  readCase,
  recordLog,
  startDevice,
} from "./generated/hey";
import { baseUrl, check, internalToken, must, subject } from "./given";

function clientOf(secret?: string) {
  return createClient(createConfig(secret === undefined ? { baseUrl } : { baseUrl, auth: secret }));
}

async function main(): Promise<void> {
  const anyone = clientOf();
  const started = must(await startDevice({ client: anyone, body: { client_name: "hey-api" } }), "start");
  const identity = { provider: "example", subject, email: `${subject}@example.com` };
  const stood = { user_code: started.user_code, identity };
  must(await authorizeDevice({ client: clientOf(internalToken), body: stood }), "authorize");
  const signedIn = must(await pollDevice({ client: anyone, body: { device_code: started.device_code } }), "poll");
  const owner = clientOf(signedIn.api_key);

  const creation = { client: owner, headers: { "Idempotency-Key": `${subject}-project` }, body: { name: "Shop" } };
  const project = must(await createProject(creation), "project");
  const replay = await createProject(creation);
  check(must(replay, "replay").id === project.id, "a replay names the project that was made");
  check(replay.response?.headers.get("idempotent-replayed") === "true", "a replay says so");
  if (project.dsn === null) throw new Error("a new project has its DSN");

  const record = { message: "Order 4711 failed", level: "error" as const, tags: { shop: "1" } };
  const accepted = must(await recordLog({ client: clientOf(project.dsn), body: record }), "log");
  if (!("ok" in accepted)) throw new Error("a record by itself is answered as one");
  const ok: true = accepted.ok;
  check(ok, "an accepted record says ok");

  const path = { project_id: project.id };
  const cases = must(await listCases({ client: owner, path, query: { limit: 10 } }), "cases");
  const [first] = cases.cases;
  check(first?.id === accepted.case_id, "the record's case is listed");
  const found = must(await readCase({ client: owner, path: { case_id: first?.id ?? "" } }), "case");
  check(found.title === "Order 4711 failed" && found.environments.length >= 0, "the case is read");

  const wish = {
    client: owner,
    path,
    headers: { "Idempotency-Key": `${subject}-ci` },
    body: { kind: "ci_deploy" as const, name: "CI" },
  };
  const credential = must(await createCredential(wish), "credential");
  check(credential.scopes.includes("deploys:write"), "a CI credential writes deploys");
  const again = await createCredential(wish);
  check(again.error?.error.code === "credential_already_created", "a secret is shown once");
}

main().catch((error: unknown) => {
  console.error(error);
  throw error;
});
