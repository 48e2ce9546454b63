"""The names of attributes, spans and metrics: the semantic conventions for generative AI and HTTP, and our own.

The conventions for generative AI still change. When they do, this is the file to change.
"""

# -- generative AI ---------------------------------------------------------------------------------------------------

OPERATION = "gen_ai.operation.name"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"
INVOKE_AGENT = "invoke_agent"

AGENT_NAME = "gen_ai.agent.name"
CONVERSATION_ID = "gen_ai.conversation.id"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
REQUEST_TEMPERATURE = "gen_ai.request.temperature"
RESPONSE_ID = "gen_ai.response.id"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105 - a name of an attribute
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL_ID = "gen_ai.tool.call.id"
# Content: only where the host asked for it.
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"

OPERATION_DURATION = "gen_ai.client.operation.duration"
TOKEN_USAGE = "gen_ai.client.token.usage"  # noqa: S105 - a name of a metric

# How providers are called here, where the conventions call them otherwise.
PROVIDERS = {"openai-chat": "openai"}

# -- HTTP, errors ----------------------------------------------------------------------------------------------------

HTTP_METHOD = "http.request.method"
HTTP_ROUTE = "http.route"
HTTP_STATUS = "http.response.status_code"
HTTP_DURATION = "http.server.request.duration"
ERROR_TYPE = "error.type"
OTHER = "_OTHER"

# -- our own ---------------------------------------------------------------------------------------------------------

AGENT = "cloister"
CELL = "cell"
SESSION_ID = "cloister.session.id"
CELL_ID = "cloister.cell.id"
CELL_STATE = "cloister.cell.state"
# It went on here with what it had begun before: after a person's answer, or in another process.
RESUMED = "cloister.resumed"
TURN_ID = "cloister.turn.id"
TURN_STATUS = "cloister.turn.status"
CALL_STATUS = "cloister.call.status"
SIDE_EFFECT = "cloister.call.side_effect"
COST = "cloister.cost.amount"
COST_CURRENCY = "cloister.cost.currency"

CELL_DURATION = "cloister.cell.duration"
CALL_DURATION = "cloister.call.duration"
TURN_DURATION = "cloister.turn.duration"
