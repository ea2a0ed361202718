//go:build race

package accounts

// raced says that the race detector watches, which slows some work tenfold and
// some not at all.
const raced = true
