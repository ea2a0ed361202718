package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/centrifugal/centrifuge"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
)

var calls = []string{
	``, `null`, `{}`, `{"path":{"user":"x"}}`, `{"query":{"limit":20,"before":"9","all":true}}`, `{"body":{"name":"Ann"},"key":"k"}`,
	`{"body":null}`,
	`{"body":[1,[2,{"x":null}]]}`, `{"path":{"user":"\u0000/../\ud83d\ude00"}}`, `{"query":{"limit":1e400}}`,
	`{"path":null,"query":null,"body":null,"key":""}`,
	`{}}`, `{}]`, `{} {}`, `{} x`, `[]`, `"x"`, `7`, `{"path":[]}`, `{"path":{"user":{}}}`, `{"path":{"user":null}}`, `{"query":{"x":[1]}}`,
	`{"query":{"x":[]}}`, `{"query":{"x":["a",true,"b"]}}`, `{"query":{"x":[[1]]}}`, `{"query":{"x":[null]}}`, `{"path":{"x":["a"]}}`,
	`{"key":7}`,
	`{"method":"x"}`, `{"path":{"user":"x"`, `{"body":}`, "{\"key\":\"\xff\"}", strings.Repeat(`{"body":`, 50) + "1" + strings.Repeat("}", 50),
}

// An accepted call equals its data; data that is not a JSON object is refused.
func FuzzParseCall(f *testing.F) {
	for _, data := range calls {
		f.Add("me.get", data)
	}
	f.Add(strings.Repeat("x", maxMethodLength+1), `{}`)
	f.Fuzz(func(t *testing.T, method, data string) {
		in, err := parseCall(method, []byte(data))
		if err != nil {
			if _, ok := errors.AsType[*centrifuge.Error](err); !ok {
				t.Errorf("an error that is not for clients: %v", err)
			}
			return
		}
		if in.Op != method || len(method) > maxMethodLength {
			t.Errorf("the method %q became %q", method, in.Op)
		}
		if data == "" {
			return
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal([]byte(data), &object); err != nil {
			t.Fatalf("%q was taken: %v", data, err)
		}
		if in.Body != nil && !json.Valid(in.Body) {
			t.Errorf("the body %q is no JSON", in.Body)
		}
		for _, m := range []map[string]string{in.Path, in.Query} {
			for name, value := range m {
				if name+value != strings.ToValidUTF8(name+value, "") {
					t.Errorf("%q has the value %q", name, value)
				}
			}
		}
	})
}

func TestParseCall_ParametersAreThoseOfAURL(t *testing.T) {
	for data, want := range map[string]string{
		`{"path":{"user":"x"},"query":{"limit":20,"all":true}}`: `map[user:x] map[all:true limit:20]`,
		`{"query":{"ids":["a","b"]}}`:                           `map[] map[ids:a,b]`,
		`{"query":{"ids":["a"],"n":[1,true]}}`:                  `map[] map[ids:a n:1,true]`,
		`{"query":{"ids":[]}}`:                                  `map[] map[ids:]`,
		`{"query":{"ids":[["a"]]}}`:                             "refused",
		`{"query":{"ids":[null]}}`:                              "refused",
		`{"query":{"ids":{}}}`:                                  "refused",
		`{"path":{"user":["x"]}}`:                               "refused",
	} {
		got := "refused"
		if in, err := parseCall("x", []byte(data)); err == nil {
			got = fmt.Sprint(in.Path, in.Query)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", data, got, want)
		}
	}
}

// For every response of an operation, a client gets JSON data or an error with a code.
func FuzzAnswer(f *testing.F) {
	f.Add(200, `{}`, "")
	f.Add(204, ``, "")
	f.Add(404, `{"code":"user.not_found","detail":"There is no such user."}`, "")
	f.Add(429, `{"code":"limit.exceeded","detail":"Slow down.","errors":[{"location":"body.x","message":"is wrong."}]}`, "5")
	f.Add(500, `no JSON`, "")
	f.Add(400, `{"code":7}`, "x")
	f.Fuzz(func(t *testing.T, status int, body, after string) {
		header := http.Header{}
		if after != "" {
			header.Set("Retry-After", after)
		}
		reply, err := rpcReply(web.Response{Status: status, Header: header, Body: []byte(body)})
		if status < http.StatusBadRequest {
			if err != nil || len(reply.Data) == 0 {
				t.Errorf("%d %q became %q, %v", status, body, reply.Data, err)
			}
			return
		}
		refusal, ok := errors.AsType[*centrifuge.Error](err)
		if !ok || refusal.Code == 0 || refusal.Message == "" {
			t.Fatalf("%d %q became %v", status, body, err)
		}
		var p api.Problem
		if json.Unmarshal([]byte(body), &p) == nil && p.Code != "" && !strings.HasPrefix(refusal.Message, p.Code) {
			t.Errorf("%q does not begin with the code of %q", refusal.Message, body)
		}
	})
}
