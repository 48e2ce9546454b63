import subprocess
import sys

import pytest

from cloister.client.errors import ERROR_OF, Problem, RequestRefused, error_of
from cloister.core import errors
from cloister.core.errors import CloisterError, ModelRateLimited, ProviderMismatch
from cloister.core.statuses import HTTP_STATUS

KINDS = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, CloisterError)]
CODES = {one.code for one in KINDS if "code" in vars(one)}


def test_every_error_of_the_core_comes_back_by_its_code() -> None:
    assert set(ERROR_OF) == CODES


@pytest.mark.parametrize("code", sorted(HTTP_STATUS))
def test_problem_becomes_an_exception_with_its_words(code: str) -> None:
    problem = Problem(HTTP_STATUS[code], code, "it is wrong", "do right", "/a/b", "req_1")
    error = error_of(problem)
    if code in CODES:
        assert error.code == code
        assert (error.message, error.hint) == ("it is wrong", "do right")
        assert isinstance(error.__cause__, RequestRefused)
        error = error.__cause__
    assert isinstance(error, RequestRefused)
    assert error.problem == problem
    assert code in str(error)


def test_parts_that_do_not_travel_are_empty_and_not_missing() -> None:
    mismatch = error_of(Problem(409, "provider_mismatch", "thread t talks to 'a', not to 'b'"))
    assert isinstance(mismatch, ProviderMismatch)
    assert (mismatch.expected, str(mismatch)) == ("", "thread t talks to 'a', not to 'b'")
    limited = error_of(Problem(503, "model_rate_limited", "too many"))
    assert isinstance(limited, ModelRateLimited)
    assert (limited.provider, limited.retry_after_ms) == ("", None)


def test_code_of_a_newer_server_is_refused_with_its_code() -> None:
    error = error_of(Problem(418, "TEAPOT", "no coffee"))
    assert isinstance(error, RequestRefused)
    assert error.problem.code == "TEAPOT"


def test_client_without_its_extra_says_what_to_install() -> None:
    code = "import sys; sys.modules['httpx2'] = None; import cloister.client"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'cloister[client]'" in done.stderr
