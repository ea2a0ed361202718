// Package storage stores the bytes of files as named parts, in a folder or as objects of an S3 server. The operator's
// setting selects one ([Open]). All nodes share it.
//
// A part is written once. After [Writing.Complete] has returned nil, the part is complete and survives a power failure.
// Before that it does not count, although a folder already has its file. A node that dies while it writes may leave a
// part without Complete: [Storage.List] lists it.
//
// Names consist of a folder and a file with a slash between them. Every file system accepts their characters. Package
// transfers creates the names, has the list of each file's parts, and deletes parts without a file.
package storage
