"""An agent of the OpenAI Agents SDK with Hotcell as its tools. Arguments: model URL, program, prompt."""

import asyncio
import os
import sys

from agents import Agent, OpenAIResponsesModel, Runner
from agents.mcp import MCPServerStdio
from openai import AsyncOpenAI


async def main(model_url, program, prompt):
    client = AsyncOpenAI(base_url=f"{model_url}/v1", api_key="none")
    environment = {"HOTCELL_STATE_DIR": os.environ["HOTCELL_STATE_DIR"]}
    parameters = {"command": program, "args": ["serve"], "env": environment}
    async with MCPServerStdio(parameters) as server:
        agent = Agent(
            name="agent",
            model=OpenAIResponsesModel("scripted", client),
            mcp_servers=[server],
        )
        result = await Runner.run(agent, prompt, max_turns=200)
    print(result.final_output)


asyncio.run(main(*sys.argv[1:]))
