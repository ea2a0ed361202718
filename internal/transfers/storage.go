package transfers

import (
	"context"
	"errors"
	"io"
	"slices"
	"syscall"

	"github.com/stoa-dev/stoa/internal/foundation/errs"
)

// Storage keeps parts of files under their names. Each is written once, and never changed.
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

// asStorage gives errors of a storage the kind that callers act on.
func asStorage(err error) error {
	switch {
	case err == nil, errs.KindOf(err) != errs.Internal, errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT), isFull(err):
		return errors.Join(ErrFull, err)
	}
	return errors.Join(ErrStorage, err)
}

// TryBucket asks the bucket of a storage setting for its first name, and returns where it is, and whether it says that
// it keeps versions of what is removed.
func TryBucket(ctx context.Context, setting string) (at string, versions bool, err error) {
	_, u, err := parseStorage(setting)
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

// content reads a file of parts.
type content struct {
	ctx     context.Context //nolint:containedctx // of the request that reads
	storage Storage
	parts   []part // in order, without gaps
	size    int64
	at      int64
	open    io.ReadCloser // of the part at which the reader stands; nil: none
	left    int64         // bytes of it

	read  int64 // bytes, for the metrics
	fault error // with which reading ended before the end
}

// newContent returns a reader of parts, which have to be all of a file's.
func newContent(ctx context.Context, storage Storage, parts []part, size int64) (*content, error) {
	var end int64
	for _, p := range parts {
		if p.start != end {
			return nil, errors.New("a part of the file is missing")
		}
		end += p.size
	}
	if end != size {
		return nil, errors.New("the end of the file is missing")
	}
	return &content{ctx: ctx, storage: storage, parts: parts, size: size}, nil
}

// Read implements io.Reader.
func (c *content) Read(b []byte) (int, error) {
	n, err := c.next(b)
	c.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		c.fault = err
	}
	return n, err
}

func (c *content) next(b []byte) (int, error) {
	if c.at >= c.size {
		return 0, io.EOF
	}
	if c.open == nil {
		i, found := slices.BinarySearchFunc(c.parts, c.at, func(p part, at int64) int {
			switch {
			case p.start+p.size <= at:
				return -1
			case p.start > at:
				return 1
			}
			return 0
		})
		if !found {
			return 0, io.ErrUnexpectedEOF
		}
		p := c.parts[i]
		c.left = p.start + p.size - c.at
		r, err := c.storage.Open(c.ctx, p.name, c.at-p.start, c.left)
		if err != nil {
			return 0, err
		}
		c.open = r
	}
	n, err := c.open.Read(b[:min(int64(len(b)), c.left)])
	c.at, c.left = c.at+int64(n), c.left-int64(n)
	switch {
	case c.left == 0:
		return n, c.Close()
	case errors.Is(err, io.EOF):
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

// Seek implements io.Seeker.
func (c *content) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.at
	case io.SeekEnd:
		offset += c.size
	}
	if offset < 0 {
		return 0, errors.New("a place before the beginning")
	}
	if offset == c.at {
		return offset, nil
	}
	c.at = offset
	return offset, c.Close()
}

// Close implements io.Closer. The reader can be used again.
func (c *content) Close() error {
	if c.open == nil {
		return nil
	}
	err := c.open.Close()
	c.open = nil
	return err
}
