// Package redis stands for the client.
package redis
