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

// Admin is what an operator does beside a running server, on SQL alone: the server's
// Redis may live within the server. What Admin writes is durable; the server brings
// Redis up to date seconds later. Files are the affair of package transfer.
type Admin struct {
	// Runs are the runs that servers are asked for; see [Admin.Request].
	Runs *reconcile.Store

	sql      *sqlStore
	accounts accounts.Directory
	now      func() time.Time
}

// NewAdmin returns the operator's verbs on db.
func NewAdmin(db *sqldb.DB) *Admin {
	return &Admin{Runs: reconcile.NewStore(db), sql: newSQLStore(db), accounts: accounts.NewDirectory(db), now: db.Now}
}

// Grant gives a user n more freezes and keeps the reason. It returns when the grant is
// committed; a server shows it a moment later. It may return ErrGrant or accounts.ErrNoUser.
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

// Shown is what SQL has of one user, with the grants and made-up days that led to it.
type Shown struct {
	streak.Status
	Earned  int          // freezes, by days signed
	Granted int          // freezes
	Grants  []GrantEntry // the newest first, at most [MaxShown]
	Makeups []Audited    // the newest first, at most [MaxShown]
}

// Audited is a made-up day with the month against whose limit it counts.
type Audited struct {
	Makeup
	Month string // 2026-11
}

// MaxShown is how many grants, and how many made-up days, Show returns at most.
const MaxShown = 1000

// Show returns what a user's status is by these rules, and its audit. In
// redis-first mode the last second's check-in may be missing.
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

// Request asks the servers for a run. It may return reconcile.ErrOptions.
func (a *Admin) Request(ctx context.Context, kind runs.Kind, o reconcile.Options) (*reconcile.Run, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return a.Runs.Request(ctx, kind, o)
}
