package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/httpapi/openapi"
)

// notOneCall lists the methods that send no request or several ones, and have tests of their own.
var notOneCall = []string{"As", "Events", "Listen", "Socket", "Tokens", "Download", "FetchFile", "SendFile", "SendMedia", "Upload",
	"UploadForMessages"}

// notOfTheAPI lists the methods for routes outside the API.
var notOfTheAPI = []string{"DevMails", "Healthy", "Ready"}

// withoutMethod lists the operations without a method of one call, and the reasons.
var withoutMethod = map[string]string{
	"GET /v1/events":                             "Events and Listen",
	"GET /v1/files/{link}":                       "Download",
	"POST /v1/uploads":                           "Upload, by tus",
	"GET /v1/transfers/{transfer}/upload":        "Upload, by tus, which asks with HEAD",
	"PATCH /v1/transfers/{transfer}/upload":      "Upload, by tus",
	"DELETE /v1/transfers/{transfer}/upload":     "CancelTransfer; this is what clients of tus send",
	"POST /v1/streams/{stream}/whip":             "for WebRTC, which this client does not speak",
	"DELETE /v1/streams/{stream}/whip/{session}": "for WebRTC, which this client does not speak",
	"POST /v1/streams/{stream}/whep":             "for WebRTC, which this client does not speak",
	"DELETE /v1/streams/{stream}/whep/{session}": "for WebRTC, which this client does not speak",
}

// Each method of one call sends a request that docs/reference/openapi.json declares. The request has every argument in
// its path, query or body. The method returns the server's response. Each operation has a method.
func TestEveryMethodIsAnOperationOfTheServer(t *testing.T) {
	server := operations(t)
	typ := reflect.TypeFor[*Client]()
	reached := map[string]bool{}
	for i := range typ.NumMethod() {
		m := typ.Method(i)
		if slices.Contains(notOneCall, m.Name) || slices.Contains(notOfTheAPI, m.Name) {
			continue
		}
		t.Run(m.Name, func(t *testing.T) { reached[calls(t, server, m)] = true })
	}
	for op := range server {
		if _, excused := withoutMethod[op]; reached[op] == excused {
			t.Errorf("%s: a method calls it: %v; excused: %v", op, reached[op], excused)
		}
	}
	for op := range withoutMethod {
		if _, there := server[op]; !there {
			t.Errorf("the server has no %s, which is excused", op)
		}
	}
}

// calls calls a method and returns the name of its operation.
func calls(t *testing.T, server map[string]operation, m reflect.Method) (name string) {
	args, texts, body := arguments(t, m)
	var reply []byte
	var want any
	if out := m.Type.Out(0); m.Type.NumOut() == 2 {
		if reply = []byte("{}"); out.Kind() == reflect.Struct {
			reply, want = decoded(t, filled(out, 6))
		}
	}
	var seen *http.Request
	var sent []byte
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r
		sent, _ = io.ReadAll(r.Body)
		if reply == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(reply)
	}))
	defer srv.Close()
	c, err := New(srv.URL, WithTokens(api.Tokens{AccessToken: "a0", RefreshToken: "r0"}))
	if err != nil {
		t.Fatal(err)
	}
	results := m.Func.Call(append([]reflect.Value{reflect.ValueOf(c), reflect.ValueOf(t.Context())}, args...))
	if err := results[len(results)-1]; !err.IsNil() {
		t.Fatalf("error %v", err)
	}
	if got := results[0].Interface(); want != nil && !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}

	op, name := find(server, seen)
	if name == "" {
		t.Fatalf("the server has no %s %s", seen.Method, seen.URL.EscapedPath())
	}
	has := map[string]bool{}
	for segment := range strings.SplitSeq(seen.URL.EscapedPath(), "/") {
		text, _ := url.PathUnescape(segment)
		has[text] = true
	}
	for name, values := range seen.URL.Query() {
		if !slices.Contains(op.Parameters, parameter{name, "query"}) {
			t.Errorf("the operation has no query parameter %q", name)
		}
		for text := range strings.SplitSeq(values[0], ",") {
			has[text] = true
		}
	}
	for _, text := range texts {
		if quoted, _ := json.Marshal(text); !has[text] && !bytes.Contains(sent, quoted) && !bytes.Contains(sent, []byte(":"+text)) {
			t.Errorf("the argument %q is not in %s %s %s", text, seen.Method, seen.RequestURI, sent)
		}
	}
	if body != nil && !bytes.Contains(sent, body) {
		t.Errorf("it sends %s, want %s", sent, body)
	}
	if sends := len(sent) > 0; sends && op.Body == nil || !sends && op.Body != nil && op.Body.Required {
		t.Errorf("it sends %q; the operation's body: %+v", sent, op.Body)
	}
	return name
}

// arguments returns arguments for a method, after the context. None is zero, and no two have the same text or number.
// It also returns these texts and numbers, and the JSON of the argument that is a body.
func arguments(t *testing.T, m reflect.Method) (args []reflect.Value, texts []string, body []byte) {
	one := func(typ reflect.Type) reflect.Value {
		v := filled(typ, 6)
		switch n := len(texts); {
		case v.Kind() == reflect.String:
			v.SetString(fmt.Sprint("a/b?c", n))
			texts = append(texts, v.String())
		case v.CanInt():
			v.SetInt(int64(70 + n))
			texts = append(texts, strconv.FormatInt(v.Int(), 10))
		case typ == reflect.TypeFor[[]byte]():
			body = []byte("GIF89a\xff")
			v.SetBytes(body)
		case typ == reflect.TypeFor[[]string]():
			two := []string{fmt.Sprint("a/b?c", n), fmt.Sprint("a/b?c", n+1)}
			texts = append(texts, two...)
			v.Set(reflect.ValueOf(two))
		case typ.PkgPath() == reflect.TypeFor[api.User]().PkgPath():
			body, _ = decoded(t, v)
		}
		return v
	}
	for i := 2; i < m.Type.NumIn(); i++ {
		if typ := m.Type.In(i); i == m.Type.NumIn()-1 && m.Type.IsVariadic() {
			args = append(args, one(typ.Elem()), one(typ.Elem()))
		} else {
			args = append(args, one(typ))
		}
	}
	return args, texts, body
}

// operation is an operation in docs/reference/openapi.json.
type operation struct {
	Parameters []parameter
	Body       *struct{ Required bool } `json:"requestBody"`
}

type parameter struct{ Name, In string }

// operations returns the server's operations by method and path: "GET /v1/users/{user}".
func operations(t *testing.T) map[string]operation {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]operation
	}
	text, err := os.ReadFile("../docs/reference/openapi.json")
	if err == nil {
		err = openapi.Unmarshal(text, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]operation{}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			all[strings.ToUpper(method)+" "+path] = op
		}
	}
	return all
}

// find returns the operation of a request and its name, or "" if there is none.
func find(server map[string]operation, r *http.Request) (operation, string) {
	got := strings.Split(r.URL.EscapedPath(), "/")
	for _, name := range slices.Sorted(maps.Keys(server)) {
		method, path, _ := strings.Cut(name, " ")
		is := slices.EqualFunc(strings.Split(path, "/"), got, func(want, got string) bool { return want == got || strings.HasPrefix(want, "{") })
		if is && method == r.Method {
			return server[name], name
		}
	}
	return operation{}, ""
}

// filled returns a value of a type without zero parts, n levels deep.
func filled(typ reflect.Type, n int) reflect.Value {
	v := reflect.New(typ).Elem()
	switch {
	case typ == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(1, 0).UTC()))
	case typ == reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`{"a":1}`))
	case n == 0: // a type may contain itself
	case typ.Kind() == reflect.Struct:
		for i := range typ.NumField() {
			if typ.Field(i).IsExported() {
				v.Field(i).Set(filled(typ.Field(i).Type, n-1))
			}
		}
	case typ.Kind() == reflect.Pointer:
		v.Set(reflect.New(typ.Elem()))
		v.Elem().Set(filled(typ.Elem(), n-1))
	case typ.Kind() == reflect.Slice:
		v.Set(reflect.Append(v, filled(typ.Elem(), n-1)))
	case typ.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(typ))
		v.SetMapIndex(filled(typ.Key(), n-1), filled(typ.Elem(), n-1))
	case typ.Kind() == reflect.String:
		v.SetString("s")
	case typ.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(1)
	case v.CanUint():
		v.SetUint(1)
	case v.CanFloat():
		v.SetFloat(1.5)
	}
	return v
}

// decoded returns a value's JSON, and the value decoded from it.
func decoded(t *testing.T, v reflect.Value) (text []byte, again any) {
	t.Helper()
	text, err := json.Marshal(v.Interface())
	to := reflect.New(v.Type())
	if err == nil {
		err = json.Unmarshal(text, to.Interface())
	}
	if err != nil {
		t.Fatal(err)
	}
	return text, to.Elem().Interface()
}
