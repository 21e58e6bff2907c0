"""The MCP server: what a model may ask of a ledger, over stdio or streamable HTTP."""
