# packages: openai pydantic
import json

from openai import OpenAI
from pydantic import BaseModel


def play(*replies):
    return "play:" + json.dumps(replies)


client = OpenAI()
model = client.models.list().data[0].id
assert client.models.retrieve(model).id == model

answer = client.chat.completions.create(model=model, messages=[{"role": "user", "content": play({"text": "one"})}])
assert answer.choices[0].message.content == "one", answer
assert answer.choices[0].finish_reason == "stop", answer
assert answer.usage.total_tokens > 0, answer

stream = client.chat.completions.create(
    model=model,
    messages=[{"role": "user", "content": play({"text": ["t", "wo"]})}],
    stream=True,
    stream_options={"include_usage": True},
)
text, usage = "", None
for chunk in stream:
    usage = chunk.usage or usage
    for choice in chunk.choices:
        text += choice.delta.content or ""
assert text == "two" and usage, (text, usage)

# A tool of the client.
weather = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "the weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
said = [
    {"role": "user", "content": play({"calls": [{"name": "weather", "args": {"city": "Oslo"}}]}, {"text": "It rains."})}
]
answer = client.chat.completions.create(model=model, messages=said, tools=[weather])
assert answer.choices[0].finish_reason == "tool_calls", answer
[call] = answer.choices[0].message.tool_calls
assert (call.function.name, json.loads(call.function.arguments)) == ("weather", {"city": "Oslo"}), call
said += [answer.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "rain"}]
answer = client.chat.completions.create(model=model, messages=said, tools=[weather])
assert answer.choices[0].message.content == "It rains.", answer


class Person(BaseModel):
    name: str
    age: int


parsed = client.chat.completions.parse(
    model=model,
    messages=[{"role": "user", "content": play({"text": '{"name": "Anna", "age": 40}'})}],
    response_format=Person,
)
assert parsed.choices[0].message.parsed == Person(name="Anna", age=40), parsed

response = client.responses.create(model=model, input=play({"text": "three"}))
assert response.output_text == "three" and response.status == "completed", response
assert client.responses.retrieve(response.id).output_text == "three"
more = client.responses.create(model=model, input=play({"text": "four"}), previous_response_id=response.id)
assert more.output_text == "four", more
with client.responses.stream(model=model, input=play({"text": ["fi", "ve"]})) as events:
    for event in events:
        pass
    assert events.get_final_response().output_text == "five"

flat = {"type": "function", **weather["function"], "strict": False}
first = client.responses.create(
    model=model, input=play({"calls": [{"name": "weather", "args": {"city": "Oslo"}}]}, {"text": "It rains."}), tools=[flat]
)
[call] = [item for item in first.output if item.type == "function_call"]
second = client.responses.create(
    model=model,
    previous_response_id=first.id,
    input=[{"type": "function_call_output", "call_id": call.call_id, "output": "rain"}],
    tools=[flat],
)
assert second.output_text == "It rains.", second
