package transfers

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/transfers/storage"
)

// asStorage gives errors of a storage the kind that callers act on.
func asStorage(err error) error {
	switch {
	case err == nil, errs.KindOf(err) != errs.Internal, errors.Is(err, context.Canceled):
		return err
	case storage.IsFull(err):
		return errors.Join(ErrFull, err)
	}
	return errors.Join(ErrStorage, err)
}

// content reads a file that consists of parts.
type content struct {
	ctx       context.Context //nolint:containedctx // of the request that reads
	storage   storage.Storage
	parts     []part // in order, without gaps
	size      int64
	at        int64
	open      io.ReadCloser // the present part; nil: none
	remaining int64         // bytes of the present part

	read  int64 // bytes, for the metrics
	fault error // the error that ended reading early
}

// newContent returns a reader of parts. It returns an error unless they are all parts of the file.
func newContent(ctx context.Context, from storage.Storage, parts []part, size int64) (*content, error) {
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
	return &content{ctx: ctx, storage: from, parts: parts, size: size}, nil
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
		c.remaining = p.start + p.size - c.at
		r, err := c.storage.Open(c.ctx, p.name, c.at-p.start, c.remaining)
		if err != nil {
			return 0, err
		}
		c.open = r
	}
	n, err := c.open.Read(b[:min(int64(len(b)), c.remaining)])
	c.at, c.remaining = c.at+int64(n), c.remaining-int64(n)
	switch {
	case c.remaining == 0:
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
		return 0, errors.New("negative offset")
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
