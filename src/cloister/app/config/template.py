"""The file that `cloister config init` writes: everything that can be said, as comments, with the defaults."""

TEMPLATE = """\
# What `cloister` commands take for granted here. A flag comes before a variable of the environment (CLOISTER_STORE,
# CLOISTER_LIMITS_MEMORY_MB, ...), that before this file, this file before that of the user.
# `cloister config show` says what holds, and why.

# Where sessions are written down: sqlite:///path/to/file.db or postgresql://user@host/database.
# store = "sqlite:///var/lib/agent/cloister.db"

# How much of what happens is written down before it counts: none, cell or call.
# durability = "call"

# How many programs of one language run at once.
# workers = 2

# What a type error does: strict stops the run, warn warns, off says nothing.
# type_check = "warn"

# Refuse to run anything unless every layer of the operating system is around the workers.
# require_confinement = false

# What programs may call: MODULE or MODULE:ATTRIBUTE. Modules beside this file are found.
# tools = ["shop", "bank:refund"]

# A call for which one of these CEL expressions is true is never made. The rules of all files and flags hold together.
# deny = ['side_effect == "database"']

# How long a question to a person stays open; for ever, if it is not said.
# approval_ttl_ms = 86400000

# MCP servers as other clients write them: {"mcpServers": {"NAME": {"command": ...}}}
# mcp_servers = "mcpServers.json"

# What one cell may use.
[limits]
# memory_mb = 64
# cpu_ms = 2000
# wall_ms = 5000
# max_stdout_bytes = 65536
# max_external_calls = 32
# max_stack_depth = 256

# How many cells there may be, and for how long.
[cells]
# cell_wall_ms = 1800000
# hibernate_after_ms = 250
# max_queued = 64
# max_isolated = 256

# The files of a session.
[files]
# max_files = 10000
# max_bytes = 67108864
# max_file_bytes = 16777216

# How long a store keeps events.
[events]
# max_age_ms = 2592000000
# max_events = 100000

# Of `cloister serve`.
[server]
# host = "127.0.0.1"
# port = 8787
# Who may use it, and what for: a file that only its user can read. Without it the server makes a token of its own.
# tokens = "/etc/cloister/tokens.toml"
# Names by which it is asked for, beside those of the address, and pages of other sites that may use it.
# hosts = ["api.example.com"]
# origins = ["https://console.example.com"]
# max_body_bytes = 4194304
# max_upload_bytes = 67108864
# head_timeout_ms = 10000
# body_timeout_ms = 30000
# rate_per_min = 6000
# keepalive_ms = 15000
# max_streams = 1000
# shutdown_ms = 5000

# Traces and metrics of `cloister serve`, by OTLP over HTTP. The variables OTEL_* hold too.
[telemetry]
# enabled = true
# endpoint = "http://127.0.0.1:4318"
# Whether what is said to models and by them is in it.
# content = false

# Threads of `cloister serve`: the model that is meant when nobody names one, and those that clients may name beside it
# and the tables [models.NAME].
[threads]
# model = "anthropic:claude-sonnet-4-5"
# models = ["openai:gpt-5-mini"]

# Whether programs of `cloister serve` may ask a model, which is that of threads if none is named.
[complete]
# enabled = false
# model = "openai:gpt-5-mini"
# max_calls = 8
# max_output_tokens = 1024
# timeout_ms = 120000
# concurrency = 4

# Whether they may start sessions with some of their tools.
[spawn]
# enabled = false
# max_depth = 1
# max_children = 4
# timeout_ms = 604800000

# Policies that tighten those of the tools.
[approvals]
# "shop.refund" = "manual"
# "bank.pay" = { auto = { rule = "args.amount < 100" } }

# MCP servers. Values of env and headers may refer to the environment: "${TOKEN}".
# [mcp.git]
# command = "mcp-server-git"
# args = ["--repository", "."]
#
# [mcp.docs]
# url = "https://example.com/mcp"
# headers = { Authorization = "Bearer ${DOCS_TOKEN}" }

# APIs that an OpenAPI document describes.
# [openapi.shop]
# document = "shop.yaml"
# credentials = { api_key = "${SHOP_KEY}" }

# Directories that the threads of `cloister serve` may work in: read_only, or copy_on_write, which never writes there.
# [environments.repo]
# path = "/srv/repo"
# mode = "copy_on_write"

# Models, beside those that need no table: anthropic:NAME, openai:NAME, openai-chat:NAME, scripted:PATH.
# [models.local]
# provider = "openai"
# wire = "chat"
# model = "qwen3-coder"
# base_url = "http://127.0.0.1:8000/v1"
# api_key_env = "LOCAL_KEY"
# prices = { input = "0.25", output = "2" }

# Plugins, with their options.
# [plugins.notes]
#
# [plugins.web]
# allow = ["api.example.com"]
"""
