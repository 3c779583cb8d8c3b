"""What is said of servers: where they answer, how they are used and stopped, and what has become of them."""

from typing import TYPE_CHECKING, Any

from dis_command.session import Session

if TYPE_CHECKING:
    from dis_derivations.realisation.dry_run import DryRun
    from dis_derivations.serving.records import ServerRecord, ServerRecords
    from dis_derivations.serving.served import Served
    from dis_derivations.serving.starting import Placement
    from dis_derivations.serving.states import State

WITH_NETWORK = (
    "note: the manifest forbids the network to builds and runs; a server listens on it, and is not "
    "kept off it"
)


def show_server_plan(
    session: Session, plan: "DryRun", served: "Served", placement: "Placement"
) -> None:
    """Print what would be built, fetched and started."""
    from dis_command.planned_builds import show_plan
    from dis_command.realised_documents import dry_run_document

    if session.as_json:
        server = {"name": placement.name, "url": placement.url, "model": served.model}
        session.print_document({**dry_run_document(plan), "server": server})
        return
    show_plan(session, plan)
    session.print_line(
        f"then the server {placement.name} would be started at {placement.url}, for the model {served.model}"
    )


def directions(record: "ServerRecord", config: str, *, forbids_network: bool) -> str:
    """Return how a server is used and stopped; a manifest that forbids the network does so to runs on servers."""
    import shlex

    fields = ["backend=openai_compatible", f"base_url={record.url}"]
    sets = [f"--set runtime.execution.{each}" for each in fields]
    if forbids_network:
        sets.append("--set runtime.network_policy=online_allowed")
    return (
        f"use it:  its model is called {record.model}; or dis run {shlex.quote(config)} {' '.join(sets)}\n"
        f"stop it: dis serve kill {record.name}"
    )


def log_of(records: "ServerRecords", record: "ServerRecord") -> str:
    """Return where what a server says can be read while it runs."""
    if record.container is None:
        return str(records.log(record.name))
    return f"docker logs {record.container.name}"


def server_document(
    records: "ServerRecords", record: "ServerRecord", state: "State"
) -> dict[str, Any]:
    """Return what programs are told of a server."""
    container = record.container
    return {
        "schema_version": 1,
        "name": record.name,
        "url": record.url,
        "model": record.model,
        "state": state,
        "process": None if record.process is None else record.process.pid,
        "container": None if container is None else container.name,
        "closure": str(record.closure),
        "store": str(record.store),
        "roots": list(record.roots),
        "since": record.since,
        "log": log_of(records, record),
    }


def servers_text(found: list[tuple["ServerRecord", "State"]]) -> str:
    """Return the table of servers; empty where there is none."""
    from dis_command.table import aligned

    if not found:
        return ""
    rows = [
        (each.name, state, each.url, _place_of(each), each.closure[:12], each.since)
        for each, state in found
    ]
    return aligned([("NAME", "STATE", "URL", "RUNS AS", "CLOSURE", "SINCE"), *rows])


def _place_of(record: "ServerRecord") -> str:
    if record.container is not None:
        return record.container.name
    return "" if record.process is None else f"process {record.process.pid}"
