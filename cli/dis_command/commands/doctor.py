"""`dis doctor`: can this machine do the work."""

from typing import TYPE_CHECKING

from dis_command.command import command, json_option, pass_session
from dis_command.session import Session

if TYPE_CHECKING:
    from dis_command.machine_checks import Check, Status

_COLORS = {"PASS": "32", "INFO": "36", "WARN": "33", "FAIL": "31"}
_UNFIT = 5


@command("doctor", examples=("dis doctor", "dis doctor --json"))
@json_option
@pass_session
def doctor(session: Session) -> int:
    """Check that this machine can do the work.

    Each line is [PASS], [INFO], [WARN] or [FAIL], with what to do about it. The
    exit code is 5 when anything is [FAIL]. Nothing is contacted over a network.
    """
    from dis_command.machine_checks import machine_checks
    from dis_command.service_checks import service_checks
    from dis_command.store_checks import store_checks

    checks = [
        *store_checks(session),
        *machine_checks(session.environment),
        *service_checks(session.environment),
    ]
    if session.as_json:
        session.print_document({"schema_version": 1, "checks": [vars(check) for check in checks]})
    else:
        for check in checks:
            _print(session, check)
    return _UNFIT if any(check.status == "FAIL" for check in checks) else 0


def _print(session: Session, check: "Check") -> None:
    from dis_command.terminal import printable

    print(
        f"{_badge(check.status, color=session.color_on_stdout)} {printable(f'{check.name}: {check.detail}')}"
    )
    if check.fix is not None:
        print(f"       fix: {printable(check.fix)}")


def _badge(status: "Status", *, color: bool) -> str:
    return f"\x1b[{_COLORS[status]}m[{status}]\x1b[0m" if color else f"[{status}]"
