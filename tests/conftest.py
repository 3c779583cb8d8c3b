"""Settings for the whole suite."""

from hypothesis import HealthCheck, settings

# Machines are noisy, so no example may fail for taking long: pytest's own timeout catches what hangs.
settings.register_profile("dis", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dis")
