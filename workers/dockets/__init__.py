"""Court docket lines read into plans of what to decide, without any input or output of its own."""
