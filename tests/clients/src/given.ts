// What the test hands over, and the checks that both TypeScript clients make.
declare const process: { env: Record<string, string | undefined> };

function given(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set`);
  return value;
}

export const baseUrl = given("CLIENT_BASE_URL");
export const internalToken = given("CLIENT_INTERNAL_TOKEN");
export const subject = given("CLIENT_SUBJECT");

export function check(holds: boolean, what: string): void {
  if (!holds) throw new Error(`not so: ${what}`);
}

/** The data of an answer; an error of the service ends the program with its envelope. */
export function must<T>(answer: { data?: T; error?: unknown }, what: string): T {
  if (answer.data === undefined) throw new Error(`${what}: ${JSON.stringify(answer.error)}`);
  return answer.data;
}

/** Move the clock of the test server, which is no part of the interface. */
export async function advance(seconds: number): Promise<void> {
  const headers = { authorization: `Bearer ${given("CLIENT_TEST_TOKEN")}`, "content-type": "application/json" };
  const answer = await fetch(`${baseUrl}/v1/test-clock/advance`, {
    method: "POST",
    headers,
    body: JSON.stringify({ seconds }),
  });
  check(answer.ok, "the clock moves");
}
