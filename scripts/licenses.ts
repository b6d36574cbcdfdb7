// The licenses of the packages whose code is in a bundle. Most of them must be in every copy.
import { globSync, readFileSync } from "node:fs";

/** `modules`: the files of the bundle. */
export function licensesOf(modules: Iterable<string>): string {
  const packages = new Map<string, string>();
  for (const id of modules) {
    const [, dir = "", name = ""] = /^\0?(.*\/node_modules\/((?:@[^/]+\/)?[^/]+))\//.exec(id) ?? [];
    if (name) packages.set(name, dir);
  }
  return [...packages]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, dir]) => {
      const { version, license } = JSON.parse(readFileSync(`${dir}/package.json`, "utf8"));
      const texts = globSync("{LICEN[CS]E,licen[cs]e}*", { cwd: dir }).map((file) =>
        readFileSync(`${dir}/${file}`, "utf8").trim(),
      );
      return [`${name} ${version}: ${license}`, ...texts].join("\n\n");
    })
    .join(`\n\n${"-".repeat(80)}\n\n`);
}
