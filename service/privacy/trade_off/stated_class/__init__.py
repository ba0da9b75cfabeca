"""Trade-off curves of classes of mechanisms: every mechanism with bounded Renyi divergences, and chains of such."""
