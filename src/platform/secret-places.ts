// Paths of credentials: hidden in the sandbox, refused by the file tools.
import { join } from "node:path";

/** The files in /etc are readable by root only. */
export const secretPlaces = (userHome: string): string[] => [
  ...words(IN_HOME).map((name) => join(userHome, name)),
  ...words("/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d /etc/ssh"),
];

const IN_HOME = `
  .hermes .ssh .gnupg .aws .azure .kube .docker .oci .config/gcloud .config/doctl .vault-token .terraform.d .terraformrc
  .netrc .npmrc .yarnrc.yml .pypirc .git-credentials .config/git/credentials .config/gh .config/hub .config/glab-cli
  .cargo/credentials .cargo/credentials.toml .gem/credentials .m2/settings.xml .m2/settings-security.xml
  .sbt/.credentials .ivy2/.credentials .nuget/NuGet .bundle/config .cabal/config .local/share/uv/credentials .gradle/gradle.properties
  .pgpass .my.cnf .s3cfg .boto .config/rclone .config/sops .config/age .config/op .password-store .local/share/keyrings
  .mozilla .thunderbird .config/google-chrome .config/chromium .config/BraveSoftware .config/Signal Library/Keychains
  .bash_history .zsh_history .python_history .node_repl_history .psql_history .mysql_history
  .claude .claude.json .codex .gemini .config/opencode .local/share/opencode`;

const words = (text: string) => text.split(/\s+/).filter((word) => word !== "");
