// Which hosts a command may reach: names, `*.example.com` for subdomains, and presets for groups of hosts.
import { isIP } from "node:net";
import { domainToASCII } from "node:url";

const words = (text: string) => text.split(/\s+/).filter((word) => word !== "");

export const PRESETS: Readonly<Record<string, readonly string[]>> = {
  /** Where package managers download from. */
  packages: words(`
    registry.npmjs.org registry.yarnpkg.com nodejs.org npm.jsr.io jsr.io deno.land
    pypi.org files.pythonhosted.org conda.anaconda.org repo.anaconda.com
    crates.io index.crates.io static.crates.io static.rust-lang.org
    proxy.golang.org sum.golang.org go.dev
    repo.maven.apache.org repo1.maven.org plugins.gradle.org services.gradle.org plugins-artifacts.gradle.org
    rubygems.org index.rubygems.org repo.packagist.org packagist.org api.nuget.org hex.pm repo.hex.pm pub.dev
    deb.debian.org security.debian.org archive.ubuntu.com security.ubuntu.com ports.ubuntu.com dl-cdn.alpinelinux.org`),
  /** Where repositories are cloned from, over https. */
  git: words(`
    github.com api.github.com codeload.github.com raw.githubusercontent.com objects.githubusercontent.com
    release-assets.githubusercontent.com media.githubusercontent.com gitlab.com bitbucket.org codeberg.org`),
};

/** The normalised pattern for the proxy; null if the text is neither a host, nor a pattern, nor a preset. */
export function hostPattern(text: string): string | null {
  if (Object.hasOwn(PRESETS, text)) return text;
  const [, star = "", name = "", port = ""] = /^(\*\.)?([^:*/@\s]+|\[[0-9a-fA-F:.]+\])(:\d{1,5})?$/.exec(text) ?? [];
  const host = hostName(name);
  if (host === "" || (star !== "" && (isIP(host) !== 0 || !host.includes(".")))) return null;
  return `${star}${host}${port}`;
}

/** Normalises a host name: lower case, punycode, no trailing dot, no brackets. */
export function hostName(text: string): string {
  const bare = text.replace(/^\[|\]$/g, "").replace(/\.$/, "");
  return isIP(bare) ? bare.toLowerCase() : domainToASCII(bare);
}

/** Patterns as `hostPattern` returns them. */
export const allowsHost = (patterns: Iterable<string>, host: string, port: number): boolean =>
  [...patterns]
    .flatMap((pattern) => PRESETS[pattern] ?? [pattern])
    .some(
      (pattern) =>
        pattern === host ||
        pattern === `${host}:${port}` ||
        (pattern.startsWith("*.") && host.endsWith(pattern.slice(1)) && isIP(host) === 0),
    );
