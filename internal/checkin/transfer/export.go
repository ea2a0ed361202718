package transfer

import (
	"bufio"
	"context"
	"errors"
	"io"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// ExportOptions select the rows to export.
type ExportOptions struct {
	Format      Format
	User        accounts.ID // zero: all users
	First, Last civil.Day   // used with Bounded
	Bounded     bool
	Accounts    bool // with email, name and zone, for an import into another database

	Progress func(done, total int64) error
}

// Export writes check-ins to w as [Import] reads them, ordered by user and day, then grants, by user and time. It uses
// constant memory and returns the number of lines. If the days are bounded, it writes the grants of these days in UTC.
func Export(ctx context.Context, db *sqldb.DB, w io.Writer, o ExportOptions) (n int64, err error) {
	defer errs.Wrap(&err, "export")
	if !o.Bounded {
		o.First, o.Last = -1<<31, 1<<31-1
	}
	total, err := countExport(ctx, db, o)
	if err != nil {
		return 0, err
	}
	out := bufio.NewWriterSize(w, 1<<16)
	put, flush, err := o.Format.writer(out, o.Accounts)
	if err != nil {
		return 0, err
	}
	write := func(x exported, l line) error {
		l.User, l.At = x.User.String(), time.UnixMilli(x.At).UTC().Format(timeForm)
		if o.Accounts {
			l.Email, l.Name, l.Zone = x.Email, x.Name, x.Clock.In(db.Now())
		}
		if n++; n%chunkRows == 0 {
			if err := o.Progress(n, max(n, total)); err != nil {
				return err
			}
		}
		return put(l)
	}
	err = exportDays(ctx, db, o, func(x exported, d exportedDay) error {
		l := line{Day: civil.Day(d.Day).String(), Kind: streak.Kind(d.Kind).String(), Words: d.Words, Minutes: d.Minutes}
		if d.Month != 0 {
			l.Makeup = makeupText(d.Month, d.N)
		}
		return write(x, l)
	})
	if err == nil {
		err = exportGrants(ctx, db, o, func(x exported, g grant) error {
			return write(x, line{Kind: grantKind, Freezes: g.N, Reason: g.reason, ID: g.id})
		})
	}
	return n, errors.Join(err, flush(), out.Flush())
}

// timeForm is RFC 3339 with exactly three digits of milliseconds.
const timeForm = "2006-01-02T15:04:05.000Z07:00"
