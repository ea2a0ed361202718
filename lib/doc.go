// Package lib has no code: it is the folder of the library under Stoa, whose packages stand below it. Package
// cache is where most begin; docs/library in the repository leads through all of them.
package lib
