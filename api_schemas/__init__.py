"""The contract of the service: what a request may say and what a response says back."""
