// Package deploy holds what runs Stoa in production: settings for Redis and for proxies,
// alerts for Prometheus and a dashboard for Grafana. There is no code in it; its tests
// run the files as they are, on the programs they are for. Package e2e runs those of proxies.
package deploy
