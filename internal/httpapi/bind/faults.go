package bind

import (
	"cmp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stoa-dev/stoa/internal/base/errs"
)

// Refusals of requests that do not fit an operation. Their fields list the faults.
var (
	ErrMalformed = errs.New(errs.Invalid, "request.malformed", "The request is malformed.")
	ErrInvalid   = errs.New(errs.Invalid, "request.invalid", "The request does not fit this operation. See the errors.")
)

// maxFields is the largest number of fields in a refusal.
const maxFields = 10

// init sets package variables of huma. Without that, "Words" would match "words", and every array would be described as
// nullable.
func init() { huma.ValidateStrictCasing, huma.DefaultArrayNullable = true, false }

// Refusal returns a refusal, ErrMalformed or ErrInvalid, with the faults of a request. Unlike huma's own, it repeats no
// value of the request.
func Refusal(e *errs.Error, faults []error) error {
	var fields []errs.Field
	for _, fault := range faults {
		d, ok := fault.(huma.ErrorDetailer)
		if !ok {
			continue // may contain a value of the request
		}
		// The text after a colon quotes the value: "expected … email: …".
		text, _, _ := strings.Cut(d.ErrorDetail().Message, ": ")
		fields = append(fields, errs.Field{Where: clip(d.ErrorDetail().Location), Text: text})
	}
	// huma reports unknown fields in map order.
	slices.SortStableFunc(fields, func(a, b errs.Field) int {
		return cmp.Or(strings.Compare(a.Where, b.Where), strings.Compare(a.Text, b.Text))
	})
	fields = slices.Compact(fields)
	for _, f := range fields[:min(len(fields), maxFields)] {
		e = e.On(f.Where, f.Text)
	}
	return e
}

// clip shortens a location, because it contains names from the client.
func clip(s string) string {
	const maxLen = 80
	if len(s) <= maxLen {
		return s
	}
	return strings.ToValidUTF8(s[:maxLen], "") + "…"
}
