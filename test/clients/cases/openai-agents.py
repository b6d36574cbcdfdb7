# packages: openai-agents
import asyncio
import json

from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)
asked = []


@function_tool
def weather(city: str) -> str:
    asked.append(city)
    return f"rain in {city}"


play = "play:" + json.dumps([{"calls": [{"name": "weather", "args": {"city": "Oslo"}}]}, {"text": "It rains."}])


async def main():
    client = AsyncOpenAI()
    for made in (OpenAIResponsesModel, OpenAIChatCompletionsModel):
        asked.clear()
        agent = Agent(name="a", tools=[weather], model=made(model="hermes-agent", openai_client=client))
        result = await Runner.run(agent, play)
        assert result.final_output == "It rains." and asked == ["Oslo"], (made, result.final_output, asked)
        streamed = Runner.run_streamed(agent, 'play:[{"text": ["t", "wo"]}]')
        async for _ in streamed.stream_events():
            pass
        assert streamed.final_output == "two", (made, streamed.final_output)


asyncio.run(main())
