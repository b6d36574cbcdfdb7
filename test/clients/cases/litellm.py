# packages: litellm mcp
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks GitHub for prices
import litellm


def ask(content, **more):
    messages = [{"role": "user", "content": content}]
    base, key = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"]
    return litellm.completion(model="openai/hermes-agent", api_base=base, api_key=key, messages=messages, **more)


assert ask('play:[{"text": "one"}]').choices[0].message.content == "one"
parts = ask('play:[{"text": ["t", "wo"]}]', stream=True)
assert "".join(part.choices[0].delta.content or "" for part in parts) == "two"
tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
called = ask('play:[{"calls": [{"name": "weather", "args": {}}]}]', tools=[tool]).choices[0]
assert called.finish_reason == "tool_calls" and called.message.tool_calls[0].function.name == "weather", called
