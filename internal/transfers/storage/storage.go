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

// Storage stores parts of files under their names. Each part is written once and never changes. It is safe for
// concurrent use.
type Storage interface {
	// Create begins a part. Its bytes do not count until it is complete.
	Create(ctx context.Context, name string) (Writing, error)

	// Open reads n bytes of a part, starting at from.
	Open(ctx context.Context, name string, from, n int64) (io.ReadCloser, error)

	// Remove deletes parts. A missing part is not an error.
	Remove(ctx context.Context, names ...string) error

	// List calls each with the names of all parts, in no order. It includes parts that a node began before it died.
	List(ctx context.Context, each func(name string) error) error

	// InMemory reports whether a part is in memory until it is complete, so that only one should be written at a time.
	InMemory() bool

	// String returns the location of the files, without credentials.
	String() string

	io.Closer
}

// Writing is a part that is being written.
type Writing interface {
	io.Writer

	// Complete makes the part durable. It is called once, instead of Abort.
	Complete(ctx context.Context) error

	// Abort deletes the part.
	Abort()
}

// Open returns the storage of a setting. If the setting is "folder" or empty, this is the folder files. It creates a
// missing folder, but sends no request to a bucket's server. The caller must close the storage. It returns the error of
// [Check], or an error of the folder.
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

// OpenLater is Open for a node that may never use the storage: a folder is created at its first use. It returns the
// error of [Check].
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

// Check returns the fault of a setting, or nil. It opens nothing.
func Check(setting string) error {
	_, _, err := parse(setting)
	return err
}

// parse returns the folder of a setting ("" for the folder of [Open]'s caller), or the URL of its bucket.
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

// TryBucket lists the first name in the bucket of a setting. It returns the bucket's location, and reports whether the
// bucket keeps versions of deleted objects.
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
	return b.String(), b.hasVersions(ctx), nil
}

// IsFull reports whether an error of a storage means that it has no space.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || isBucketFull(err)
}

// IsMissing reports whether an error of [Storage.Open] means that the part does not exist.
func IsMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) || isObjectMissing(err) }
