package transfers

import (
	"context"
	"errors"
	"io"

	"github.com/stoa-dev/stoa/internal/base/fairqueue"
	"github.com/stoa-dev/stoa/internal/picture"
)

// decodeMemory bounds the total size of files in memory for decoding; one sender may use half of it. A smaller file
// counts as minDecode, so that one sender has fewer files here than may wait in a studio.
const (
	decodeMemory = 4 * picture.MaxPhoto
	minDecode    = picture.MaxPhoto / 4
)

// newDecoding returns the queue of files to decode. A waiting file is not in memory.
func newDecoding() *fairqueue.Queue {
	return fairqueue.New(fairqueue.Limits{Capacity: decodeMemory, Waiting: 1000, PerUser: 200, Full: picture.ErrBusy})
}

// describe returns the description of a file that a message needs. Unusual bytes are not an error: content that is
// neither a picture nor a recording is a plain file.
func (s *Service) describe(ctx context.Context, t *Transfer) (*Description, error) {
	c, err := s.read(ctx, t)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if typ, duration, err := recording(c); err != nil || typ != "" {
		return &Description{Type: typ, Duration: duration}, asStorage(err)
	}
	if t.Size > picture.MaxPhoto {
		return &Description{}, nil
	}
	release, err := s.decoding.Acquire(ctx, t.From.String(), max(t.Size, minDecode))
	if err != nil {
		return nil, err
	}
	defer release()
	data := make([]byte, t.Size)
	if _, err := c.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(c, data); err != nil {
		return nil, asStorage(err)
	}
	p, err := s.studio.Describe(ctx, t.From.String(), data)
	switch {
	case errors.Is(err, picture.ErrUnreadable), errors.Is(err, picture.ErrDimensions):
		return &Description{}, nil
	case err != nil:
		return nil, err
	}
	l := &Description{Type: p.Type, Width: p.Width, Height: p.Height}
	for _, image := range p.Thumbnails {
		th := Thumbnail{Side: image.Side, Width: image.Width, Height: image.Height, Type: image.Type,
			part: newThumbnail(t.ID, image.Side, int64(len(image.Data)), s.sql.db.Now())}
		if err := s.store(ctx, th.name, image.Data); err != nil {
			s.remove(ctx, l.names())
			return nil, err
		}
		l.Thumbnails = append(l.Thumbnails, th)
	}
	return l, nil
}

// store writes a whole part.
func (s *Service) store(ctx context.Context, name string, data []byte) error {
	w, err := s.storage.Create(ctx, name)
	if err != nil {
		return asStorage(err)
	}
	if _, err := w.Write(data); err != nil {
		w.Abort()
		return asStorage(err)
	}
	return asStorage(w.Complete(ctx))
}

// names returns the names of the thumbnails' parts.
func (l *Description) names() (all []string) {
	for _, th := range l.Thumbnails {
		all = append(all, th.name)
	}
	return all
}

// thumbnail returns the thumbnail of a variant, or ErrNoSmall.
func (l *Description) thumbnail(v variant) (Thumbnail, error) {
	for _, th := range l.Thumbnails {
		if th.Side == v.side() {
			return th, nil
		}
	}
	return Thumbnail{}, ErrNoSmall
}
