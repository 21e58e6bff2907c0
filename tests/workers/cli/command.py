"""The command `rotulus` in the test's process."""

import json
from typing import Any

from click.testing import CliRunner, Result

from workers.cli.main import main


def rotulus(*arguments: str, stdin: str | None = None, **environment: str) -> Result:
    """Run the command; what escapes it as an exception is a defect, whatever the test expects."""
    result = CliRunner().invoke(main, arguments, input=stdin, env=environment)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return result


def printed(*arguments: str, code: int = 0, stdin: str | None = None) -> Any:
    result = rotulus(*arguments, stdin=stdin)
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)
