"""The status of deployments over HTTP: health checks for orchestrators, metrics for Prometheus."""
