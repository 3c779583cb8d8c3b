"""What the settings ask of images before they are used."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dis_command.session import Session
    from dis_derivations.realisation.events import Reporter
    from dis_derivations.realisation.target import ImageCheck


def image_check_of(session: "Session") -> "ImageCheck | None":
    """Return what refuses an image that nobody vouches for; None where the settings do not ask for that.

    Raises:
        InvalidSettingError: A file of settings is malformed.
    """
    written = session.settings.written("image-trust")
    if not written or written[0].value == "off":
        return None
    from dis_command.trust import read_trust

    policy = read_trust(session).images

    def check(name: str | None, pinned: Mapping[str, str], reporter: "Reporter") -> None:
        from dis_derivations.images.attestations import check_image
        from dis_derivations.registry.client import RegistryClient

        with RegistryClient(session.environment) as client:
            check_image(client, name, pinned, policy, reporter)

    return check
