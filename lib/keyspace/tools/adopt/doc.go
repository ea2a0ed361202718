// Package adopt proposes families for the keys of an existing Redis, so that a program that builds its keys with
// Sprintf can start with a schema.
//
//	layout, err := adopt.Read(ctx, db, adopt.Options{})
//	if err == nil {
//		source, err := layout.Source("keys") // a keys.go that a developer completes
//	}
//
// # How
//
// Read scans every name once, page by page, and adds it to a tree. A number becomes {n}, and an identifier such as a
// UUID becomes {id}. If one position of a key has many words with few keys each, such as the names of users, these words
// become {text}. A number that is the same in every key, such as a version, is not replaced. The tree then contains the
// patterns. For a sample of the keys of each pattern, Read asks for the type, the TTL and the beginning of a string.
// Read writes nothing.
//
// The result is a guess from names, and the source marks what a developer has to complete: a key does not show the
// purpose of a family, the reason why it never expires, or the meaning of its values. Check the finished declarations
// with package audit, which reports every key that no family declares.
package adopt
