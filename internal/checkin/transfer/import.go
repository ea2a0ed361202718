package transfer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/accounts/emails"
	"github.com/stoa-dev/stoa/internal/background/runs"
	"github.com/stoa-dev/stoa/internal/base/civil"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// ImportOptions are the options of an [Import].
type ImportOptions struct {
	Format         Format
	DryRun         bool // check everything, write nothing
	CreateAccounts bool // for addresses without an account
	MaxFaults      int  // the import ends after that many faults; a fault of one account counts once

	Fault    func(Fault)          // called for each fault; for a fault of one account once
	Repeated func(Fault)          // if set, called at the end for the faults that were in several rows
	Progress func(Imported) error // after each chunk
}

// Imported counts what an import has done so far.
type Imported struct {
	Rows     int64 `json:"rows"`
	New      int64 `json:"new"`
	Existing int64 `json:"existing"` // rows that the database had, or that are twice in the file
	Bad      int64 `json:"bad"`
	Accounts int64 `json:"accounts"` // created
}

// chunkRows is the number of rows that share a transaction.
const chunkRows = 1000

// Import reads check-ins and grants from r, in constant memory, and writes those that db does not have. It reports a
// wrong row and omits it.
func Import(ctx context.Context, db *sqldb.DB, r io.Reader, o ImportOptions) (sum Imported, err error) {
	defer errs.Wrap(&err, "import")
	next, err := o.Format.reader(r)
	if err != nil {
		return sum, err
	}
	im := &importer{db: db, accounts: accounts.NewDirectory(db), o: o, now: db.Now(), clocks: map[accounts.ID]civil.Clock{},
		emails: map[string]accounts.ID{}, faults: map[Fault]*Fault{}}
	defer im.repeat()
	chunk := make([]line, 0, chunkRows)
	for ended := false; !ended; {
		l, err := next()
		fault, bad := errors.AsType[Fault](err)
		switch {
		case errors.Is(err, io.EOF):
			ended = true
		case bad:
			im.sum.Rows++
			if err := im.fault(fault); err != nil {
				return im.sum, err
			}
		case err != nil:
			return im.sum, err
		default:
			im.sum.Rows++
			chunk = append(chunk, l)
		}
		if len(chunk) == chunkRows || ended && len(chunk) > 0 {
			if err := im.write(ctx, chunk); err != nil {
				return im.sum, err
			}
			chunk = chunk[:0]
			if err := im.o.Progress(im.sum); err != nil {
				return im.sum, err
			}
		}
	}
	return im.sum, nil
}

// importer is an import in progress.
type importer struct {
	db       *sqldb.DB
	accounts accounts.Directory
	o        ImportOptions
	now      time.Time
	sum      Imported

	// The last few thousand users who were read.
	clocks map[accounts.ID]civil.Clock
	emails map[string]accounts.ID

	erased []accounts.ID // named by rows of the chunk

	faults   map[Fault]*Fault // faults of accounts, by their content without a line
	reported int              // reported faults, each counted once
}

// remembered bounds the accounts that an import has in memory.
const remembered = 20_000

func (im *importer) fault(f Fault) error {
	im.sum.Bad++
	if f.Of != "" {
		same := f
		same.Line = 0
		if first := im.faults[same]; first != nil {
			first.Rows, first.Last = first.Rows+1, f.Line
			return nil
		}
		first := f
		first.Rows, first.Last = 1, f.Line
		im.faults[same] = &first
	}
	im.o.Fault(f)
	if im.reported++; im.reported >= im.o.MaxFaults {
		return ErrTooManyBad
	}
	return nil
}

// repeat reports the faults that were in more than one row, in their order.
func (im *importer) repeat() {
	all := slices.Collect(maps.Values(im.faults))
	slices.SortFunc(all, func(a, b *Fault) int { return cmp.Compare(a.Line, b.Line) })
	for _, f := range all {
		if f.Rows > 1 && im.o.Repeated != nil {
			im.o.Repeated(*f)
		}
	}
}

// openTries bounds the tries to read the accounts of a chunk again after another process created one of them.
const openTries = 3

func (im *importer) write(ctx context.Context, chunk []line) (err error) {
	for try := 1; ; try++ {
		open, err := im.readAccounts(ctx, chunk)
		if err != nil {
			return err
		}
		rows, faults := im.rows(chunk)
		added, err := im.put(ctx, rows, open)
		if errors.Is(err, accounts.ErrEmailTaken) && try < openTries {
			for _, u := range open {
				delete(im.emails, strings.ToLower(u.Email))
				delete(im.clocks, u.ID) // the existing account may have another zone
			}
			continue
		}
		if err != nil {
			return err
		}
		im.sum.New += added
		im.sum.Existing += int64(len(chunk)-len(faults)) - added
		im.sum.Accounts += int64(len(open))
		for _, f := range faults {
			if err := im.fault(f); err != nil {
				return err
			}
		}
		return nil
	}
}

func (im *importer) put(ctx context.Context, rows batch, open []accounts.User) (added int64, err error) {
	if im.o.DryRun {
		return countNew(ctx, im.db, rows)
	}
	return importRows(ctx, im.db, rows, open)
}

// readAccounts reads the accounts of a chunk, and returns those to be created.
func (im *importer) readAccounts(ctx context.Context, chunk []line) (open []accounts.User, err error) {
	if len(im.clocks) > remembered || len(im.emails) > remembered {
		clear(im.clocks)
		clear(im.emails)
	}
	var users []accounts.ID
	for _, l := range chunk {
		if id, err := ids.Parse[accounts.User](l.User); err == nil {
			if _, known := im.clocks[id]; !known {
				users = append(users, id)
			}
		}
	}
	slices.SortFunc(users, accounts.ID.Compare)
	im.erased = nil
	if users = slices.Compact(users); len(users) > 0 {
		found, err := im.accounts.Clocks(ctx, users)
		if err != nil {
			return nil, err
		}
		maps.Copy(im.clocks, found)
		if im.erased, err = im.accounts.Erased(ctx, users); err != nil {
			return nil, err
		}
	}
	var keys []string
	byKey := map[string]line{} // the first row with that address
	for _, l := range chunk {
		if _, known := im.byID(l); known || l.Email == "" {
			continue
		}
		key := strings.ToLower(strings.TrimSpace(l.Email))
		if _, known := im.emails[key]; !known && byKey[key].number == 0 {
			byKey[key], keys = l, append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	found, err := im.accounts.ByEmail(ctx, keys)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		u, known := found[key]
		if !known {
			if !im.o.CreateAccounts {
				continue
			}
			l := byKey[key]
			if _, opened := im.byID(l); opened {
				continue // by a row with another address; the day of this row is for the same account
			}
			if u, err = im.newUser(l); err != nil {
				continue // a wrong row creates no account; its fault gives the reason
			}
			open = append(open, u)
		}
		im.emails[key], im.clocks[u.ID] = u.ID, u.Clock
	}
	return open, nil
}

// batch has the rows of some lines, each once and sorted by its key.
type batch struct {
	days    []Day
	makeups []makeup // of some of the days
	grants  []grant
}

// touched returns the message of the batch for the servers.
func (b batch) touched() (t Touched) {
	for _, d := range b.days {
		t.Users = append(t.Users, d.User)
		if d.Kind.Signs() && (t.Last == 0 || d.Day < t.First) {
			t.First = d.Day
		}
		if d.Kind.Signs() {
			t.Last = max(t.Last, d.Day)
		}
	}
	for _, g := range b.grants {
		t.Users = append(t.Users, g.user)
	}
	slices.SortFunc(t.Users, accounts.ID.Compare)
	t.Users = slices.Compact(t.Users)
	return t
}

// rows turns lines into rows of the tables.
func (im *importer) rows(chunk []line) (b batch, faults []Fault) {
	for _, l := range chunk {
		user, clock, err := im.owner(l)
		name := cmp.Or(strings.TrimSpace(l.Email), l.User)
		if err == nil {
			name, err = "", im.row(&b, l, user, clock)
		}
		if f, bad := errors.AsType[Fault](err); bad {
			f.Line, f.Of = l.number, name
			faults = append(faults, f)
		}
	}
	b.days = once(b.days, func(a, b Day) int { return a.key().compare(b.key()) })
	b.makeups = once(b.makeups, func(a, b makeup) int { return a.key.compare(b.key) })
	b.grants = once(b.grants, func(a, b grant) int {
		return cmp.Or(a.user.Compare(b.user), a.At.Compare(b.At), cmp.Compare(a.id, b.id))
	})
	return b, faults
}

// once sorts all and keeps the first of equal elements.
func once[T any](all []T, compare func(a, b T) int) []T {
	slices.SortStableFunc(all, compare)
	return slices.CompactFunc(all, func(a, b T) bool { return compare(a, b) == 0 })
}

// byID returns the account that a line names by its id, if it is known.
func (im *importer) byID(l line) (id accounts.ID, known bool) {
	id, err := ids.Parse[accounts.User](l.User)
	if err == nil {
		_, known = im.clocks[id]
	}
	return id, known
}

// newUser returns the account that a line creates. It has the id of the other database if the line names it.
func (im *importer) newUser(l line) (accounts.User, error) {
	local, _, _ := strings.Cut(strings.TrimSpace(l.Email), "@")
	u, err := accounts.NewUser(l.Email, cmp.Or(l.Name, runs.Shorten(local, 40)), l.Zone)
	switch {
	case errors.Is(err, accounts.ErrName):
		return u, Fault{Column: "name", Text: "is not 1 to 40 printable characters"}
	case errors.Is(err, civil.ErrZone):
		return u, Fault{Column: "zone", Text: "is not a time zone of the IANA database"}
	case err != nil:
		return u, Fault{Column: "email", Text: "is not an e-mail address"}
	}
	if l.User != "" {
		if u.ID, err = ids.Parse[accounts.User](l.User); err != nil {
			return u, Fault{Column: "user", Text: "is not an id of 12 characters"}
		}
		if slices.Contains(im.erased, u.ID) {
			return u, Fault{Column: "user", Text: "is of an account that was erased"}
		}
	}
	return u, im.row(new(batch), l, u.ID, u.Clock)
}

// owner returns the user of a line.
func (im *importer) owner(l line) (accounts.ID, civil.Clock, error) {
	id, known := im.byID(l)
	if !known && l.Email != "" {
		id, known = im.emails[strings.ToLower(strings.TrimSpace(l.Email))]
	}
	switch {
	case known:
		return id, im.clocks[id], nil
	case l.Email != "":
		if _, err := emails.Parse(l.Email); err != nil {
			return id, civil.Clock{}, Fault{Column: "email", Text: "is not an e-mail address"}
		}
		if !im.o.CreateAccounts {
			return id, civil.Clock{}, Fault{Column: "email", Text: "there is no account with this address"}
		}
		if _, err := im.newUser(l); err != nil {
			return id, civil.Clock{}, err
		}
		return id, civil.Clock{}, Fault{Column: "email", Text: "no account was opened, for the first row with this address is wrong"}
	case l.User == "":
		return id, civil.Clock{}, Fault{Column: "user", Text: "neither user nor email is given"}
	}
	if _, err := ids.Parse[accounts.User](l.User); err != nil {
		return id, civil.Clock{}, Fault{Column: "user", Text: "is not an id of 12 characters"}
	}
	return id, civil.Clock{}, Fault{Column: "user", Text: "there is no such account"}
}

// The largest values of a check-in, as in the API.
const (
	maxWords   = 100_000
	maxMinutes = 1440
)

// row checks a line and adds its row to b.
func (im *importer) row(b *batch, l line, user accounts.ID, clock civil.Clock) error {
	if l.Kind == grantKind {
		g, err := im.grant(l, user)
		if err == nil {
			b.grants = append(b.grants, g)
		}
		return err
	}
	r, err := im.day(l, user, clock)
	if err != nil {
		return err
	}
	if l.Makeup != "" {
		m, err := im.makeup(l, r, clock)
		if err != nil {
			return err
		}
		b.makeups = append(b.makeups, m)
	}
	b.days = append(b.days, r)
	return nil
}

func (im *importer) day(l line, user accounts.ID, clock civil.Clock) (Day, error) {
	r := Day{User: user, Kind: streak.Tapped, Words: l.Words, Minutes: l.Minutes, Req: rand.Int64()}
	day, err := civil.ParseDay(l.Day)
	if err != nil || day.Year() < 1970 {
		return r, Fault{Column: "day", Text: "is not a date such as 2026-11-21"}
	}
	if r.Day = day; day > clock.Today(im.now) {
		return r, Fault{Column: "day", Text: "has not begun for this user"}
	}
	if l.Kind != "" {
		var known bool
		if r.Kind, known = streak.Kinds[l.Kind]; !known {
			return r, Fault{Column: "kind", Text: "is not one of tapped, made_up, frozen, skipped, grant"}
		}
	}
	start := clock.Start(day)
	if r.At = start.Add(12 * time.Hour); r.At.After(im.now) {
		r.At = im.now
	}
	if l.At != "" {
		if r.At, err = im.at(l); err != nil {
			return r, err
		}
		if r.At.Before(start.Add(-ZoneSpan)) {
			return r, Fault{Column: "at", Text: "is before the day began"}
		}
	}
	if l.Words < 0 || l.Words > maxWords {
		return r, Fault{Column: "words", Text: "is not between 0 and 100000"}
	}
	if l.Minutes < 0 || l.Minutes > maxMinutes {
		return r, Fault{Column: "minutes", Text: "is not between 0 and 1440"}
	}
	if column := firstOf(cell{"freezes", l.Freezes != 0}, cell{"reason", l.Reason != ""}, cell{"id", l.ID != ""}); column != "" {
		return r, Fault{Column: column, Text: "is for grants alone"}
	}
	return r, nil
}

func (im *importer) at(l line) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, l.At)
	switch {
	case err != nil:
		return at, Fault{Column: "at", Text: "is not a time such as 2026-11-21T08:30:00Z"}
	case at.After(im.now):
		return at, Fault{Column: "at", Text: "lies in the future"}
	}
	return at.UTC().Truncate(time.Millisecond), nil
}

// makeup reads the month whose limit a make-up counted against.
func (im *importer) makeup(l line, r Day, clock civil.Clock) (makeup, error) {
	m := makeup{key: r.key(), req: r.Req}
	if r.Kind != streak.MadeUp {
		return m, Fault{Column: "makeup", Text: "is for days of the kind made_up alone"}
	}
	var year, mon int
	if _, err := fmt.Sscanf(l.Makeup, "%4d-%2d/%2d", &year, &mon, &m.n); err != nil || mon < 1 || mon > 12 || m.n < 1 ||
		makeupText(100*year+mon, m.n) != l.Makeup {
		return m, Fault{Column: "makeup", Text: "is not a month and a number such as 2026-11/1"}
	}
	// The user may have lived at a later date.
	if m.month = 100*year + mon; m.month < streak.MonthOf(r.Day) || m.month > streak.MonthOf(clock.Today(im.now)+1) {
		return m, Fault{Column: "makeup", Text: "is not in a month from that of the day to the present one"}
	}
	return m, nil
}

func makeupText(month, n int) string { return fmt.Sprintf("%04d-%02d/%d", month/100, month%100, n) }

func (im *importer) grant(l line, user accounts.ID) (g grant, err error) {
	if column := firstOf(cell{"day", l.Day != ""}, cell{"words", l.Words != 0}, cell{"minutes", l.Minutes != 0},
		cell{"makeup", l.Makeup != ""}); column != "" {
		return g, Fault{Column: column, Text: "is for days, not for grants"}
	}
	g = grant{Grant: streak.Grant{N: l.Freezes}, user: user, id: l.ID, reason: l.Reason}
	if g.At, err = im.at(l); err != nil {
		return g, err
	}
	if g.N < 1 || g.N > streak.MaxGrant {
		return g, Fault{Column: "freezes", Text: "is not between 1 and 100"}
	}
	if !streak.ValidReason(g.reason) {
		return g, Fault{Column: "reason", Text: "is not 1 to 200 printable characters"}
	}
	if g.id == "" {
		g.id = g.name()
	} else if _, err := ids.Parse[streak.Grant](g.id); err != nil {
		return g, Fault{Column: "id", Text: "is not an id of 12 characters"}
	}
	return g, nil
}

// name returns the id of a grant without one: equal lines are the same grant.
func (g grant) name() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d %s", g.user, g.At.UnixMilli(), g.N, g.reason))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

// cell is a column of a line, and whether the line has a value in it.
type cell struct {
	column string
	filled bool
}

// firstOf returns the first column that has a value.
func firstOf(cells ...cell) string {
	for _, c := range cells {
		if c.filled {
			return c.column
		}
	}
	return ""
}

// ZoneSpan bounds how much earlier a day may have begun than in the user's present zone, because the user may have
// lived in the zone that is farthest from it.
const ZoneSpan = 26 * time.Hour
