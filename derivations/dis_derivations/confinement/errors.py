"""What can go wrong where a build may not use the network."""

from dis_store.errors import BuildError, UnfitEnvironmentError


class NetworkAttemptError(BuildError):
    """A build tried to use the network, which its manifest forbids: `runtime.network_policy` is `offline_required`.

    Nothing was reached. The cause and the log of the build name the addresses. Where the network is meant to be used,
    say so in the manifest: `--set runtime.network_policy=online_allowed`.
    """

    code = "E0340"


class NoConfinementError(UnfitEnvironmentError):
    """A manifest forbids the network to its builds, and this machine offers no way to enforce it.

    The cause says what was tried. `dis doctor` tries the same.
    """

    code = "E0540"
