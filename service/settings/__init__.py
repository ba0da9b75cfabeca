"""Settings of the service, read from the environment."""

from service.settings.addresses import address_of
from service.settings.environment import ConfigurationError, Settings, read_settings, secret_fields
from service.settings.fields import PREFIX

__all__ = ["PREFIX", "ConfigurationError", "Settings", "address_of", "read_settings", "secret_fields"]
