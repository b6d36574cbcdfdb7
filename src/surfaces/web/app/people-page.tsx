// Who may talk to the agent from a chat app.
import { useState } from "preact/hooks";
import type { PairingDesk } from "../../../core/chat.ts";
import { timeOf } from "./format.ts";
import type { ShownHealth } from "./now-page.tsx";
import { Act, Delete, Empty, Page, Row, Section, Select, useRoute } from "./page.tsx";
import { post } from "./server.ts";

type Paired = Awaited<ReturnType<PairingDesk["paired"]>>[number];

export function PeoplePage() {
  const people = useRoute<{ data: Paired[] }>("/api/pairing");
  const { channels = [] } = useRoute<Pick<ShownHealth, "channels">>("/health/detailed").value ?? {};
  const platforms = channels.length ? channels.map(({ platform: name }) => name) : ["telegram", "discord", "slack"];
  const [chosen, setPlatform] = useState("");
  const platform = chosen || (platforms[0] ?? "");
  const [code, setCode] = useState<{ code: string; expiresAt: number } | null>(null);
  return (
    <Page
      title="People"
      about="Who may talk to the agent from a chat app, besides those on the lists of the configuration."
    >
      <section aria-label="Paired">
        {people.error && <p class="error">{people.error}</p>}
        {people.value?.data.map(({ platform: where, id, name, at }) => (
          <Row key={`${where} ${id}`} name={name || id} about={`${where} · ${id} · since ${timeOf(at)}`}>
            <Delete
              path={`/api/pairing/${where}/${encodeURIComponent(id)}`}
              again={people.again}
              label={`Remove ${name || id}`}
            >
              Remove
            </Delete>
          </Row>
        ))}
        {people.value?.data.length === 0 && <Empty>Nobody is paired yet. Make a code for the first person.</Empty>}
      </section>
      <Section title="New pairing">
        <div class="form wrap grow">
          <Select label="Chat app" value={platform} set={setPlatform} names={platforms.map((name) => [name, name])} />
          <Act kind="primary" act={async () => setCode(await post("/api/pairing", { platform }))}>
            Make a code
          </Act>
        </div>
        {code && (
          <p role="status">
            The person sends <code>{code.code}</code> to the bot in a direct chat, once, before {timeOf(code.expiresAt)}
            .
          </p>
        )}
      </Section>
    </Page>
  );
}
