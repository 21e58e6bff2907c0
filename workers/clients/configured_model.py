"""The model that the settings name."""

from actors.synthesis.local_model import LocalModel
from actors.synthesis.model_client import ModelClient
from workers.clients.openai_model import HttpModel
from workers.environment.settings import Settings


def model_of(settings: Settings) -> ModelClient:
    """Return the model that the settings name, this process's own where they name none."""
    if settings.model_url is None or settings.model_name is None:
        return LocalModel()
    return HttpModel(
        settings.model_url,
        settings.model_name,
        settings.model_key,
        timeout_s=settings.model_timeout_s,
    )
