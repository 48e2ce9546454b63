"""Commands that speak to a server, through the client: threads, and a conversation at the terminal. They know no store
and no session of this machine."""
