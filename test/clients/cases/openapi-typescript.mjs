// packages: openapi-typescript openapi-fetch typescript@5 @types/node
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";

const { HERMES_URL: url, HERMES_KEY: key } = process.env;
const document = await fetch(`${url}/openapi.json`, { headers: { Authorization: `Bearer ${key}` } });
writeFileSync("openapi.json", await document.text());
execFileSync("node_modules/.bin/openapi-typescript", ["openapi.json", "--output", "schema.ts"], {
  stdio: "inherit",
});
writeFileSync(
  "use.ts",
  `import createClient from "openapi-fetch";
import type { paths } from "./schema.ts";

const client = createClient<paths>({
  baseUrl: process.env.HERMES_URL!,
  headers: { Authorization: \`Bearer \${process.env.HERMES_KEY}\` },
});
const started = await client.POST("/v1/runs", { body: { input: 'play:[{"text": "one"}]' } });
if (!started.data) throw new Error(JSON.stringify(started.error));
const { run_id } = started.data;
for (let tries = 0; ; tries++) {
  const { data } = await client.GET("/v1/runs/{id}", { params: { path: { id: run_id } } });
  if (data?.status === "completed" && data.output === "one") break;
  if (tries > 100) throw new Error(JSON.stringify(data));
  await new Promise((resolve) => setTimeout(resolve, 100));
}
`,
);
const strict = ["--strict", "--noEmit", "--module", "nodenext", "--target", "es2022", "--allowImportingTsExtensions"];
execFileSync("node_modules/.bin/tsc", [...strict, "--skipLibCheck", "use.ts"], {
  stdio: "inherit",
});
execFileSync(process.execPath, ["use.ts"], { stdio: "inherit" });
