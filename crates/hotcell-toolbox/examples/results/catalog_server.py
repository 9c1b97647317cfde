"""An MCP server with a small catalog of tools, for the tasks that search one."""

from mcp.server import MCPServer

server = MCPServer("tracker")


@server.tool()
def issue_create(title: str, body: str = "", labels: list[str] | None = None) -> dict:
    """Open an issue in the tracker. Returns its number."""
    return {"number": 1, "title": title, "body": body, "labels": labels or []}


@server.tool()
def issue_search(query: str, state: str = "open", limit: int = 20) -> list[dict]:
    """Search issues by words in their title or body."""
    return [{"query": query, "state": state, "limit": limit}]


@server.tool()
def issue_comment(number: int, text: str) -> dict:
    """Add a comment to an issue."""
    return {"number": number, "text": text}


@server.tool()
def issue_close(number: int, reason: str = "completed") -> dict:
    """Close an issue as completed or as not planned."""
    return {"number": number, "reason": reason}


@server.tool()
def milestone_list(state: str = "open") -> list[dict]:
    """List milestones with their due dates and progress."""
    return [{"state": state}]


@server.tool()
def release_notes(since_tag: str, until_tag: str = "HEAD") -> str:
    """Write release notes from the issues closed between two tags."""
    return f"{since_tag}..{until_tag}"


@server.tool()
def member_list(team: str | None = None) -> list[dict]:
    """List the members of the project or of one team."""
    return [{"team": team}]


@server.tool()
def attachment_upload(number: int, file_name: str, content_base64: str) -> dict:
    """Attach a file to an issue."""
    return {"number": number, "file_name": file_name, "chars": len(content_base64)}


server.run(transport="stdio")
