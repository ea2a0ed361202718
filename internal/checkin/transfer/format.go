package transfer

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/stoa-dev/stoa/internal/base/errs"
)

// Format is a format of files.
type Format string

// The formats. Both have one check-in or grant on each line, with the columns of [Columns].
const (
	CSV   Format = "csv"
	JSONL Format = "jsonl"
)

// Columns are the columns of a check-in or a grant in a file. An import needs day and either user or email. makeup is
// for made-up days. freezes, reason and id are for grants, which have no day. name and zone are for the accounts that
// an import creates.
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

// grantKind is the kind of a line with a grant.
const grantKind = "grant"

// The errors of a file as a whole.
var (
	ErrFormat     = errs.New(errs.Invalid, "checkin.import_format", "The file is neither CSV with a header line nor JSON lines.")
	ErrTooManyBad = errs.New(errs.Invalid, "checkin.import_bad_rows", "Too many rows are wrong.")
)

// Fault is what is wrong with one row of an import.
type Fault struct {
	Line   int    `json:"line"`
	Column string `json:"column,omitempty"` // empty: the line as a whole
	Text   string `json:"text"`

	// Of is the account that is wrong, as the file names it; empty if the row itself is wrong.
	Of string `json:"of,omitempty"`
	// Rows is the number of rows with this very fault, from Line to Last. Only [ImportOptions].Repeated gets these two,
	// for more than one row.
	Rows int64 `json:"rows,omitempty"`
	Last int   `json:"last,omitempty"`
}

func (f Fault) Error() string {
	if f.Column == "" {
		return fmt.Sprintf("line %d: %s", f.Line, f.Text)
	}
	return fmt.Sprintf("line %d, %s: %s", f.Line, f.Column, f.Text)
}

// reader returns a function that reads one line after the other until io.EOF. A [Fault] is an error of one line.
func (f Format) reader(r io.Reader) (func() (line, error), error) {
	switch f {
	case CSV:
		return csvReader(r)
	case JSONL:
		return jsonReader(r), nil
	}
	return nil, ErrFormat.On("format", "is not one of csv, jsonl")
}

// maxRow is the longest row of CSV that is read, in bytes. An open quote includes the rest of the file, and then the
// start of the next row is unknown.
const maxRow = 1 << 20

var errLongRow = errors.New("row too long")

// bounded reads left bytes and then returns errLongRow.
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
	in := bufio.NewReaderSize(row, 1<<16) // package csv uses a reader of this size as it is
	if mark, err := in.Peek(3); err == nil && bytes.Equal(mark, []byte("\ufeff")) {
		_, _ = in.Discard(3) // spreadsheets put it before UTF-8
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
			return nil, ErrFormat.On("line 1", fmt.Sprintf("column %d, %.40q, is unknown or given twice; columns are %s", i+1, columns[i],
				strings.Join(Columns, ", ")))
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
			return line{}, ErrFormat.On(fmt.Sprintf("after line %d", last), "a row exceeds a million bytes; check for an open quote")
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
	value = strings.Clone(strings.TrimSpace(value)) // the reader reuses its memory
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

// maxLine is the longest line of JSON that is read, in bytes.
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
