package worker

import (
	"context"
	"log/slog"
	"time"
)

// Warm has read take up to n things, such as "rooms", into the caches of this process once wait has returned, and logs
// its progress. Nothing depends on it: what is not read then is read when it is wanted. n may be 0. read returns how
// many there were.
func Warm(ctx context.Context, log *slog.Logger, things string, wait func(context.Context) error, n int, read func(ctx context.Context, n int, progress func(done, total int)) (int, error)) {
	if n == 0 {
		return
	}
	began, told := time.Now(), time.Now()
	err := wait(ctx)
	if err == nil {
		n, err = read(ctx, n, func(done, total int) {
			if time.Since(told) > time.Second {
				told = time.Now()
				log.LogAttrs(ctx, slog.LevelInfo, "caches are being warmed up", slog.String("with", things), slog.Int("done", done), slog.Int("of", total))
			}
		})
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		log.LogAttrs(ctx, slog.LevelWarn, "caches could not be warmed up; they fill as they are read", slog.String("with", things), slog.Any("err", err))
	case n > 0:
		log.LogAttrs(ctx, slog.LevelInfo, "caches are warm", slog.String("with", things), slog.Int("n", n), slog.Duration("took", time.Since(began).Round(time.Millisecond)))
	}
}
