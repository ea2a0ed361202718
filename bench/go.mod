module github.com/stoa-dev/stoa/bench

go 1.26.0

require github.com/stoa-dev/stoa v0.0.0

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/go-sql-driver/mysql v1.10.1 // indirect
)

replace github.com/stoa-dev/stoa => ../
