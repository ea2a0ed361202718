package checkin

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/background/runs"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/checkin/reconcile"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// Admin has the operations of an operator next to a running server, on SQL alone, because the server's Redis may be
// embedded in the server. Its writes are durable. The server applies them to Redis seconds later. Package transfer
// handles files.
type Admin struct {
	// Runs has the runs that operators request from the servers; see [Admin.Request].
	Runs *reconcile.Store

	sql      *sqlStore
	accounts accounts.Directory
	now      func() time.Time
}

// NewAdmin returns the operator's operations on db.
func NewAdmin(db *sqldb.DB) *Admin {
	return &Admin{Runs: reconcile.NewStore(db), sql: newSQLStore(db), accounts: accounts.NewDirectory(db), now: db.Now}
}

// Grant gives a user n more freezes and stores the reason. It returns when the grant is committed; a server shows it a
// moment later. It returns ErrGrant if n or the reason is not valid, and accounts.ErrNoUser if the user does not exist.
func (a *Admin) Grant(ctx context.Context, user accounts.ID, n int, reason string) (err error) {
	defer errs.Wrap(&err, "checkin.Grant %s", user)
	if reason = strings.TrimSpace(reason); n < 1 || n > streak.MaxGrant || !streak.ValidReason(reason) {
		return ErrGrant
	}
	clocks, err := a.accounts.Clocks(ctx, []accounts.ID{user})
	if err != nil {
		return err
	}
	if _, ok := clocks[user]; !ok {
		return accounts.ErrNoUser
	}
	return a.sql.grant(ctx, user, GrantEntry{streak.Grant{N: n, At: a.now()}, reason})
}

// Shown is the state of one user in SQL, with the grants and make-ups that led to it.
type Shown struct {
	streak.Status
	Earned  int          // freezes, by signed days
	Granted int          // freezes
	Grants  []GrantEntry // the newest first, at most [MaxShown]
	Makeups []Audited    // the newest first, at most [MaxShown]
}

// Audited is a make-up with the month whose limit it counts against.
type Audited struct {
	Makeup
	Month string // 2026-11
}

// MaxShown is the largest number of grants, and of make-ups, that Show returns.
const MaxShown = 1000

// Show returns a user's status by these rules, and its audit. In redis-first mode, the check-ins of the last second may
// be missing.
func (a *Admin) Show(ctx context.Context, user accounts.ID, clock civil.Clock, rules Settings) (out Shown, err error) {
	defer errs.Wrap(&err, "checkin.Show %s", user)
	histories, err := a.sql.histories(ctx, []accounts.ID{user})
	if err != nil {
		return Shown{}, err
	}
	h, z, today := histories[user], streak.Freezes{Every: rules.FreezeEvery, Max: rules.FreezeMax}, clock.Today(a.now())
	out = Shown{Status: z.Status(streak.RecordOf(today.Year(), h), clock, today), Granted: h.FreezesGranted()}
	if z.Every > 0 && z.Max > 0 {
		out.Earned = out.Total / z.Every
	}
	if out.Grants, err = a.sql.grantsOf(ctx, user, MaxShown); err != nil {
		return Shown{}, err
	}
	rows, err := a.sql.makeups(ctx, user, madeUp{Month: 1_000_000}, MaxShown)
	out.Makeups = mapped(rows, func(r madeUp) Audited {
		return Audited{Makeup{civil.Day(r.Day), sqldb.Time(r.At)}, fmt.Sprintf("%04d-%02d", r.Month/100, r.Month%100)}
	})
	return out, err
}

// Request stores a run for the servers. It returns reconcile.ErrOptions if the options are not valid.
func (a *Admin) Request(ctx context.Context, kind runs.Kind, o reconcile.Options) (*reconcile.Run, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return a.Runs.Request(ctx, kind, o)
}
