# packages: langgraph langchain langchain-openai
import json

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver


def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


play = "play:" + json.dumps([{"calls": [{"name": "weather", "args": {"city": "Oslo"}}]}, {"text": "It rains."}])
agent = create_agent(ChatOpenAI(model="hermes-agent"), [weather], checkpointer=InMemorySaver())
thread = {"configurable": {"thread_id": "1"}}
answer = agent.invoke({"messages": [{"role": "user", "content": play}]}, thread)
assert [message.type for message in answer["messages"]] == ["human", "ai", "tool", "ai"], answer
assert answer["messages"][-1].text == "It rains.", answer
more = agent.invoke({"messages": [{"role": "user", "content": 'play:[{"text": "Still."}]'}]}, thread)
assert more["messages"][-1].text == "Still.", more
