// Package adopt proposes families for the keys of a Redis that runs already, so that a program
// whose keys are spelled by Sprintf gets a schema to begin with.
//
//	layout, err := adopt.Read(ctx, db, adopt.Options{})
//	if err == nil {
//		source, err := layout.Source("keys") // a keys.go for a reader to finish
//	}
//
// # How
//
// Every name is read once, page by page, and folded into a tree: a number becomes {n}, an identifier
// such as a UUID {id}, and where one place of a key has many words that have few keys each, such as names of
// users, they become {text}. Numbers that are the same in every key, such as that of a version, stay. What comes
// out are patterns; of a sample of the keys of each pattern the type, the life and, of a string, the beginning are
// asked for. Nothing is written.
//
// It is a guess from names, and the source says so where it matters: what a family is for, why it lives for ever and what is
// in it nobody can read from a key. Hold the finished declarations against the server with package audit, which knows
// each key that no family declares.
package adopt
