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

// ErrUnreachable reports that no server responded to any try.
var ErrUnreachable = errors.New("the server cannot be reached")

// Error is a refusal of the server: its problem document.
type Error struct {
	Status     int                // HTTP status
	Code       string             // stable, for machines: "auth.bad_credentials"; "http.502" if the response was not a problem document
	Detail     string             // one sentence for people
	Fields     []api.ProblemField // faults of the parts of the input
	RetryAfter time.Duration      // when to retry; zero if the server did not set it
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

// errLoggedOut is the error of a call that was not sent before its log-in ended.
var errLoggedOut = &Error{Status: http.StatusUnauthorized, Code: "client.logged_out", Detail: "The log-in of this call is over."}

// passing reports whether err is a temporary refusal: too many requests, a request that arrived too late, or a part of
// the server is unavailable.
func passing(err error) (e *Error, ok bool) {
	e, ok = errors.AsType[*Error](err)
	return e, ok && (e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout ||
		e.Status >= http.StatusInternalServerError)
}

// CodeOf returns the code of the first [Error] in err's tree, or "".
func CodeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// maxProblem bounds the bytes read of a refusal, because a proxy may send a whole page.
const maxProblem = 64 << 10

// refusal converts an unsuccessful response to an Error.
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

// retryAfter parses both forms of the header.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
