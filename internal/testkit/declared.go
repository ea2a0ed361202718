package testkit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/httpapi/openapi"
)

// declared compares every response in a test with the description of the API. The status must be one of its
// operation's. The code of a refusal must be one that the operation lists with that status. No response contains null:
// empty arrays are present, and optional values are omitted.
type declared struct {
	http.RoundTripper
	t    testing.TB
	host string         // the server; other addresses have other descriptions
	ops  *http.ServeMux // finds an operation; its handler is a declaredOp
}

// declaredOp has the codes of an operation by status; a successful response has none.
type declaredOp map[int][]string

func (declaredOp) ServeHTTP(http.ResponseWriter, *http.Request) {}

// described caches the operations by the settings that decide which operations a node has. The description takes longer
// to write than the rest of a node's start.
var described = struct {
	sync.Mutex
	ops map[string]*http.ServeMux
}{ops: map[string]*http.ServeMux{}}

func newDeclared(t testing.TB, next http.RoundTripper, host string, cfg app.Config, document func() []byte) *declared {
	t.Helper()
	described.Lock()
	defer described.Unlock()
	kind := operationsOf(cfg)
	ops, known := described.ops[kind]
	if !known {
		ops = operations(t, document())
		described.ops[kind] = ops
	}
	return &declared{RoundTripper: next, t: t, host: host, ops: ops}
}

// operationsOf returns a key of the settings that decide which operations a node has.
func operationsOf(cfg app.Config) string {
	return fmt.Sprint(cfg.Roles, cfg.OperatorsHere(), cfg.Limits)
}

// operations parses a description of the API.
func operations(t testing.TB, document []byte) *http.ServeMux {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Codes []string `json:"x-codes"`
			}
		}
	}
	if err := openapi.Unmarshal(document, &doc); err != nil {
		t.Fatal(err)
	}
	ops := http.NewServeMux()
	for path, methods := range doc.Paths {
		for method, described := range methods {
			op := declaredOp{}
			for status, r := range described.Responses {
				n, err := strconv.Atoi(status)
				if err != nil {
					t.Fatalf("%s %s answers with %q", method, path, status)
				}
				op[n] = r.Codes
			}
			ops.Handle(strings.ToUpper(method)+" "+path, op)
		}
	}
	return ops
}

// CloseIdleConnections lets http.Client.CloseIdleConnections close those of the wrapped transport.
func (d *declared) CloseIdleConnections() {
	if c, ok := d.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper.
func (d *declared) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := d.RoundTripper.RoundTrip(r)
	if err != nil || r.URL.Host != d.host {
		return res, err
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if kind != "application/json" && kind != "application/problem+json" {
		return res, nil
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return res, err
	}
	if err := res.Body.Close(); err != nil {
		return res, err
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	if h, _ := d.ops.Handler(r); h != nil {
		if op, ok := h.(declaredOp); ok {
			d.check(r, op, res.StatusCode, kind, body)
		}
	}
	return res, nil
}

func (d *declared) check(r *http.Request, op declaredOp, status int, kind string, body []byte) {
	codes, known := op[status]
	var said struct{ Code string }
	var all any
	if len(body) > 0 && json.Unmarshal(body, &all) != nil {
		d.t.Errorf("%s %s answers with what is no JSON: %s", r.Method, r.URL.Path, body)
	}
	switch {
	case !known:
		d.t.Errorf("%s %s answers %d, which the description of the API lacks: %s", r.Method, r.URL.Path, status, body)
	case kind == "application/json" && r.Method != http.MethodHead:
		if where := null(all); where != "" {
			d.t.Errorf("%s %s answers with null at %s", r.Method, r.URL.Path, where)
		}
	case json.Unmarshal(body, &said) == nil && !slices.Contains(codes, said.Code):
		d.t.Errorf("%s %s answers %d %s, and the description of the API lists %q", r.Method, r.URL.Path, status, said.Code, codes)
	}
}

// null returns the path of a null in a JSON value, or "".
func null(v any) string {
	switch v := v.(type) {
	case nil:
		return "."
	case []any:
		for i, e := range v {
			if where := null(e); where != "" {
				return "[" + strconv.Itoa(i) + "]" + where
			}
		}
	case map[string]any:
		for name, e := range v {
			if where := null(e); where != "" {
				return "." + name + where
			}
		}
	}
	return ""
}
