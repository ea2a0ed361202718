package api

import "time"

// Time is a time in JSON: RFC 3339 in UTC with three digits of fraction, "2006-01-02T15:04:05.000Z". It parses every
// RFC 3339 time.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000Z"

// At returns t as a Time.
func At(t time.Time) Time { return Time{t} }

// AtOrNil returns t for an optional field: nil if t is zero.
func AtOrNil(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	return &Time{t}
}

// Std returns the optional field t as the standard library's type: nil if t is nil.
func (t *Time) Std() *time.Time {
	if t == nil {
		return nil
	}
	return &t.Time
}

// AppendTime appends t as [Time] writes it, without quotes.
func AppendTime(b []byte, t time.Time) []byte { return t.UTC().AppendFormat(b, timeLayout) }

// MarshalText returns t in UTC, truncated to milliseconds.
func (t Time) MarshalText() ([]byte, error) { return AppendTime(nil, t.Time), nil }

// MarshalJSON returns the text of [Time.MarshalText] in quotes.
func (t Time) MarshalJSON() ([]byte, error) {
	b := append(make([]byte, 0, len(timeLayout)+2), '"')
	return append(AppendTime(b, t.Time), '"'), nil
}
