package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"strings"
	"syscall"
)

// Storage keeps parts of files under their names. Each is written once, and never changed.
// It is safe for concurrent use.
type Storage interface {
	// Create begins a part. What is written to it counts for nothing until it is kept.
	Create(ctx context.Context, name string) (Writing, error)

	// Open reads n bytes of a part from a byte on.
	Open(ctx context.Context, name string, from, n int64) (io.ReadCloser, error)

	// Remove removes parts. One that is not there is no error.
	Remove(ctx context.Context, names ...string) error

	// List calls each with the names of all parts, in no order, also of such as were begun
	// by a node that died.
	List(ctx context.Context, each func(name string) error) error

	// InMemory reports that a part is in memory until it is kept, so that there should be
	// one at a time.
	InMemory() bool

	// String says where the files are, without credentials.
	String() string

	io.Closer
}

// Writing is a part that is being written.
type Writing interface {
	io.Writer

	// Keep makes the part durable. It is called once, instead of Abort.
	Keep(ctx context.Context) error

	// Abort leaves nothing of the part.
	Abort()
}

// Open returns the storage of a setting. Where the setting is "folder" or empty, that is the
// folder files. It makes a folder that is not there, and does not ask a bucket's server. Close it.
// The error is that of [Check], or one of the folder.
func Open(setting, files string) (Storage, error) {
	s, err := OpenLater(setting, files)
	if f, ok := s.(*folder); ok {
		if _, err = f.open(); err != nil {
			err = fmt.Errorf("%w: set files.storage to a writable folder or a bucket", err)
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// OpenLater is Open for a node that may never use the storage: a folder is created at its first use. The error is that of [Check].
func OpenLater(setting, files string) (Storage, error) {
	dir, bucket, err := parse(setting)
	switch {
	case err != nil:
		return nil, err
	case bucket != nil:
		return newBucket(bucket)
	case dir != "":
		files = dir
	}
	return &folder{path: files}, nil
}

// Check returns what is wrong with a setting, or nil. It opens nothing.
func Check(setting string) error {
	_, _, err := parse(setting)
	return err
}

// parse takes a setting apart: a folder, "" for the one that the caller of [Open] names, or
// the URL of a bucket.
func parse(setting string) (folder string, bucket *url.URL, err error) {
	kind, rest, _ := strings.Cut(setting, ":")
	switch {
	case setting == "" || setting == "folder":
		return "", nil, nil
	case kind == "folder" && rest != "":
		return rest, nil, nil
	case kind != "s3":
		return "", nil, errors.New("files are in folder, folder:/path or s3://KEY:SECRET@host/bucket")
	}
	u, err := url.Parse(setting)
	if err != nil || u.Host == "" || strings.Trim(u.Path, "/") == "" || u.User == nil {
		return "", nil, errors.New("a bucket is s3://KEY:SECRET@host/bucket, with /prefix, ?region=… and ?tls=false as needed")
	}
	return "", u, nil
}

// TryBucket asks the bucket of a setting for its first name, and returns where it is, and whether it says that
// it keeps versions of what is removed.
func TryBucket(ctx context.Context, setting string) (at string, versions bool, err error) {
	_, u, err := parse(setting)
	if err != nil {
		return "", false, err
	}
	b, err := newBucket(u)
	if err != nil {
		return "", false, err
	}
	enough := errors.New("one is enough")
	if err := b.List(ctx, func(string) error { return enough }); err != nil && !errors.Is(err, enough) {
		return b.String(), false, err
	}
	return b.String(), b.keepsVersions(ctx), nil
}

// IsFull reports whether an error of a storage says that there is no room.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || isBucketFull(err)
}

// IsMissing reports whether an error of [Storage.Open] says that there is no such part.
func IsMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) || isObjectMissing(err) }
