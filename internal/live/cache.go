package live

import (
	"context"
	"errors"

	"github.com/stoa-dev/stoa/lib/cache"
)

// Cache events of streams.
var (
	StreamChanged = cache.NewEvent[ID]("stream changed") // its settings or its keys
	StreamDeleted = cache.NewEvent[ID]("stream deleted")
	StreamStarted = cache.NewEvent[ID]("stream started")
	StreamStopped = cache.NewEvent[ID]("stream stopped")
)

// newStreams returns the cache of rows. Changes continue while Redis is unavailable, because sessions are compared with
// SQL.
func (s *Service) newStreams(rt *cache.Runtime, p cache.Policy) *cache.Cache[ID, Stream] {
	p.Unfenced = cache.Proceed
	db := s.db
	c := cache.New(rt, streamKeys, p, cache.Source[ID, Stream]{
		Load: func(ctx context.Context, id ID) (Stream, error) {
			st, err := selectStream(ctx, db, id, "")
			if errors.Is(err, ErrStream) {
				err = cache.ErrNotFound
			}
			return st, err
		},
		LoadMany: func(ctx context.Context, list []ID) (map[ID]Stream, error) { return selectStreams(ctx, db, list) },
	})
	for _, e := range []cache.Event[ID]{StreamChanged, StreamDeleted, StreamStarted, StreamStopped} {
		cache.Drops(rt, e, c)
	}
	return c
}

// stream returns a stream from the cache, or ErrStream.
func (s *Service) stream(ctx context.Context, id ID) (Stream, error) {
	st, err := s.streams.Get(ctx, id)
	if errors.Is(err, cache.ErrNotFound) {
		return Stream{}, ErrStream
	}
	return st, asKind(ctx, err)
}
