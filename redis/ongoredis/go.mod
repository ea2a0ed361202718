module github.com/stoa-dev/stoa/redis/ongoredis

go 1.26.0

require (
	github.com/redis/go-redis/v9 v9.23.0
	github.com/stoa-dev/stoa v0.0.0
)

replace github.com/stoa-dev/stoa => ../..
