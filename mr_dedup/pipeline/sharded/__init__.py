"""De-duplication by tasks that write shards: nothing of the documents passes the client."""
