# packages: instructor
import json

import instructor
from openai import OpenAI
from pydantic import BaseModel


class Person(BaseModel):
    name: str
    age: int


def ask(mode, reply):
    client = instructor.from_openai(OpenAI(), mode=mode)
    messages = [{"role": "user", "content": "play:" + json.dumps([reply])}]
    person = client.chat.completions.create(model="hermes-agent", messages=messages, response_model=Person, max_retries=0)
    return person.model_dump()


anna = {"name": "Anna", "age": 40}
assert ask(instructor.Mode.TOOLS, {"calls": [{"name": "Person", "args": anna}]}) == anna
assert ask(instructor.Mode.JSON_SCHEMA, {"text": json.dumps(anna)}) == anna
