// Onboarding and a whole self-healing run, with the types of openapi-typescript and openapi-fetch.
import createClient from "openapi-fetch";

import type { components, paths } from "./generated/schema";
import { advance, baseUrl, check, internalToken, must, subject } from "./given";
import story from "./story.json";

type Schemas = components["schemas"];
const SUBJECT = `${subject}-repair`;
const [FINAL, MERGED] = ["d".repeat(40), "e".repeat(40)];
const PULL = { number: 7, url: "https://code.example/acme/shop/pull/7", head_sha: story.change.head_sha };

function clientOf(secret?: string, headers: Record<string, string> = {}) {
  const sent = secret === undefined ? headers : { ...headers, authorization: `Bearer ${secret}` };
  return createClient<paths>({ baseUrl, headers: sent });
}
type Caller = ReturnType<typeof clientOf>;

const keyed = (key: string) => ({ "Idempotency-Key": key });

async function signIn(): Promise<Caller> {
  const anyone = clientOf();
  const started = must(await anyone.POST("/v1/auth/device", { body: {} }), "start");
  const identity = { provider: "example", subject: SUBJECT, email: `${SUBJECT}@example.com` };
  const stood = { user_code: started.user_code, identity };
  must(await clientOf(internalToken).POST("/v1/auth/device/authorize", { body: stood }), "authorize");
  const body = { device_code: started.device_code };
  return clientOf(must(await anyone.POST("/v1/auth/device/poll", { body }), "poll").api_key);
}

async function mint(owner: Caller, project_id: string, wish: Schemas["CreateCredential"]): Promise<string> {
  const params = { path: { project_id }, header: keyed(`${SUBJECT}-${wish.kind}`) };
  return must(await owner.POST("/v1/projects/{project_id}/credentials", { params, body: wish }), "mint").credential;
}

async function report(product: Caller, properties: Record<string, unknown>): Promise<void> {
  const body = { event: "paid", distinct_id: "u1", properties };
  must(await product.POST("/v1/analytics/", { body }), "event");
}

async function onboard(owner: Caller, product: Caller, ci: string, project_id: string): Promise<void> {
  const path = { project_id };
  const plan = story.plan as Schemas["Plan"];
  const planned = must(
    await owner.POST("/v1/projects/{project_id}/onboarding", { params: { path }, body: { intent: "start", plan } }),
    "plan",
  );
  const approved = must(
    await owner.POST("/v1/projects/{project_id}/onboarding/review", {
      params: { path, header: { "If-Match": planned.etag } },
      body: { decision: "approve", plan_sha256: planned.plan_sha256 },
    }),
    "review",
  );
  const begun = must(
    await owner.POST("/v1/projects/{project_id}/onboarding/proof", {
      params: { path, header: { "If-Match": approved.etag } },
      body: { implementation_source_snapshot: { ...plan.source_snapshot, git_head_sha: FINAL } },
    }),
    "proof",
  );
  const { runtime, ci: inCi } = begun.one_time_markers;
  const marker = { [runtime.property_name]: runtime.value };
  await report(product, { amount: 12, ...marker });
  const tags = { failure_marker: "declined", step: "payment", ...marker };
  must(await product.POST("/v1/logs/", { body: { message: "Declined.", level: "error", tags } }), "failure");
  const deploy = { version: "1.0.0", environment: "production", sha: FINAL };
  const marked = clientOf(ci, { [inCi.header_name]: inCi.value });
  check(must(await marked.POST("/v1/deploys/", { body: deploy }), "deploy").onboarding_proof_matched, "it is proven");
  const header = { "If-Match": begun.state.etag };
  const verdict = must(
    await owner.POST("/v1/projects/{project_id}/onboarding/verify", { params: { path, header } }),
    "verify",
  );
  check(verdict.ok && verdict.state.status === "verified", "the onboarding is verified");
}

async function enable(owner: Caller, project_id: string): Promise<Caller> {
  const path = { project_id };
  const bindings = story.bindings as Schemas["ErrorToDraftPrBindings"];
  const wish = { version: "4.0.0" as const, bindings, readiness_assertions: story.assertions };
  const candidate = must(
    await owner.POST("/v1/projects/{project_id}/automation-playbooks/{id}/render", {
      params: { path: { ...path, id: "error-to-draft-pr" } },
      body: wish,
    }),
    "render",
  );
  const saved = must(
    await owner.PUT("/v1/projects/{project_id}/automation-contract", {
      params: { path },
      body: candidate.contract_input,
    }),
    "save",
  );
  const runner = await mint(owner, project_id, { kind: "automation_runner", name: "runner", automation_id: "heal" });
  const enabled = must(
    await owner.POST("/v1/projects/{project_id}/automation-contract/enable", {
      params: { path, header: { "If-Match": saved.etag, ...keyed("on") } },
      body: {},
    }),
    "enable",
  );
  check(enabled.contract.enabled, "the contract is enabled");
  return clientOf(runner);
}

async function claim(runner: Caller, project_id: string, case_id: string): Promise<string> {
  const params = { path: { project_id }, header: keyed("issue") };
  const issued = must(
    await runner.POST("/v1/projects/{project_id}/automation-triggers/issue", {
      params,
      body: { automation_id: "heal" },
    }),
    "issue",
  );
  const receipt = issued.trigger_receipts.find((one) => one.case?.case_id === case_id);
  if (!receipt?.case) throw new Error("the case has a receipt");
  const trigger_receipt_id = receipt.receipt_id;
  must(
    await runner.POST("/v1/cases/{case_id}/claims", {
      params: { path: { case_id }, header: keyed("claim") },
      body: { trigger_receipt_id, case_revision: receipt.case.case_revision },
    }),
    "claim",
  );
  must(await runner.GET("/v1/cases/{case_id}", { params: { path: { case_id } } }), "case");
  const start = { params: { path: { project_id }, header: keyed("start") }, body: { trigger_receipt_id } };
  return must(await runner.POST("/v1/projects/{project_id}/automation-runs", start), "start").run_id;
}

async function fenceOf(runner: Caller, run_id: string) {
  const run = must(await runner.GET("/v1/automation-runs/{run_id}", { params: { path: { run_id } } }), "run");
  return { state_revision: run.state_revision, lease_epoch: run.lease_epoch };
}

async function deliver(owner: Caller, runner: Caller, run_id: string): Promise<void> {
  const at = (key: string) => ({ path: { run_id }, header: keyed(key) });
  const fence = () => fenceOf(runner, run_id);
  const usage = { ...(await fence()), turns: 3, cost_usd: 0.05, runtime_seconds: 30 };
  must(await runner.POST("/v1/automation-runs/{run_id}/usage", { params: at("usage"), body: usage }), "usage");
  const question = { ...(await fence()), action: "draft_pr" as const, summary: "May I?" };
  const asked = must(
    await runner.POST("/v1/automation-runs/{run_id}/approvals", { params: at("ask"), body: question }),
    "ask",
  );
  const path = { approval_id: asked.approval_id };
  must(
    await owner.POST("/v1/automation-approvals/{approval_id}/decide", {
      params: { path, header: keyed("decide") },
      body: { decision: "approve" },
    }),
    "decide",
  );
  const change = { ...(await fence()), ...(story.change as Omit<Schemas["AuthorizeDraftPr"], keyof Fence>) };
  const grant = must(
    await runner.POST("/v1/automation-runs/{run_id}/actions/draft-pr/authorize", {
      params: at("authorize"),
      body: change,
    }),
    "authorize",
  );
  const consumed = must(
    await runner.POST("/v1/automation-runs/{run_id}/actions/draft-pr/consume", {
      params: at("consume"),
      body: { ...(await fence()), grant_id: grant.grant_id },
    }),
    "consume",
  );
  check(consumed.call_authorized, "the first consume may call the code host");
  const opened = { ...(await fence()), status: "draft_pr_opened" as const, pull_request: PULL };
  must(await runner.PATCH("/v1/automation-runs/{run_id}", { params: at("opened"), body: opened }), "opened");
}
type Fence = { state_revision: number; lease_epoch: number };

async function prove(ci: Caller, run_id: string): Promise<void> {
  const { repository, base_branch, head_branch, head_sha } = story.change;
  const seen = { repository, base_branch, head_branch, head_sha, pr_number: 7, pr_url: PULL.url, draft: true };
  const proofs = [{ observation: "pr_opened" as const }, { observation: "merged" as const, merge_commit_sha: MERGED }];
  for (const more of proofs) {
    const params = { path: { run_id }, header: keyed(more.observation) };
    const body = { ...seen, bypass_used: null, ...more };
    must(await ci.POST("/v1/automation-runs/{run_id}/pr-proof", { params, body }), more.observation);
  }
  const body = { version: "1.0.1", environment: "production", sha: MERGED };
  const bound = must(await ci.POST("/v1/deploys/", { body }), "deploy");
  check(bound.automation_run_id === run_id, "the deploy is bound to the run");
}

async function main(): Promise<void> {
  const owner = await signIn();
  const project = must(await owner.POST("/v1/projects", { body: { name: "Shop" } }), "project");
  if (project.dsn === null) throw new Error("a new project has its DSN");
  const product = clientOf(project.dsn);
  const ciSecret = await mint(owner, project.id, { kind: "ci_deploy", name: "CI" });
  const ci = clientOf(ciSecret);
  await onboard(owner, product, ciSecret, project.id);
  const runner = await enable(owner, project.id);
  const error = { message: "The order was lost.", level: "error" as const, environment: "production" };
  const accepted = must(await product.POST("/v1/logs/", { body: error }), "error");
  if (typeof accepted === "string" || !("fingerprint" in accepted)) throw new Error("one record is answered as one");
  const run_id = await claim(runner, project.id, accepted.case_id ?? "");
  await deliver(owner, runner, run_id);
  await prove(ci, run_id);
  const verify = async () =>
    must(await runner.POST("/v1/automation-runs/{run_id}/verify", { params: { path: { run_id } }, body: {} }), "verify");
  check((await verify()).status === "verifying", "the window is open");
  await advance(63);
  await report(product, { amount: 12 });
  await advance(3);
  const verdict = await verify();
  check(verdict.status === "succeeded" && verdict.verification.passed, "the repair is verified");
}

main().catch((error: unknown) => {
  console.error(error);
  throw error;
});
