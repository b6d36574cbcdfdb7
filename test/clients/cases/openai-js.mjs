// packages: openai
import assert from "node:assert/strict";
import OpenAI from "openai";

const play = (...replies) => `play:${JSON.stringify(replies)}`;
const client = new OpenAI();
const { data } = await client.models.list();
const model = data[0].id;

const messages = (...replies) => [{ role: "user", content: play(...replies) }];
const answer = await client.chat.completions.create({ model, messages: messages({ text: "one" }) });
assert.equal(answer.choices[0].message.content, "one");

const stream = client.chat.completions.stream({ model, messages: messages({ text: ["t", "wo"] }) });
assert.equal(await stream.finalContent(), "two");

const cities = [];
const tools = [
  {
    type: "function",
    function: {
      name: "weather",
      strict: true,
      parameters: {
        type: "object",
        properties: { city: { type: "string" } },
        required: ["city"],
        additionalProperties: false,
      },
      parse: JSON.parse,
      function: ({ city }) => {
        cities.push(city);
        return "rain";
      },
    },
  },
];
const calls = [{ name: "weather", args: { city: "Oslo" } }];
const runner = client.chat.completions.runTools({ model, tools, messages: messages({ calls }, { text: "It rains." }) });
assert.equal(await runner.finalContent(), "It rains.");
assert.deepEqual(cities, ["Oslo"]);

const response = await client.responses.create({ model, input: play({ text: "three" }) });
assert.equal(response.output_text, "three");
let text = "";
for await (const event of await client.responses.create({ model, input: play({ text: ["fo", "ur"] }), stream: true }))
  if (event.type === "response.output_text.delta") text += event.delta;
assert.equal(text, "four");
