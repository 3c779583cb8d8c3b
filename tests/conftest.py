"""Settings for the whole suite."""

import os

from hypothesis import HealthCheck, settings

# Machines are noisy, so no example may fail for taking long: pytest's own timeout catches what hangs.
settings.register_profile("dis", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dis")

# No test asks a hub of the world, or reads the cache and the token of whoever runs it; a test with a hub names its own.
# Set here, because huggingface_hub reads some of it when it is imported.
os.environ.update(HF_ENDPOINT="http://127.0.0.1:9", HF_HOME="/nonexistent/huggingface")
for _name in ("HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "HUGGING_FACE_HUB_TOKEN"):
    os.environ.pop(_name, None)
