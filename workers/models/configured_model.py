"""Makes the model that the settings name."""

from actors.synthesis.local_model import LocalModel
from actors.synthesis.model_client import ModelClient
from workers.environment.settings import Settings
from workers.models.openai_model import HttpModel
from workers.plugins.installed import model_plugin
from workers.plugins.plugin_model import PluginModel


def model_of(settings: Settings) -> ModelClient:
    """Return the model that the settings name, this process's own where they name none.

    Raises:
        PluginError: it is a plug-in's, and cannot be used.
    """
    return model_of_settings(settings) or LocalModel()


def model_of_settings(settings: Settings) -> HttpModel | PluginModel | None:
    """Return the model that the settings name, None where they name none.

    Raises:
        PluginError: it is a plug-in's, and cannot be used.
    """
    if settings.model_name is None:
        return None
    if settings.model_url is None:
        return model_plugin(settings.model_name)
    return HttpModel(
        settings.model_url,
        settings.model_name,
        settings.model_key,
        timeout_s=settings.model_timeout_s,
    )


async def close_model(model: ModelClient) -> None:
    """Close what the model of the settings holds."""
    if isinstance(model, HttpModel | PluginModel):
        await model.aclose()
