package worker

import (
	"context"
	"log/slog"
	"time"
)

// Warm reads up to n items, such as "rooms", into the caches of this process after wait has returned, and logs its
// progress. It is optional, because caches load missing items on demand. n may be 0. read returns the number of items
// that exist.
func Warm(ctx context.Context, log *slog.Logger, things string, wait func(context.Context) error, n int,
	read func(ctx context.Context, n int, progress func(done, total int)) (int, error)) {
	if n == 0 {
		return
	}
	began, lastLogged := time.Now(), time.Now()
	err := wait(ctx)
	if err == nil {
		n, err = read(ctx, n, func(done, total int) {
			if time.Since(lastLogged) > time.Second {
				lastLogged = time.Now()
				log.LogAttrs(ctx, slog.LevelInfo, "caches: warming up", slog.String("with", things), slog.Int("done", done), slog.Int("of", total))
			}
		})
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		log.LogAttrs(ctx, slog.LevelWarn, "caches: warm-up failed", slog.String("with", things), slog.Any("err", err))
	case n > 0:
		log.LogAttrs(ctx, slog.LevelInfo, "caches: warmed up", slog.String("with", things), slog.Int("n", n),
			slog.Duration("took", time.Since(began).Round(time.Millisecond)))
	}
}
