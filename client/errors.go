package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stoa-dev/stoa/api"
)

// ErrUnreachable reports that no server answered, however often it was asked.
var ErrUnreachable = errors.New("the server cannot be reached")

// Error is a refusal by the server: its problem document.
type Error struct {
	Status     int                // HTTP status
	Code       string             // stable, for machines: "auth.bad_credentials"; "http.502" when the answer was no problem document
	Detail     string             // one sentence for people
	Fields     []api.ProblemField // what is wrong with which part of the input
	RetryAfter time.Duration      // when to come back; zero when the server did not say
}

// Error returns code, detail and fields in one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Code)
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	for _, f := range e.Fields {
		b.WriteString("; " + f.Location + ": " + f.Message)
	}
	return b.String()
}

// errLoggedOut is what a call gets that is not carried out yet when its log-in is over.
var errLoggedOut = &Error{Status: http.StatusUnauthorized, Code: "client.logged_out", Detail: "The log-in of this call is over."}

// passing reports whether an error is a refusal for now: there is too much, or something of the server is away.
func passing(err error) (e *Error, ok bool) {
	e, ok = errors.AsType[*Error](err)
	return e, ok && (e.Status == http.StatusTooManyRequests || e.Status >= http.StatusInternalServerError)
}

// CodeOf returns the code of the first [Error] in err's tree, or "".
func CodeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// maxProblem bounds what is read of a refusal; a proxy's may be a whole page.
const maxProblem = 64 << 10

// refusal makes an Error out of an answer that is none of success.
func refusal(resp *http.Response, now time.Time) *Error {
	e := &Error{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header.Get("Retry-After"), now)}
	var p api.Problem
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err == nil && json.Unmarshal(body, &p) == nil && p.Code != "" {
		e.Code, e.Detail, e.Fields = p.Code, p.Detail, p.Errors
		return e
	}
	e.Code = fmt.Sprintf("http.%d", resp.StatusCode)
	e.Detail = http.StatusText(resp.StatusCode)
	return e
}

// retryAfter reads the header's two forms.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
