"""The exit codes and what they mean; docs/reference/exit-codes.md says the same, and a test holds it."""

EXIT_CODES = {
    0: "done; for the questions diff, verify, why-depends, why-alive, environment show, lock --check and "
    "realize --rebuild: yes",
    1: "the answer is no: the results differ, the grade is not conformant, a rebuild made other bits, nothing refers "
    "to it or keeps it, or what is locked would be pinned differently today",
    2: "wrong usage, or an invalid manifest, lock, reference or config.toml",
    3: "a build, a fetch or a run failed, or dis itself did",
    4: "integrity: a digest or a stored object is not what it must be",
    5: "this machine or this version cannot do it: no engine, disk full, store not writable",
    130: "interrupted with Ctrl-C",
    141: "nobody reads stdout any more",
    143: "interrupted with SIGTERM",
}
