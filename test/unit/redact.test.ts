import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createRedactor, isSecretName } from "../../src/platform/redact.ts";

const { text, value } = createRedactor();
const json = (input: unknown) => JSON.stringify(value(input));

describe("shapes that are always hidden", () => {
  const token35 = "AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1";
  it.each([
    ["OpenAI", "sk-proj-abcdefgh12345678"],
    ["Anthropic", "sk-ant-api03-abcdefgh_12345678-xyz"],
    ["Slack bot", "xoxb-123456789012-abcdefghij"],
    ["Slack user", "xoxp-123456789012-abcdefghij"],
    ["Slack app", "xapp-1-A012345-abcdef"],
    ["GitHub", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"],
    ["GitHub, fine-grained", "github_pat_11ABCDEFG0abcdefghijkl"],
    ["AWS", "AKIAIOSFODNN7EXAMPLE"],
    ["Google", "AIzaSyA-abcdefghijklmnopqrstuvwxyz012345"],
    ["Telegram", `123456789:${token35}`],
    ["JWT", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N"],
    ["a key block", "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc=\n-----END RSA PRIVATE KEY-----"],
    ["a key block cut short", "-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEA"],
  ])("%s", (_name, secret) => {
    expect(text(secret)).toBe("[redacted]");
    expect(text(`before ${secret}`)).toBe("before [redacted]");
    expect(text(JSON.stringify({ body: secret }))).not.toContain(secret.slice(-12));
    expect(json({ deep: [{ note: `x=${secret}` }] })).not.toContain(secret.slice(-12));
  });

  it("a Telegram token in a URL's path", () => {
    expect(text(`https://api.telegram.org/bot123456789:${token35}/getUpdates`)).toBe(
      "https://api.telegram.org/bot[redacted]/getUpdates",
    );
  });

  it("a bearer token, keeping the word", () => {
    expect(text("401 for Bearer abc.def-ghi_jkl, again")).toBe("401 for Bearer [redacted], again");
    expect(text('{"Authorization":"bearer abcdefgh12345678"}')).not.toContain("abcdefgh");
  });

  it("user and password in a URL, keeping the rest", () => {
    expect(text("postgres://admin:hunter2@db:5432/x")).toBe("postgres://[redacted]@db:5432/x");
    expect(text("http://u:p@ss:w@host/path")).toBe("http://[redacted]@host/path");
    expect(text("see http://host:8642/v1/runs and mail a@b.test")).toBe(
      "see http://host:8642/v1/runs and mail a@b.test",
    );
  });

  it("a value after a secret's name, in queries, headers, shell text, JSON and JSON in JSON", () => {
    expect(text("GET /x?token=abc123&page=2")).toBe("GET /x?token=[redacted]&page=2");
    expect(text("OPENAI_API_KEY=abc123 node x")).toBe("OPENAI_API_KEY=[redacted] node x");
    expect(text("cookie: session=abc; other=def")).toBe("cookie: [redacted]");
    expect(text("Authorization: Basic dXNlcjpwYXNz")).toBe("Authorization: [redacted]");
    const body = JSON.stringify({ password: 'q"uo\\te', next: 1 });
    expect(text(body)).toBe('{"password":"[redacted]","next":1}');
    expect(JSON.parse(text(JSON.stringify({ body })))).toEqual({ body: '{"password":"[redacted]","next":1}' });
  });

  it("but ordinary words, ids and session keys stay", () => {
    const ordinary =
      "task-manager asked agent:main:telegram:dm:999 for run_0123456789abcdef0123456789abcdef: bearer of news, " +
      "Unexpected token } in JSON, max_tokens=100, 2026-11-15T04:51:57.413Z, the secret of success, sk-8, 10:42:31";
    expect(text(ordinary)).toBe(ordinary);
  });
});

describe("values that were registered", () => {
  it("are hidden in any text, key or number, whatever they look like", () => {
    const redactor = createRedactor();
    redactor.add("tulip-window-93");
    redactor.add("1234567890123");
    expect(redactor.text("say tulip-window-93!")).toBe("say [redacted]!");
    expect(JSON.stringify(redactor.value({ "tulip-window-93": [1234567890123, 1234567890123n] }))).toBe(
      '{"[redacted]":["[redacted]","[redacted]"]}',
    );
  });

  it("are hidden also as JSON, JSON in JSON and URL-encoded text", () => {
    const secret = 'pa"ss\\wo\nrd + €';
    const redactor = createRedactor();
    redactor.add(secret);
    const once = JSON.stringify({ note: secret });
    const twice = JSON.stringify({ body: once });
    for (const said of [secret, once, twice, `?q=${encodeURIComponent(secret)}`]) {
      expect(redactor.text(said)).toContain("[redacted]");
      expect(redactor.text(said)).not.toMatch(/wo.{0,4}rd/s);
    }
  });

  it("do not leave a tail when one is the beginning of another", () => {
    const redactor = createRedactor();
    redactor.add("orange-1234");
    redactor.add("orange-1234-and-more");
    expect(redactor.text("orange-1234-and-more")).toBe("[redacted]");
  });

  it("are ignored when shorter than 8: they would blank out ordinary words", () => {
    const redactor = createRedactor();
    redactor.add("true");
    redactor.add("");
    expect(redactor.text("it is true")).toBe("it is true");
  });

  it("never come through, for any secret, at any place of any structure", () => {
    const secret = fc
      .string({ minLength: 8, maxLength: 40, unit: "grapheme-ascii" })
      .filter((s) => s.trim().length >= 8);
    fc.assert(
      fc.property(secret, fc.string(), fc.string(), (hidden, before, after) => {
        const redactor = createRedactor();
        redactor.add(hidden);
        const said = before + hidden + after;
        const error = new Error(said, { cause: new Error(said) });
        const out = redactor.value({ said, list: [{ said }], error, [said]: 1, nested: JSON.stringify({ said }) });
        const shown = JSON.stringify(out);
        const forms = [hidden, JSON.stringify(hidden).slice(1, -1)];
        return forms.every((form) => form === "[redacted]" || !shown.includes(form) || "[redacted]".includes(form));
      }),
      { numRuns: 500 },
    );
  });
});

describe("fields", () => {
  it("named like secrets are hidden, whatever they hold", () => {
    const fields = {
      authorization: "x",
      api_key: "x",
      apiKey: "x",
      botToken: 5,
      "set-cookie": ["x"],
      DB_PASSWORD: { a: "x" },
    };
    expect(new Set(Object.values(value(fields) as object))).toEqual(new Set(["[redacted]"]));
  });

  it("that only sound like it are not: counts, keys of deliveries, flags", () => {
    const fields = {
      input_tokens: 5,
      tokens: 7,
      key: "deliver:run_1:3",
      idempotency_key: "abc",
      token: null,
      secret: false,
    };
    expect(value(fields)).toEqual(fields);
    expect(["key", "tokens", "secretary"].some(isSecretName)).toBe(false);
  });

  it("that are errors show name, message, stack, cause and what was attached, without secrets", () => {
    const cause = Object.assign(new TypeError("401 for sk-abcdefgh12345678"), {
      status: 401,
      headers: { Cookie: "x" },
    });
    const shown = value({ error: new AggregateError([new Error("a")], "failed: Bearer abcdefgh1234", { cause }) });
    expect(shown).toMatchObject({
      error: {
        name: "AggregateError",
        message: "failed: Bearer [redacted]",
        stack: expect.stringContaining("redact.test.ts"),
        cause: { name: "TypeError", message: "401 for [redacted]", status: 401, headers: { Cookie: "[redacted]" } },
        errors: [{ message: "a" }],
      },
    });
    expect(JSON.stringify(shown)).not.toContain("abcdefgh");
  });

  it("that no JSON could hold are made plain: circles, big integers, maps, bytes, functions, getters that throw", () => {
    const circle: Record<string, unknown> = { name: "a" };
    circle.self = circle;
    const hostile = {
      get trap() {
        throw new Error("no");
      },
    };
    const shown = value({
      circle,
      big: 5n,
      map: new Map([["token", "x"]]),
      set: new Set([1]),
      bytes: Buffer.from("abc"),
      run: () => 1,
      url: new URL("http://u:pw123456@h/"),
      at: new Date(0),
      never: new Date(Number.NaN),
      hostile,
      sym: Symbol("s"),
    });
    expect(JSON.parse(JSON.stringify(shown))).toEqual({
      circle: { name: "a", self: "[circular]" },
      big: "5",
      map: { token: "[redacted]" },
      set: [1],
      bytes: "[3 bytes]",
      run: "[function]",
      url: "http://[redacted]@h/",
      at: "1970-01-01T00:00:00.000Z",
      never: "[invalid date]",
      hostile: { unreadable: true },
      sym: "[symbol]",
    });
  });

  it("are bounded: long text, long lists, many fields, great depth", () => {
    let deep: unknown = "end";
    for (let n = 0; n < 100; n += 1) deep = { deep };
    const wide = Object.fromEntries(Array.from({ length: 5000 }, (_, n) => [`f${n}`, n]));
    const shown = json({ text: "x".repeat(5_000_000), list: Array.from({ length: 5000 }, () => 1), deep, wide });
    expect(shown.length).toBeLessThan(25_000);
    expect(shown).toContain("(5000000 characters)");
    expect(shown).toContain("[too deep]");
  });

  it("that are cut do not end in half a secret, also where hiding many has made them short", () => {
    const secret = `halved-${"secret".repeat(10)}`;
    const crowded = createRedactor();
    crowded.add(secret);
    for (let shift = 0; shift < 60; shift += 5)
      expect(crowded.value("x".repeat(shift) + secret.repeat(2000))).not.toMatch(/halved|secret/);

    const redactor = createRedactor();
    redactor.add("half-of-this-secret");
    for (let shift = 0; shift < 30; shift += 1) {
      const long = `${"x".repeat(32_768 - shift)}half-of-this-secret${"x".repeat(50_000)}`;
      expect(redactor.value(long)).not.toContain("half");
      const short = `${"x".repeat(16_384 - shift)}half-of-this-secret${"x".repeat(50_000)}`;
      expect(redactor.value(short)).not.toContain("half");
    }
  });
});

describe("what was added, and nothing else", () => {
  const redactor = createRedactor();
  redactor.add("tok-9f8e7d6c5b4a");
  redactor.add("tok-9f8e7d6c5b4a-longer");
  redactor.add('with "quotes" 12345');

  it("is hidden, as it is and in JSON, and the longer one whole", () => {
    expect(redactor.known("a tok-9f8e7d6c5b4a-longer, tok-9f8e7d6c5b4a")).toBe("a [redacted], [redacted]");
    expect(redactor.known(JSON.stringify({ a: 'with "quotes" 12345' }))).toBe('{"a":"[redacted]"}');
  });

  it("leaves alone what only looks like a secret, words and paths", () => {
    const words = createRedactor();
    for (const value of ["password", "correcthorsebattery", "/home/me/.ssh/id_rsa", "~/keys/mine.pem"])
      words.add(value);
    const text =
      'password="hunter22" token=abc sk-proj-abcdefgh12345678 correcthorsebattery /home/me/.ssh/id_rsa ~/keys/mine.pem';
    expect(words.known(text)).toBe(text);
  });

  it("in 5 MB and with 100 secrets takes no time that anybody notices", () => {
    const many = createRedactor();
    for (let n = 0; n < 100; n++) many.add(`secret-value-of-number-${n}-aaaaaaaa`);
    const long = "secret-value-of-nobody aaaa ".repeat(180_000);
    const before = performance.now();
    expect(many.known(long)).toBe(long);
    expect(performance.now() - before).toBeLessThan(2_000);
  });
});

describe("hostile text", () => {
  it.each([
    ["addresses", `://${"a:".repeat(8000)}`],
    ["key blocks", "-----BEGIN PRIVATE KEY-----".repeat(600)],
    ["names", 'token":"'.repeat(2000)],
    ["backslashes", `token${"\\".repeat(16_000)}`],
    ["dots", "eyJaaaaaaaa.".repeat(1400)],
    ["digits", "1234567890".repeat(1600)],
  ])("of %s is read in linear time", (_name, evil) => {
    const before = performance.now();
    for (let n = 0; n < 10; n += 1) text(evil);
    // A quadratic pattern takes seconds here; a linear one a few milliseconds.
    expect(performance.now() - before).toBeLessThan(1000);
  });
});
