"""Conversions (`POST /v1/conversions/...`): closed forms that turn one privacy parameter into another."""
