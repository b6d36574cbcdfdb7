// The parts of the user's home that sandboxed commands can read: programs and what they need. The rest (documents,
// other projects, keys, histories) is hidden.
import { basename, dirname, join } from "node:path";

export const toolchains = (home: string, path: string): string[] => [
  ...words(IN_HOME).map((name) => join(home, name)),
  ...path
    .split(":")
    .filter((dir) => dir.startsWith(`${home}/`))
    .flatMap((dir) => installationOf(dir, home)),
];

/** ~/x/bin alone is useless without ~/x/lib. */
function installationOf(dir: string, home: string): string[] {
  const above = dirname(dir);
  const whole = /^(?:s?bin|shims)$/.test(basename(dir)) && above !== home && above !== join(home, ".local");
  return [whole ? above : dir];
}

const IN_HOME = `
  bin .local/bin .local/lib .local/pipx .local/state/fnm_multishells
  .local/share/uv .local/share/pnpm .local/share/fnm .local/share/mise .local/share/rtx .local/share/pipx .local/share/bun
  .local/share/virtualenv .local/share/virtualenvs .local/share/gem .local/share/pypoetry .local/share/swiftly
  .cargo .rustup .nvm .fnm .volta .asdf .nodenv .n .bun .deno .npm .yarn .pnpm-store .corepack
  .pyenv miniconda3 anaconda3 miniforge3 mambaforge .conda .virtualenvs .rye
  go .goenv .rbenv .rvm .gem .bundle .sdkman .jenv .m2 .gradle .ivy2 .sbt .cabal .ghcup .stack .opam .elan .julia .juliaup
  .dotnet .nuget .pub-cache flutter Android/Sdk .swiftpm .mix .hex .asdf-vm .nix-profile .nix-defexpr .local/state/nix
  .cache/pip .cache/uv .cache/node .cache/node-gyp .cache/yarn .cache/go-build .cache/deno .cache/ccache .cache/pre-commit
  .cache/ms-playwright .cache/puppeteer .cache/Cypress .cache/bazel .cache/bazelisk .cache/pypoetry .cache/composer
  .gitconfig .config/git .gitignore .gitignore_global .gitattributes .editorconfig .tool-versions .config/mise .condarc`;

const words = (text: string) => text.split(/\s+/).filter((word) => word !== "");
