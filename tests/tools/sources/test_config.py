"""MCP servers from configuration: what is read, and how a mistake is named."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloister.core.errors import InvalidConfig, InvalidInput
from cloister.tools.sources.config import read_mcp_servers, read_mcp_tables
from cloister.tools.sources.held import Held
from cloister.tools.sources.mcp import McpHttp, McpStdio
from tests.core.json_values import json_values


def test_both_kinds_of_server_are_read_in_their_order() -> None:
    config = {
        "mcpServers": {
            "git": {"command": "mcp-server-git", "args": ["--repository", "."], "env": {"A": "1"}, "cwd": "/tmp"},
            "docs": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}, "type": "http"},
            "off": {"command": "x", "disabled": True},
        },
        "somebodyElses": True,
    }
    git, docs = read_mcp_servers(config, environment={"TOKEN": "t-123456"})
    assert isinstance(git, McpStdio)
    assert (git.name, git.command, git.args, git.env, git.cwd) == (
        "git",
        "mcp-server-git",
        ("--repository", "."),
        {"A": "1"},
        "/tmp",
    )
    assert isinstance(docs, McpHttp)
    held = docs.headers["Authorization"]
    assert isinstance(held, Held)
    assert held() == "Bearer t-123456"
    assert "t-123456" not in repr(docs) + repr(held)


def test_tables_take_the_terms_of_the_host() -> None:
    table = {
        "command": "x",
        "namespace": "notes",
        "tools": ["get_*"],
        "approval": "manual",
        "approvals": {"get_a": {"auto": {"rule": "args.n < 5"}}},
        "defer_loading": True,
        "call_timeout_ms": 5,
    }
    (server,) = read_mcp_tables({"My notes": table})
    assert (server.space, server.tools, server.call_timeout_ms) == ("notes", ("get_*",), 5)


def test_a_variable_that_is_missing_may_have_something_in_its_place() -> None:
    (server,) = read_mcp_tables(
        {"a": {"command": "x", "env": {"K": "${NONE:-other}-${HERE}"}}}, environment={"HERE": "h"}
    )
    assert isinstance(server, McpStdio)
    held = server.env["K"]
    assert callable(held)
    assert held() == "other-h"


def test_variables_are_expanded_in_values_only() -> None:
    (server,) = read_mcp_tables({"a": {"command": "${HOME}/x", "args": ["${HOME}"]}}, environment={})
    assert isinstance(server, McpStdio)
    assert (server.command, server.args) == ("${HOME}/x", ("${HOME}",))


@pytest.mark.parametrize(
    ("table", "path", "said"),
    [
        ({"comand": "x"}, "mcp.a.comand", "did you mean `command`?"),
        ({"command": "x", "arg": []}, "mcp.a.arg", "did you mean `args`?"),
        ({"httpUrl": "http://y"}, "mcp.a.httpUrl", "write `url`"),
        ({"command": "x", "alwaysAllow": ["t"]}, "mcp.a.alwaysAllow", 'write `approvals`: {"TOOL": "none"}'),
        ({"command": "x", "timeout": 60}, "mcp.a.timeout", "write `call_timeout_ms`, in milliseconds"),
        ({}, "mcp.a", "says neither `command` nor `url`"),
        ({"command": "x", "url": "http://y"}, "mcp.a.url", "does not go with `command`"),
        ({"url": "http://y", "args": []}, "mcp.a.args", "does not go with `url`"),
        ({"command": "x", "args": "y"}, "mcp.a.args", "is a list of texts, not str"),
        ({"command": "x", "args": ["y", 5]}, "mcp.a.args[1]", "is text, not int"),
        ({"command": "x", "env": {"A": 5}}, "mcp.a.env.A", "is text, not int"),
        ({"command": "x", "env": {"A": "${NONE}"}}, "mcp.a.env.A", "the environment has no variable 'NONE'"),
        ({"command": "x", "env": {"A": "${no name}"}}, "mcp.a.env.A", "names no variable"),
        ({"url": "ftp://y"}, "mcp.a", "`url` is an http or https URL"),
        ({"url": "http://u:p@y"}, "mcp.a", "`url` has a password in it"),
        ({"url": "http://y", "headers": {"Host": "z"}}, "mcp.a", "'Host', which cannot be set"),
        ({"url": "http://y", "type": "sse"}, "mcp.a.type", "only SSE are not supported"),
        ({"url": "http://y", "type": "stdio"}, "mcp.a.type", "which needs `command`"),
        ({"command": "x", "disabled": "no"}, "mcp.a.disabled", "is true or false"),
        ({"command": "x", "call_timeout_ms": "5"}, "mcp.a", "`call_timeout_ms` is a whole number"),
        ({"command": "x", "approval": "sometimes"}, "mcp.a", "unknown approval policy 'sometimes'"),
        ({"command": "x", "namespace": "a b"}, "mcp.a", "'a b' cannot be the name of a tool"),
        ({"command": 5}, "mcp.a", "`command` is the program to start"),
        ("x", "mcp.a", "is an object with names, not str"),
    ],
)
def test_a_mistake_is_named_with_the_path_of_its_key(table: Any, path: str, said: str) -> None:
    with pytest.raises(InvalidConfig) as failed:
        read_mcp_tables({"a": table}, environment={})
    assert failed.value.path == path
    assert failed.value.message.startswith(f"{path}: ")
    assert said in f"{failed.value.message} {failed.value.hint}"


@pytest.mark.parametrize("written", ["http", "streamable-http", "streamable_http", "streamableHttp"])
def test_kind_of_a_server_may_be_written_as_other_clients_do(written: str) -> None:
    (server,) = read_mcp_tables({"a": {"url": "http://y", "type": written}}, environment={})
    assert isinstance(server, McpHttp)


def test_two_servers_of_one_namespace_are_refused() -> None:
    with pytest.raises(InvalidConfig, match="the namespace 'a_b', and so has 'a-b'"):
        read_mcp_tables({"a-b": {"command": "x"}, "a.b": {"command": "y"}})


def test_a_config_of_another_shape_is_told_what_was_meant() -> None:
    with pytest.raises(InvalidConfig) as failed:
        read_mcp_servers({"mcpservers": {}})
    assert failed.value.hint == "did you mean `mcpServers` where it says 'mcpservers'?"


@given(json_values)
def test_any_config_is_read_or_refused_by_name(config: Any) -> None:
    for given_config in (config, {"mcpServers": config}, {"mcpServers": {"a": config}}):
        try:
            read_mcp_servers(given_config, environment={})
        except InvalidInput:
            pass


@given(st.text())
def test_any_value_of_a_variable_is_expanded_or_refused(text: str) -> None:
    try:
        read_mcp_tables({"a": {"command": "x", "env": {"K": text}}}, environment={"A": "b"})
    except InvalidInput:
        pass
