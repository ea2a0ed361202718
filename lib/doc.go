// Package lib has no code: it is the folder of Stoa's library, which contains the packages. Start with package cache;
// docs/library in the repository describes all of them.
package lib
