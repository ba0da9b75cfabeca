"""Entry point of the service: `service.main:create_app` builds the ASGI application. Importing it starts nothing."""

from service.server.application import create_app

__all__ = ["create_app"]
