// Package redis replaces the client.
package redis
