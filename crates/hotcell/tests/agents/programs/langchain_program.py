"""An agent of LangChain with Hotcell as its tools. Arguments: model URL, program, prompt."""

import asyncio
import os
import sys

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from langchain_openai import ChatOpenAI


async def main(model_url, program, prompt):
    model = ChatOpenAI(model="scripted", base_url=f"{model_url}/v1", api_key="none")
    environment = {"HOTCELL_STATE_DIR": os.environ["HOTCELL_STATE_DIR"]}
    server = {"transport": "stdio", "command": program, "args": ["serve"], "env": environment}
    async with MultiServerMCPClient({"hotcell": server}).session("hotcell") as session:
        agent = create_agent(model, await load_mcp_tools(session))
        asked = {"messages": [{"role": "user", "content": prompt}]}
        result = await agent.ainvoke(asked, {"recursion_limit": 400})
    print(result["messages"][-1].content)


asyncio.run(main(*sys.argv[1:]))
