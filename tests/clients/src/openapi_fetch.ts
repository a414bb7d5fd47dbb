// openapi-typescript writes the types, openapi-fetch sends by them.
import createClient from "openapi-fetch";

import type { paths } from "./generated/schema";
import { baseUrl, check, internalToken, must, subject } from "./given";

function clientOf(secret?: string) {
  return createClient<paths>({ baseUrl, headers: secret === undefined ? {} : { authorization: `Bearer ${secret}` } });
}

async function main(): Promise<void> {
  const anyone = clientOf();
  const started = must(await anyone.POST("/v1/auth/device", { body: { client_name: "openapi-fetch" } }), "start");
  const identity = { provider: "example", subject, email: `${subject}@example.com` };
  must(
    await clientOf(internalToken).POST("/v1/auth/device/authorize", { body: { user_code: started.user_code, identity } }),
    "authorize",
  );
  const signedIn = must(
    await anyone.POST("/v1/auth/device/poll", { body: { device_code: started.device_code } }),
    "poll",
  );
  const owner = clientOf(signedIn.api_key);

  const creation = { params: { header: { "Idempotency-Key": `${subject}-project` } }, body: { name: "Shop" } };
  const project = must(await owner.POST("/v1/projects", creation), "project");
  const replay = await owner.POST("/v1/projects", creation);
  check(must(replay, "replay").id === project.id, "a replay names the project that was made");
  check(replay.response.headers.get("idempotent-replayed") === "true", "a replay says so");
  if (project.dsn === null) throw new Error("a new project has its DSN");

  const accepted = must(
    await clientOf(project.dsn).POST("/v1/logs/", {
      body: { message: "Order 4711 failed", level: "error", tags: { shop: "1" } },
    }),
    "log",
  );
  if (typeof accepted === "string" || !("ok" in accepted)) throw new Error("a record by itself is answered as one");
  const ok: true = accepted.ok;
  check(ok, "an accepted record says ok");

  const path = { project_id: project.id };
  const cases = must(
    await owner.GET("/v1/projects/{project_id}/cases", { params: { path, query: { limit: 10 } } }),
    "cases",
  );
  const [first] = cases.cases;
  check(first?.id === accepted.case_id, "the record's case is listed");
  const found = must(
    await owner.GET("/v1/cases/{case_id}", { params: { path: { case_id: first?.id ?? "" } } }),
    "case",
  );
  check(found.title === "Order 4711 failed" && found.environments.length >= 0, "the case is read");

  const wish = {
    params: { path, header: { "Idempotency-Key": `${subject}-ci` } },
    body: { kind: "ci_deploy" as const, name: "CI" },
  };
  const credential = must(await owner.POST("/v1/projects/{project_id}/credentials", wish), "credential");
  check(credential.scopes.includes("deploys:write"), "a CI credential writes deploys");
  const again = await owner.POST("/v1/projects/{project_id}/credentials", wish);
  check(again.error?.error.code === "credential_already_created", "a secret is shown once");
}

main().catch((error: unknown) => {
  console.error(error);
  throw error;
});
