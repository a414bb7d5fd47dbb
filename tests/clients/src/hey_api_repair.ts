// Onboarding and a whole self-healing run, with the functions of @hey-api/openapi-ts.
import {
  authorizeDevice,
  authorizeDraftPr,
  consumeDraftPr,
  createClaim,
  createCredential,
  createProject,
  decideAutomationApproval,
  enableAutomationContract,
  getAutomationRun,
  issueAutomationTriggers,
  pollDevice,
  putAutomationContract,
  readCase,
  recordAnalyticsEvent,
  recordAutomationUsage,
  recordDeploy,
  recordLog,
  recordPrProof,
  renderAutomationPlaybook,
  requestAutomationApproval,
  reviewOnboarding,
  startAutomationRun,
  startDevice,
  startOnboarding,
  startOnboardingProof,
  updateAutomationRun,
  verifyAutomationRun,
  verifyOnboarding,
} from "./generated/hey";
import type { AuthorizeDraftPr, CreateCredential, ErrorToDraftPrBindings, Plan } from "./generated/hey";
import { createClient, createConfig } from "./generated/hey/client";
import { advance, baseUrl, check, internalToken, must, subject } from "./given";
import story from "./story.json";

const SUBJECT = `${subject}-repair`;
const [FINAL, MERGED] = ["d".repeat(40), "e".repeat(40)];
const PULL = { number: 7, url: "https://code.example/acme/shop/pull/7", head_sha: story.change.head_sha };

function clientOf(secret?: string, headers: Record<string, string> = {}) {
  return createClient(createConfig(secret === undefined ? { baseUrl } : { baseUrl, auth: secret, headers }));
}
type Caller = ReturnType<typeof clientOf>;
type Fence = { state_revision: number; lease_epoch: number };

const keyed = (key: string) => ({ "Idempotency-Key": key });

async function signIn(): Promise<Caller> {
  const anyone = clientOf();
  const started = must(await startDevice({ client: anyone, body: {} }), "start");
  const identity = { provider: "example", subject: SUBJECT, email: `${SUBJECT}@example.com` };
  const stood = { user_code: started.user_code, identity };
  must(await authorizeDevice({ client: clientOf(internalToken), body: stood }), "authorize");
  const polled = await pollDevice({ client: anyone, body: { device_code: started.device_code } });
  return clientOf(must(polled, "poll").api_key);
}

async function mint(client: Caller, project_id: string, body: CreateCredential): Promise<string> {
  const headers = keyed(`${SUBJECT}-${body.kind}`);
  return must(await createCredential({ client, path: { project_id }, headers, body }), "mint").credential;
}

async function report(client: Caller, properties: Record<string, unknown>): Promise<void> {
  must(await recordAnalyticsEvent({ client, body: { event: "paid", distinct_id: "u1", properties } }), "event");
}

async function onboard(client: Caller, product: Caller, ci: string, project_id: string): Promise<void> {
  const path = { project_id };
  const plan = story.plan as Plan;
  const planned = must(await startOnboarding({ client, path, body: { intent: "start", plan } }), "plan");
  const approved = must(
    await reviewOnboarding({
      client,
      path,
      headers: { "If-Match": planned.etag },
      body: { decision: "approve", plan_sha256: planned.plan_sha256 },
    }),
    "review",
  );
  const final = { implementation_source_snapshot: { ...plan.source_snapshot, git_head_sha: FINAL } };
  const begun = must(
    await startOnboardingProof({ client, path, headers: { "If-Match": approved.etag }, body: final }),
    "proof",
  );
  const { runtime, ci: inCi } = begun.one_time_markers;
  const marker = { [runtime.property_name]: runtime.value };
  await report(product, { amount: 12, ...marker });
  const tags = { failure_marker: "declined", step: "payment", ...marker };
  must(await recordLog({ client: product, body: { message: "Declined.", level: "error", tags } }), "failure");
  const deploy = { version: "1.0.0", environment: "production", sha: FINAL };
  const marked = clientOf(ci, { [inCi.header_name]: inCi.value });
  check(must(await recordDeploy({ client: marked, body: deploy }), "deploy").onboarding_proof_matched, "it is proven");
  const verdict = must(
    await verifyOnboarding({ client, path, headers: { "If-Match": begun.state.etag } }),
    "verify",
  );
  check(verdict.ok && verdict.state.status === "verified", "the onboarding is verified");
}

async function enable(client: Caller, project_id: string): Promise<Caller> {
  const path = { project_id };
  const bindings = story.bindings as ErrorToDraftPrBindings;
  const wish = { version: "4.0.0" as const, bindings, readiness_assertions: story.assertions };
  const rendering = { client, path: { ...path, id: "error-to-draft-pr" }, body: wish };
  const candidate = must(await renderAutomationPlaybook(rendering), "render");
  const saved = must(await putAutomationContract({ client, path, body: candidate.contract_input }), "save");
  const runner = await mint(client, project_id, { kind: "automation_runner", name: "runner", automation_id: "heal" });
  const headers = { "If-Match": saved.etag, ...keyed("on") };
  const enabled = must(await enableAutomationContract({ client, path, headers, body: {} }), "enable");
  check(enabled.contract.enabled, "the contract is enabled");
  return clientOf(runner);
}

async function claim(client: Caller, project_id: string, case_id: string): Promise<string> {
  const path = { project_id };
  const search = { client, path, headers: keyed("issue"), body: { automation_id: "heal" } };
  const issued = must(await issueAutomationTriggers(search), "issue");
  const receipt = issued.trigger_receipts.find((one) => one.case?.case_id === case_id);
  if (!receipt?.case) throw new Error("the case has a receipt");
  const trigger_receipt_id = receipt.receipt_id;
  const body = { trigger_receipt_id, case_revision: receipt.case.case_revision };
  must(await createClaim({ client, path: { case_id }, headers: keyed("claim"), body }), "claim");
  must(await readCase({ client, path: { case_id } }), "case");
  const start = { client, path, headers: keyed("start"), body: { trigger_receipt_id } };
  return must(await startAutomationRun(start), "start").run_id;
}

async function deliver(owner: Caller, client: Caller, run_id: string): Promise<void> {
  const at = (key: string) => ({ client, path: { run_id }, headers: keyed(key) });
  const fence = async (): Promise<Fence> => {
    const run = must(await getAutomationRun({ client, path: { run_id } }), "run");
    return { state_revision: run.state_revision, lease_epoch: run.lease_epoch };
  };
  const usage = { ...(await fence()), turns: 3, cost_usd: 0.05, runtime_seconds: 30 };
  must(await recordAutomationUsage({ ...at("usage"), body: usage }), "usage");
  const question = { ...(await fence()), action: "draft_pr" as const, summary: "May I?" };
  const asked = must(await requestAutomationApproval({ ...at("ask"), body: question }), "ask");
  const decision = { client: owner, path: { approval_id: asked.approval_id }, headers: keyed("decide") };
  must(await decideAutomationApproval({ ...decision, body: { decision: "approve" } }), "decide");
  const change = { ...(await fence()), ...(story.change as Omit<AuthorizeDraftPr, keyof Fence>) };
  const grant = must(await authorizeDraftPr({ ...at("authorize"), body: change }), "authorize");
  const spend = { ...(await fence()), grant_id: grant.grant_id };
  const consumed = must(await consumeDraftPr({ ...at("consume"), body: spend }), "consume");
  check(consumed.call_authorized, "the first consume may call the code host");
  const opened = { ...(await fence()), status: "draft_pr_opened" as const, pull_request: PULL };
  must(await updateAutomationRun({ ...at("opened"), body: opened }), "opened");
}

async function prove(client: Caller, run_id: string): Promise<void> {
  const { repository, base_branch, head_branch, head_sha } = story.change;
  const seen = { repository, base_branch, head_branch, head_sha, pr_number: 7, pr_url: PULL.url, draft: true };
  const proofs = [{ observation: "pr_opened" as const }, { observation: "merged" as const, merge_commit_sha: MERGED }];
  for (const more of proofs) {
    const body = { ...seen, bypass_used: null, ...more };
    const headers = keyed(more.observation);
    must(await recordPrProof({ client, path: { run_id }, headers, body }), more.observation);
  }
  const body = { version: "1.0.1", environment: "production", sha: MERGED };
  const bound = must(await recordDeploy({ client, body }), "deploy");
  check(bound.automation_run_id === run_id, "the deploy is bound to the run");
}

async function main(): Promise<void> {
  const owner = await signIn();
  const project = must(await createProject({ client: owner, body: { name: "Shop" } }), "project");
  if (project.dsn === null) throw new Error("a new project has its DSN");
  const product = clientOf(project.dsn);
  const ciSecret = await mint(owner, project.id, { kind: "ci_deploy", name: "CI" });
  await onboard(owner, product, ciSecret, project.id);
  const runner = await enable(owner, project.id);
  const error = { message: "The order was lost.", level: "error" as const, environment: "production" };
  const accepted = must(await recordLog({ client: product, body: error }), "error");
  if (!("fingerprint" in accepted)) throw new Error("one record is answered as one");
  const run_id = await claim(runner, project.id, accepted.case_id ?? "");
  await deliver(owner, runner, run_id);
  await prove(clientOf(ciSecret), run_id);
  const verify = async () =>
    must(await verifyAutomationRun({ client: runner, path: { run_id }, body: {} }), "verify");
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
