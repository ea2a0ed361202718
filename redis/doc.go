// Package redis sends typed keys to any Redis.
package redis
