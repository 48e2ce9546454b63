"""The table of statuses and codes, as the contract has it."""

import pytest

from cloister.core.codes import STATUS_OF, Code, RunStatus, status_of

# Contract, section 2; SNAPSHOT_FOREIGN is the refusal of section 8.
TABLE = {
    "validation_error": (
        "SYNTAX_ERROR TYPE_ERROR UNKNOWN_TOOL UNSUPPORTED_FEATURE INVALID_ARGUMENTS INVALID_INPUT INVALID_LIMITS "
        "RESULT_NOT_SERIALIZABLE SNAPSHOT_CORRUPT SNAPSHOT_FOREIGN SNAPSHOT_VERSION_MISMATCH "
        "SNAPSHOT_CAPABILITY_MISMATCH"
    ),
    "runtime_error": "RUNTIME_ERROR TOOL_ERROR OUTCOME_UNKNOWN ENGINE_CRASHED",
    "timeout": "TIMEOUT_WALL TIMEOUT_CPU TIMEOUT_TOOL",
    "resource_exhausted": ("MEMORY_EXCEEDED STACK_OVERFLOW STDOUT_EXCEEDED EXTERNAL_CALLS_EXCEEDED RESULT_TOO_LARGE"),
    "permission_denied": "PERMISSION_DENIED APPROVAL_DENIED APPROVAL_EXPIRED",
    "interrupted": "INTERRUPTED",
    "cancelled": "CANCELLED",
}
ROWS = [(code, status) for status, codes in TABLE.items() for code in codes.split()]
# Notes in a result's diagnostics; no run ends with one of them.
NOTES = {"ROLLED_BACK", "CALL_NOT_AWAITED"}


@pytest.mark.parametrize(("code", "status"), ROWS)
def test_code_has_the_status_of_the_contract(code: str, status: str) -> None:
    assert status_of(code) == status


def test_every_code_is_in_the_table_or_is_a_note() -> None:
    assert {str(code) for code in Code} == {code for code, _ in ROWS} | NOTES


def test_every_code_but_the_notes_has_a_status() -> None:
    assert {str(code) for code in STATUS_OF} == {str(code) for code in Code} - NOTES


def test_no_code_stands_for_a_good_or_a_waiting_run() -> None:
    assert not {RunStatus.OK, RunStatus.WAITING_FOR_APPROVAL} & set(STATUS_OF.values())


def test_code_is_written_as_it_is_named() -> None:
    assert all(code.name == code.value for code in Code)


def test_code_that_only_a_tool_knows_counts_as_a_failed_tool() -> None:
    assert status_of("OUT_OF_STOCK") is RunStatus.RUNTIME_ERROR
