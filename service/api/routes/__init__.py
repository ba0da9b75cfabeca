"""Routes by subject: resources, stored results, jobs of operators, discovery, pages and health checks."""
