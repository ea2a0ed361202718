//go:build !race

package accounts

const raced = false
