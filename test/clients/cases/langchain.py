# packages: langchain-openai
import json

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


def play(*replies):
    return "play:" + json.dumps(replies)


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


class Person(BaseModel):
    name: str
    age: int


for more in ({}, {"use_responses_api": True}):
    model = ChatOpenAI(model="hermes-agent", **more)
    assert model.invoke(play({"text": "one"})).text == "one", more
    assert "".join(chunk.text for chunk in model.stream(play({"text": ["t", "wo"]}))) == "two", more

    said = [HumanMessage(play({"calls": [{"name": "weather", "args": {"city": "Oslo"}}]}, {"text": "It rains."}))]
    called = model.bind_tools([weather]).invoke(said)
    [call] = called.tool_calls
    assert call["args"] == {"city": "Oslo"}, called
    said += [called, ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"])]
    assert model.bind_tools([weather]).invoke(said).text == "It rains.", more

    structured = model.with_structured_output(Person)
    assert structured.invoke(play({"text": '{"name": "Anna", "age": 40}'})) == Person(name="Anna", age=40), more
