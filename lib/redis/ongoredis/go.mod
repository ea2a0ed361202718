module github.com/stoa-dev/stoa/lib/redis/ongoredis

go 1.26.0

require github.com/redis/go-redis/v9 v9.23.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/klauspost/compress v1.20.1 // indirect
	github.com/maypok86/otter/v2 v2.4.0 // indirect
	github.com/redis/rueidis v1.0.79 // indirect
	github.com/stoa-dev/stoa/lib v0.0.0
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/stoa-dev/stoa/lib => ../..
