//go:build !race

package checkin

const raced = false
