"""The HTTP status of every error code, in one table; `cli/exits` has those of the shell.

What a program did wrong is data in an answer of 200 and never here. A code that is missing is a defect: 500.
"""

from collections.abc import Mapping

HTTP_STATUS: Mapping[str, int] = {
    # Of the tree in `core.errors`.
    "INTERNAL": 500,
    "INVALID_INPUT": 422,
    "INVALID_SESSION_ID": 422,
    "INVALID_LANGUAGE": 422,
    "INVALID_LIMITS": 422,
    "INVALID_TOOL_NAME": 422,
    "INVALID_CONFIG": 422,
    "SESSION_NOT_FOUND": 404,
    "SESSION_EXISTS": 409,
    "SESSION_CLOSED": 409,
    "CELL_NOT_FOUND": 404,
    "CELL_BUSY": 409,
    "QUEUE_FULL": 429,
    "CANNOT_REPLAY": 409,
    "FILE_NOT_FOUND": 404,
    "FILE_CONFLICT": 409,
    "ATTACHMENT_NOT_FOUND": 404,
    "SECRETS_LOCKED": 409,
    "QUOTA_EXCEEDED": 422,
    "SNAPSHOT_CORRUPT": 422,
    "SNAPSHOT_FOREIGN": 422,
    "SNAPSHOT_VERSION_MISMATCH": 409,
    "SNAPSHOT_CAPABILITY_MISMATCH": 409,
    "APPROVAL_NOT_FOUND": 404,
    "APPROVAL_CLOSED": 409,
    "STORE_UNAVAILABLE": 503,
    "STORE_UNUSABLE": 503,
    "STORE_CONFLICT": 409,
    "LEASE_LOST": 409,
    "SOURCE_UNAVAILABLE": 503,
    "CONFINEMENT_UNAVAILABLE": 503,
    "ENGINE_UNAVAILABLE": 503,
    # Of the way to them.
    "MALFORMED": 400,
    "UNAUTHENTICATED": 401,
    "FORBIDDEN": 403,
    "ORIGIN_REFUSED": 403,
    "NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "UPLOAD_TIMEOUT": 408,
    "IDEMPOTENCY_CONFLICT": 409,
    "PRECONDITION_FAILED": 412,
    "BODY_TOO_LARGE": 413,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "HOST_REFUSED": 421,
    "RATE_LIMITED": 429,
    "SHUTTING_DOWN": 503,
}
