// Package storage keeps the bytes of files: parts under names, in a folder or as objects of an
// S3 server, as the operator's setting says ([Open]). The nodes of a server share it.
//
// What holds: a part is written once. When [Writing.Keep] has returned nil, the part is there as
// a whole, and outlives a loss of power; before that it counts for nothing, though a folder has
// its file already. A node that dies while it writes may leave a part that nobody has kept:
// [Storage.List] names it.
//
// Names are a folder and a file with a slash between, whose letters any file system takes.
// Package transfers makes them, knows which parts belong to which file, and removes those that
// belong to none.
package storage
