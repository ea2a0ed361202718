package checkin

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/foundation/civil"
	"github.com/stoa-dev/stoa/internal/foundation/errs"
	"github.com/stoa-dev/stoa/internal/foundation/ids"
)

// Exchange is the domain as far as SQL alone carries it: for tools beside a
// running server, whose Redis may live within that server. What it writes is
// durable; the server brings Redis up to date seconds later.
type Exchange struct {
	store    *store
	accounts accounts.Directory
	now      func() time.Time
}

// Format is how check-ins are written down.
type Format string

// The formats. Both have one check-in or grant on each line, with the columns of
// [Columns].
const (
	CSV   Format = "csv"
	JSONL Format = "jsonl"
)

// Columns are what a check-in or a grant has in a file. An import needs day and
// either user or email; makeup is for days that were made up, freezes, reason and
// id are for grants, which have no day; name and zone are for accounts that it opens.
var Columns = []string{"user", "day", "at", "kind", "words", "minutes", "makeup", "freezes", "reason", "id", "email", "name", "zone"}

// line is a check-in or a grant in a file.
type line struct {
	User    string `json:"user,omitempty"`
	Day     string `json:"day,omitempty"`
	At      string `json:"at,omitempty"`
	Kind    string `json:"kind,omitempty"`
	Words   int    `json:"words,omitempty"`
	Minutes int    `json:"minutes,omitempty"`
	Makeup  string `json:"makeup,omitempty"`
	Freezes int    `json:"freezes,omitempty"`
	Reason  string `json:"reason,omitempty"`
	ID      string `json:"id,omitempty"`
	Email   string `json:"email,omitempty"`
	Name    string `json:"name,omitempty"`
	Zone    string `json:"zone,omitempty"`

	number int // in the file, from 1
}

// grantKind is the kind of a line that is no day.
const grantKind = "grant"

var kindNames = map[string]Kind{"tapped": Tapped, "made_up": MadeUp, "frozen": Frozen, "skipped": Skipped}

func (k Kind) String() string {
	for name, kind := range kindNames {
		if kind == k {
			return name
		}
	}
	return "kind " + strconv.Itoa(int(k))
}

// What can be wrong with a file as a whole.
var (
	ErrFormat     = errs.New(errs.Invalid, "checkin.import_format", "The file is neither CSV with a header line nor JSON lines.")
	ErrTooManyBad = errs.New(errs.Invalid, "checkin.import_bad_rows", "Too many rows are wrong.")
)

// A Fault says what is wrong with one row of an import.
type Fault struct {
	Line   int    `json:"line"`
	Column string `json:"column,omitempty"` // empty: the line as a whole
	Text   string `json:"text"`
}

func (f Fault) Error() string {
	if f.Column == "" {
		return fmt.Sprintf("line %d: %s", f.Line, f.Text)
	}
	return fmt.Sprintf("line %d, %s: %s", f.Line, f.Column, f.Text)
}

// ImportOptions say how to import.
type ImportOptions struct {
	Format         Format
	DryRun         bool // check everything, write nothing
	CreateAccounts bool // for addresses that have none
	MaxFaults      int  // wrong rows after which the import ends

	Fault    func(Fault)          // is told each wrong row
	Progress func(Imported) error // after each chunk
}

// Imported is what an import has done so far.
type Imported struct {
	Rows     int64 `json:"rows"`
	New      int64 `json:"new"`
	Existing int64 `json:"existing"` // days that were there, or twice in the file
	Bad      int64 `json:"bad"`
	Accounts int64 `json:"accounts"` // opened
}

// importChunk is how many rows share a transaction.
const importChunk = 1000

// Import reads check-ins and grants from r, in constant memory, and writes those
// that the database does not have. A wrong row is told and left out. Whatever ends an
// import, it can be repeated: days that are there stay as they are.
func (e *Exchange) Import(ctx context.Context, r io.Reader, o ImportOptions) (sum Imported, err error) {
	defer errs.Wrap(&err, "import")
	next, err := o.Format.reader(r)
	if err != nil {
		return sum, err
	}
	im := &importer{Exchange: e, o: o, now: e.now(), clocks: map[accounts.ID]civil.Clock{}, emails: map[string]accounts.ID{}}
	chunk := make([]line, 0, importChunk)
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
		if len(chunk) == importChunk || ended && len(chunk) > 0 {
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

// importer is one import under way.
type importer struct {
	*Exchange
	o   ImportOptions
	now time.Time
	sum Imported

	// Who was looked up, of the last few thousand.
	clocks map[accounts.ID]civil.Clock
	emails map[string]accounts.ID
}

// remembered bounds what an import remembers of accounts.
const remembered = 20_000

func (im *importer) fault(f Fault) error {
	im.sum.Bad++
	im.o.Fault(f)
	if im.sum.Bad >= int64(im.o.MaxFaults) {
		return ErrTooManyBad
	}
	return nil
}

// openTries is how often a chunk is looked up again because somebody opened one
// of its accounts in the meantime.
const openTries = 3

func (im *importer) write(ctx context.Context, chunk []line) (err error) {
	for try := 1; ; try++ {
		open, err := im.lookUp(ctx, chunk)
		if err != nil {
			return err
		}
		rows, faults := im.rows(chunk)
		added, err := im.put(ctx, rows, open)
		if errors.Is(err, accounts.ErrEmailTaken) && try < openTries {
			for _, u := range open {
				delete(im.emails, strings.ToLower(u.Email))
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
		return im.store.countNew(ctx, rows)
	}
	return im.store.importRows(ctx, rows, open)
}

// lookUp finds the accounts of a chunk, and returns those to be opened.
func (im *importer) lookUp(ctx context.Context, chunk []line) (open []accounts.User, err error) {
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
	slices.SortFunc(users, compareIDs)
	if users = slices.Compact(users); len(users) > 0 {
		found, err := im.accounts.Clocks(ctx, users)
		if err != nil {
			return nil, err
		}
		maps.Copy(im.clocks, found)
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
			if u, err = im.newUser(l); err != nil {
				continue // nobody gets an account for a row that is wrong; it will say why
			}
			open = append(open, u)
		}
		im.emails[key], im.clocks[u.ID] = u.ID, u.Clock
	}
	return open, nil
}

func compareIDs(a, b accounts.ID) int { return strings.Compare(a.String(), b.String()) }

// batch is what some lines come to, each once.
type batch struct {
	days    []request // sorted
	makeups []makeup  // of some of the days
	grants  []granted
}

// rows turns lines into rows of the tables.
func (im *importer) rows(chunk []line) (b batch, faults []Fault) {
	for _, l := range chunk {
		user, clock, err := im.owner(l)
		if err == nil {
			err = im.row(&b, l, user, clock)
		}
		if f, bad := errors.AsType[Fault](err); bad {
			f.Line = l.number
			faults = append(faults, f)
		}
	}
	b.days = once(b.days, func(a, b request) int { return cmp.Or(compareIDs(a.user, b.user), cmp.Compare(a.day, b.day)) })
	b.makeups = once(b.makeups, func(a, b makeup) int { return cmp.Or(compareIDs(a.user, b.user), cmp.Compare(a.day, b.day)) })
	b.grants = once(b.grants, func(a, b granted) int {
		return cmp.Or(compareIDs(a.user, b.user), a.At.Compare(b.At), cmp.Compare(a.id, b.id))
	})
	return b, faults
}

// once sorts and leaves the first of those that are equal.
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

// newUser returns the account that a line opens: under the id it had elsewhere,
// if the line has one.
func (im *importer) newUser(l line) (accounts.User, error) {
	local, _, _ := strings.Cut(strings.TrimSpace(l.Email), "@")
	u, err := accounts.NewUser(l.Email, cmp.Or(l.Name, cut(local, 40)), l.Zone)
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
	}
	return u, im.row(new(batch), l, u.ID, u.Clock)
}

// owner returns whose check-in a line is.
func (im *importer) owner(l line) (accounts.ID, civil.Clock, error) {
	id, known := im.byID(l)
	if !known && l.Email != "" {
		id, known = im.emails[strings.ToLower(strings.TrimSpace(l.Email))]
	}
	switch {
	case known:
		return id, im.clocks[id], nil
	case l.Email != "":
		if _, err := accounts.ParseEmail(l.Email); err != nil {
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

// The most that a check-in may carry, as in the API.
const (
	maxWords   = 100_000
	maxMinutes = 1440
)

// row checks a line and adds what it says.
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

func (im *importer) day(l line, user accounts.ID, clock civil.Clock) (request, error) {
	r := request{user: user, kind: Tapped, act: Activity{Words: l.Words, Minutes: l.Minutes}, req: rand.Int64()}
	day, err := civil.ParseDay(l.Day)
	if err != nil || day.Year() < 1970 {
		return r, Fault{Column: "day", Text: "is not a date such as 2026-11-21"}
	}
	if r.day = day; day > clock.Today(im.now) {
		return r, Fault{Column: "day", Text: "has not begun for this user"}
	}
	if l.Kind != "" {
		var known bool
		if r.kind, known = kindNames[l.Kind]; !known {
			return r, Fault{Column: "kind", Text: "is not one of tapped, made_up, frozen, skipped, grant"}
		}
	}
	start := clock.Start(day)
	if r.at = start.Add(12 * time.Hour); r.at.After(im.now) {
		r.at = im.now
	}
	if l.At != "" {
		if r.at, err = im.at(l); err != nil {
			return r, err
		}
		if r.at.Before(start.Add(-dayOff)) {
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

// makeup reads against which month's limit a day was made up.
func (im *importer) makeup(l line, r request, clock civil.Clock) (makeup, error) {
	m := makeup{user: r.user, day: r.day, at: r.at, req: r.req}
	if r.kind != MadeUp {
		return m, Fault{Column: "makeup", Text: "is for days of the kind made_up alone"}
	}
	var year, mon int
	if _, err := fmt.Sscanf(l.Makeup, "%4d-%2d/%2d", &year, &mon, &m.n); err != nil || mon < 1 || mon > 12 || m.n < 1 || makeupText(100*year+mon, m.n) != l.Makeup {
		return m, Fault{Column: "makeup", Text: "is not a month and a number such as 2026-11/1"}
	}
	// The user may have lived a date further on.
	if m.month = 100*year + mon; m.month < monthOf(r.day) || m.month > monthOf(clock.Today(im.now)+1) {
		return m, Fault{Column: "makeup", Text: "is not in a month from that of the day to the present one"}
	}
	return m, nil
}

func makeupText(month, n int) string { return fmt.Sprintf("%04d-%02d/%d", month/100, month%100, n) }

func (im *importer) grant(l line, user accounts.ID) (g granted, err error) {
	if column := firstOf(cell{"day", l.Day != ""}, cell{"words", l.Words != 0}, cell{"minutes", l.Minutes != 0}, cell{"makeup", l.Makeup != ""}); column != "" {
		return g, Fault{Column: column, Text: "is for days, not for grants"}
	}
	g = granted{Granted: Granted{Grant: Grant{N: l.Freezes}, Reason: l.Reason}, user: user, id: l.ID}
	if g.At, err = im.at(l); err != nil {
		return g, err
	}
	if g.N < 1 || g.N > maxGrant {
		return g, Fault{Column: "freezes", Text: "is not between 1 and 100"}
	}
	if !validReason(g.Reason) {
		return g, Fault{Column: "reason", Text: "is not 1 to 200 printable characters"}
	}
	if g.id == "" {
		g.id = g.name()
	} else if _, err := ids.Parse[Grant](g.id); err != nil {
		return g, Fault{Column: "id", Text: "is not an id of 12 characters"}
	}
	return g, nil
}

// name is the id of a grant that has none: the same line is the same grant.
func (g granted) name() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d %s", g.user, g.At.UnixMilli(), g.N, g.Reason))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

// cell is a column of a line, and whether something stands in it.
type cell struct {
	column string
	said   bool
}

// firstOf names the first column in which something stands.
func firstOf(cells ...cell) string {
	for _, c := range cells {
		if c.said {
			return c.column
		}
	}
	return ""
}

// dayOff is how much earlier a day may have begun than in the user's present
// zone: they may have lived in another one.
const dayOff = 26 * time.Hour

// reader returns a function that reads line after line until io.EOF; a [Fault]
// is an error of one line.
func (f Format) reader(r io.Reader) (func() (line, error), error) {
	switch f {
	case CSV:
		return csvReader(r)
	case JSONL:
		return jsonReader(r), nil
	}
	return nil, ErrFormat.On("format", "is not one of csv, jsonl")
}

// maxRow is the longest row of CSV that is read: a quote that is left open takes
// the rest of the file along. Where the next row begins nobody can tell then.
const maxRow = 1 << 20

var errLongRow = errors.New("a row is too long")

// bounded reads so much and then errLongRow.
type bounded struct {
	r    io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errLongRow
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func csvReader(r io.Reader) (func() (line, error), error) {
	row := &bounded{r: r, left: maxRow}
	in := bufio.NewReaderSize(row, 1<<16) // large enough for package csv to take it as it is
	if mark, err := in.Peek(3); err == nil && bytes.Equal(mark, []byte("\ufeff")) {
		_, _ = in.Discard(3) // what spreadsheets put before UTF-8
	}
	c := csv.NewReader(in)
	c.ReuseRecord = true
	head, err := c.Read()
	if errors.Is(err, io.EOF) {
		return func() (line, error) { return line{}, io.EOF }, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	columns := slices.Clone(head)
	for i, name := range columns {
		if columns[i] = strings.TrimSpace(name); !slices.Contains(Columns, columns[i]) || slices.Contains(columns[:i], columns[i]) {
			return nil, ErrFormat.On("line 1", fmt.Sprintf("column %d, %.40q, is unknown or given twice; columns are %s", i+1, columns[i], strings.Join(Columns, ", ")))
		}
	}
	if !slices.Contains(columns, "day") || !slices.Contains(columns, "user") && !slices.Contains(columns, "email") {
		return nil, ErrFormat.On("line 1", "the columns day and user or email are needed")
	}
	last := 1 // line that was read
	return func() (line, error) {
		row.left = maxRow
		values, err := c.Read()
		if errors.Is(err, errLongRow) {
			return line{}, ErrFormat.On(fmt.Sprintf("after line %d", last), "a row has more than a million bytes; is a quote left open?")
		}
		if n := len(values); n > 0 {
			last, _ = c.FieldPos(n - 1)
			last += strings.Count(values[n-1], "\n")
		}
		if bad, ok := errors.AsType[*csv.ParseError](err); ok {
			return line{}, Fault{Line: bad.StartLine, Text: bad.Err.Error()}
		}
		if err != nil {
			return line{}, err
		}
		var l line
		l.number, _ = c.FieldPos(0)
		for i, v := range values {
			if err := l.set(columns[i], v); err != nil {
				return line{}, Fault{Line: l.number, Column: columns[i], Text: err.Error()}
			}
		}
		return l, nil
	}, nil
}

func (l *line) set(column, value string) (err error) {
	value = strings.Clone(strings.TrimSpace(value)) // the reader uses its memory again
	number := func(to *int) error {
		if value == "" {
			return nil
		}
		if *to, err = strconv.Atoi(value); err != nil {
			return errors.New("is not a whole number")
		}
		return nil
	}
	switch column {
	case "words":
		return number(&l.Words)
	case "minutes":
		return number(&l.Minutes)
	case "freezes":
		return number(&l.Freezes)
	}
	*map[string]*string{"user": &l.User, "day": &l.Day, "at": &l.At, "kind": &l.Kind, "makeup": &l.Makeup, "reason": &l.Reason, "id": &l.ID,
		"email": &l.Email, "name": &l.Name, "zone": &l.Zone}[column] = value
	return nil
}

// maxLine is the longest line of JSON that is read.
const maxLine = 1 << 16

func jsonReader(r io.Reader) func() (line, error) {
	in := bufio.NewReaderSize(r, maxLine)
	number := 0
	return func() (line, error) {
		for {
			text, err := in.ReadSlice('\n')
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) && (len(text) == 0 || !errors.Is(err, io.EOF)) {
				return line{}, err
			}
			number++
			if errors.Is(err, bufio.ErrBufferFull) {
				for errors.Is(err, bufio.ErrBufferFull) {
					_, err = in.ReadSlice('\n')
				}
				return line{}, Fault{Line: number, Text: "is longer than 65536 bytes"}
			}
			if text = bytes.TrimSpace(text); len(text) == 0 {
				continue
			}
			var l line
			dec := json.NewDecoder(bytes.NewReader(text))
			dec.DisallowUnknownFields()
			err = dec.Decode(&l)
			if err == nil && dec.More() {
				err = errors.New("more than one object on the line")
			}
			if l.number = number; err == nil {
				return l, nil
			}
			fault := Fault{Line: number, Text: strings.TrimPrefix(err.Error(), "json: ")}
			if typ, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
				fault.Column, fault.Text = typ.Field, "is a "+typ.Value+" and should be a "+typ.Type.String()
			}
			return line{}, fault
		}
	}
}

// ExportOptions say what to export. Zero days are no bound.
type ExportOptions struct {
	Format      Format
	User        accounts.ID // zero: everybody
	First, Last civil.Day   // with Bounded
	Bounded     bool
	Accounts    bool // with email, name and zone, for an import elsewhere

	Progress func(done, total int64) error
}

// Export writes check-ins to w as [Exchange.Import] reads them, ordered by user
// and day, then grants, by user and time, in constant memory, and returns how many
// lines. Of some days it writes the grants that were given on them, by UTC.
func (e *Exchange) Export(ctx context.Context, w io.Writer, o ExportOptions) (n int64, err error) {
	defer errs.Wrap(&err, "export")
	if !o.Bounded {
		o.First, o.Last = -1<<31, 1<<31-1
	}
	total, err := e.store.countExport(ctx, o.User, o.First, o.Last)
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
			l.Email, l.Name, l.Zone = x.Email, x.Name, x.Clock.In(e.now())
		}
		if n++; n%importChunk == 0 {
			if err := o.Progress(n, max(n, total)); err != nil {
				return err
			}
		}
		return put(l)
	}
	err = e.store.export(ctx, o.User, o.First, o.Last, func(x exported, d exportedDay) error {
		l := line{Day: civil.Day(d.Day).String(), Kind: Kind(d.Kind).String(), Words: d.Words, Minutes: d.Minutes}
		if d.Month != 0 {
			l.Makeup = makeupText(d.Month, d.N)
		}
		return write(x, l)
	})
	if err == nil {
		err = e.store.exportGrants(ctx, o.User, o.First, o.Last, func(x exported, g granted) error {
			return write(x, line{Kind: grantKind, Freezes: g.N, Reason: g.Reason, ID: g.id})
		})
	}
	return n, errors.Join(err, flush(), out.Flush())
}

// timeForm is RFC 3339 with milliseconds, all of them.
const timeForm = "2006-01-02T15:04:05.000Z07:00"

func (f Format) writer(w io.Writer, withAccounts bool) (put func(line) error, flush func() error, err error) {
	switch f {
	case CSV:
		c := csv.NewWriter(w)
		n := len(Columns) - 3
		if withAccounts {
			n = len(Columns)
		}
		put = func(l line) error {
			freezes := ""
			if l.Freezes != 0 {
				freezes = strconv.Itoa(l.Freezes)
			}
			return c.Write([]string{l.User, l.Day, l.At, l.Kind, strconv.Itoa(l.Words), strconv.Itoa(l.Minutes), l.Makeup, freezes, l.Reason, l.ID,
				l.Email, l.Name, l.Zone}[:n])
		}
		return put, func() error { c.Flush(); return c.Error() }, c.Write(Columns[:n])
	case JSONL:
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return func(l line) error { return enc.Encode(l) }, func() error { return nil }, nil
	}
	return nil, nil, ErrFormat.On("format", "is not one of csv, jsonl")
}

// Grant gives a user n freezes more and keeps the reason. It returns when that
// is committed; a server shows it a moment later. ErrGrant, accounts.ErrNoUser.
func (e *Exchange) Grant(ctx context.Context, user accounts.ID, n int, reason string) (err error) {
	defer errs.Wrap(&err, "checkin.Grant %s", user)
	if reason = strings.TrimSpace(reason); n < 1 || n > maxGrant || !validReason(reason) {
		return ErrGrant
	}
	clocks, err := e.accounts.Clocks(ctx, []accounts.ID{user})
	if err != nil {
		return err
	}
	if _, ok := clocks[user]; !ok {
		return accounts.ErrNoUser
	}
	return e.store.grant(ctx, user, Granted{Grant{n, e.now()}, reason})
}

// Shown is what SQL has of one user, with what led to it.
type Shown struct {
	Status
	Earned  int       // freezes, by days signed
	Granted int       // freezes
	Grants  []Granted // the newest first, at most [MaxShown]
	Makeups []Audited // the newest first, at most [MaxShown]
}

// Audited is a day made up, and against which month's limit.
type Audited struct {
	Makeup
	Month string // 2026-11
}

// MaxShown is how many grants, and days made up, Show returns.
const MaxShown = 1000

// Show returns what a user's status is by these rules, and its audit. In
// redis-first mode the last second's check-in may be missing.
func (e *Exchange) Show(ctx context.Context, user accounts.ID, clock civil.Clock, rules Settings) (out Shown, err error) {
	defer errs.Wrap(&err, "checkin.Show %s", user)
	histories, err := e.store.histories(ctx, []accounts.ID{user})
	if err != nil {
		return Shown{}, err
	}
	h, z, today := histories[user], Freezes{Every: rules.FreezeEvery, Max: rules.FreezeMax}, clock.Today(e.now())
	out = Shown{Status: z.status(recordOf(today.Year(), h), clock, today), Granted: h.granted()}
	if z.Every > 0 && z.Max > 0 {
		out.Earned = out.Total / z.Every
	}
	if out.Grants, err = e.store.grantsOf(ctx, user, MaxShown); err != nil {
		return Shown{}, err
	}
	rows, err := e.store.makeups(ctx, user, madeUp{Month: 1_000_000}, MaxShown)
	out.Makeups = mapped(rows, func(r madeUp) Audited {
		return Audited{Makeup{civil.Day(r.Day), time.UnixMilli(r.At).UTC()}, fmt.Sprintf("%04d-%02d", r.Month/100, r.Month%100)}
	})
	return out, err
}

// maxGrant is the most freezes that one grant gives.
const maxGrant = 100

func validReason(s string) bool {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) }
	return s != "" && s == strings.TrimSpace(s) && utf8.RuneCountInString(s) <= 200 && !strings.ContainsFunc(s, unprintable)
}

// Request asks the servers for a run. ErrRunOptions.
func (e *Exchange) Request(ctx context.Context, kind RunKind, o RunOptions) (*Run, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &Run{Kind: kind, Options: o, State: runWaiting, Created: e.now()}
	return r, e.store.addRun(ctx, r)
}

// Run returns a run as it is now. ErrNoRun.
func (e *Exchange) Run(ctx context.Context, id int64) (*Run, error) { return e.store.run(ctx, id) }

// Current returns the run that is worked on, or next to be; nil when there is
// none.
func (e *Exchange) Current(ctx context.Context) (*Run, error) {
	return e.store.nextRun(ctx, everyKind...)
}

// Runs returns n runs with ids below before (0: from the newest on).
func (e *Exchange) Runs(ctx context.Context, before int64, n int) ([]Run, error) {
	return e.store.runs(ctx, "? = 0 OR id < ? ORDER BY id DESC LIMIT ?", before, before, n)
}

// Withdraw takes a request back that no server has begun, and reports whether it
// could.
func (e *Exchange) Withdraw(ctx context.Context, id int64) (bool, error) {
	return e.store.withdraw(ctx, id)
}

// Repairs returns n lines of the repair log with ids below before (0: from the
// newest on). Of one run it returns what was found and not repaired, too.
func (e *Exchange) Repairs(ctx context.Context, before, run int64, n int) ([]Repair, error) {
	return e.store.repairs(ctx, before, run, n)
}

// laterAgain is how long an import's news wait while Redis is away.
var laterAgain = 10 * time.Second

// followTouched brings Redis up to date with rows whose times lie in the past:
// what it holds of the users is merged with the log, and they move on the
// boards, of the seasons of their rows too. It may be repeated.
func (s *Service) followTouched(ctx context.Context, t touched) (err error) {
	defer errs.Wrap(&err, "checkin.followTouched")
	if !s.projection.Writable() {
		return s.store.followLater(ctx, t, laterAgain)
	}
	f, next, seasons := s.fast.patient(), s.now().Year()+1, kept(s.now())
	for some := range slices.Chunk(t.Users, chunkUsers) {
		histories, err := s.histories(ctx, some)
		if err != nil {
			return err
		}
		clocks, err := s.users.Clocks(ctx, some)
		if err != nil {
			return err
		}
		var keys []yearKey
		ms := moves{}
		for user, history := range histories {
			first := next - 2
			if len(history.Marks) > 0 {
				first = history.Marks[0].Day.Year()
			}
			for year := first; year <= next; year++ { // those that a reconciliation looks at
				keys = append(keys, yearKey{user, year})
			}
			p, ok := s.freezes.placeFrom(user, clocks[user], history)
			if !ok {
				continue
			}
			ms.add(p)
			for _, b := range t.seasons(history, clocks[user].Today(s.now()), seasons) {
				if days, at := history.in(b); days > 0 {
					ms.again(user, b, days, at)
				}
			}
		}
		records, err := f.held(ctx, keys)
		if err != nil {
			return err
		}
		var loaded []yearKey
		var recs []*Record
		for i, h := range records {
			if h.there && !h.foreign { // the others are loaded when somebody asks
				loaded, recs = append(loaded, keys[i]), append(recs, recordOf(keys[i].year, histories[keys[i].user]))
			}
		}
		if len(loaded) > 0 {
			if err := f.load(ctx, loaded, recs); err != nil {
				return err
			}
		}
		if err := f.rankTouched(ctx, ms, s.now()); err != nil {
			return err
		}
	}
	return nil
}

// seasons are the boards of seasons that t has signed days of, of some boards; if
// it does not say which days, those of today.
func (t touched) seasons(h History, today civil.Day, of []Board) (out []Board) {
	days := []civil.Day{today}
	if t.Last != 0 {
		days = nil
		for _, m := range h.Marks {
			if m.Kind.Signs() && t.First <= m.Day && m.Day <= t.Last {
				days = append(days, m.Day)
			}
		}
	}
	for _, d := range days {
		for _, b := range seasonsOf(d) {
			if slices.Contains(of, b) && !slices.Contains(out, b) {
				out = append(out, b)
			}
		}
	}
	return out
}

// followSince does so for all that arrived at that time or later.
func (s *Service) followSince(ctx context.Context, since time.Time) error {
	for at := (arrival{At: since.UnixMilli()}); ; {
		some, err := s.store.arrivals(ctx, true, at, chunkUsers)
		if err != nil || len(some) == 0 {
			return err
		}
		at = some[len(some)-1]
		if err := s.followTouched(ctx, touched{Users: mapped(some, func(a arrival) accounts.ID { return a.User })}); err != nil {
			return err
		}
	}
}
