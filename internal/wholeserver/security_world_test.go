package wholeserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/httpapi/openapi"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/redis"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// A world is a whole server with users, and access to its SQL and Redis. It tests the promises of docs/security.md for
// every operation of the server's own OpenAPI document, so that a future route is tested as well.
//
// Ann has one of everything. Data that only she may see, or at most the users she shared it with, contains the word
// "hidden". A search for this word in a response therefore detects a leak.
type world struct {
	*testkit.Server
	t     testing.TB
	db    *sqldb.DB
	redis *redis.DB
	ops   []op
	hc    *http.Client

	memory *redistest.Memory // the Redis, in a bubble
	away   bool              // Redis is unavailable, and an operation may report that

	ann, mal person
	belongs  map[string]string // ann's resources, by kind
	people   int
	dumps    map[int]string // statements that read all rows, by the number of omitted tables
}

// person is a user with a logged-in device.
type person struct {
	api.Tokens
	email string
}

const (
	hidden   = "hidden"
	password = "hidden horse battery"
	// annZone is a zone that no other user of a world has.
	annZone = "Pacific/Chatham"
)

// newWorld starts a server on a real redis-server, or in a bubble on one in memory. Limits on mails are off. The only
// user is mal, who represents any logged-in attacker.
func newWorld(t testing.TB, change ...func(*app.Config)) *world {
	t.Helper()
	w := &world{t: t, dumps: map[int]string{}}
	var rdb redis.Config
	if bubble.In(t) {
		w.memory = redistest.InMemory(t)
		rdb = w.memory.Wire().Config()
	} else {
		rdb.URL = redistest.Server(t).URL
	}
	rdb.Prefix = "stoa"
	w.redis = redistest.OpenConfig(t, rdb)
	change = append([]func(*app.Config){func(cfg *app.Config) {
		cfg.Docs = "true" // the source of the operations
		cfg.Redis, cfg.DialRedis = rdb.URL, rdb.Dial
		cfg.Accounts.Limits.CodesPerMinute, cfg.Accounts.Limits.CodesPerDay = 1_000_000, 1_000_000
	}}, change...)
	if _, fuzzing := t.(*testing.F); fuzzing { // its log is closed while inputs are tried
		w.Server = testkit.StartLogged(t, slog.New(slog.DiscardHandler), change...)
	} else {
		w.Server = testkit.Start(t, change...)
	}
	w.db = w.SQL(t)
	w.hc = &http.Client{Transport: w.HTTP.Transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	w.ops = operations(t, w.Server)
	w.mal = w.signUp("mal", "", "")
	return w
}

// signUp registers a user whose address contains the name.
func (w *world) signUp(name, zone, password string) person {
	w.t.Helper()
	w.people++
	email := fmt.Sprintf("%s.%d@example.org", name, w.people)
	c := w.Register(w.t, api.RegisterRequest{Email: email, Password: password, Name: name, Zone: zone, Device: name + "'s phone"})
	return person{c.Tokens(), email}
}

// answer is a response of the server.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) ok() bool { return a.status/100 == 2 }

// code returns the code of a problem, or "".
func (a answer) code() string {
	var p api.Problem
	_ = json.Unmarshal([]byte(a.body), &p) // pictures are not JSON
	return p.Code
}

// request is a request to send.
type request struct {
	method, path, media string
	token               string
	body                io.Reader
	header              http.Header
}

// send sends a request and checks the general promises of every response.
func (w *world) send(r request) answer {
	w.t.Helper()
	a, err := w.try(r)
	if err != nil {
		w.t.Fatalf("%s %s: %v", r.method, r.path, err)
	}
	return a
}

// try is send for a request that may make the server close the connection.
func (w *world) try(r request) (answer, error) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), r.method, w.URL+r.path, r.body)
	must(w.t, err)
	req.Header = r.header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	if r.media != "" {
		req.Header.Set("Content-Type", r.media)
	}
	resp, err := w.hc.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return a, nil // it does not end by itself
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	a.body = string(body)
	if r.method != http.MethodHead {
		w.promised(r, a)
	}
	return a, nil
}

var (
	timesOnWire = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"`)
	threeDigits = regexp.MustCompile(`:\d\d\.\d{3}Z"$`)
)

// promised checks a response against the promises for all of them.
func (w *world) promised(r request, a answer) {
	w.t.Helper()
	fault := func(format string, args ...any) {
		w.t.Helper()
		w.t.Errorf("%s %s: %d, %s\n%.300s", r.method, clip(r.path), a.status, fmt.Sprintf(format, args...), a.body)
	}
	if a.status >= 500 && (a.status != http.StatusServiceUnavailable || !w.away) {
		fault("the server failed")
	}
	for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
		"Referrer-Policy": "no-referrer"} {
		if a.header.Get(name) != want {
			fault("%s is %q", name, a.header.Get(name))
		}
	}
	if csp := a.header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") ||
		!strings.Contains(csp, "frame-ancestors 'none'") {
		fault("the policy is %q", csp)
	}
	if len(a.header["Set-Cookie"]) > 0 {
		fault("it sets a cookie")
	}
	if a.header.Get("Access-Control-Allow-Credentials") != "" {
		fault("it lets other origins use what the browser knows")
	}
	for _, at := range timesOnWire.FindAllString(a.body, -1) {
		if !threeDigits.MatchString(at) {
			fault("%s is not in UTC with three digits of fraction", at)
		}
	}
	if strings.HasPrefix(r.path, "/v1/") {
		if a.status >= 400 && (a.header.Get("Content-Type") != "application/problem+json" || a.code() == "") {
			fault("a refusal is no problem document but %q", a.header.Get("Content-Type"))
		}
		if a.status >= 400 && a.header.Get("Cache-Control") != "no-store" && a.status != http.StatusNotFound &&
			a.status != http.StatusMethodNotAllowed {
			fault("a refusal may be cached: %q", a.header.Get("Cache-Control"))
		}
	}
	for _, inside := range []string{"goroutine ", "panic:", "SQLITE_", "Error 1", ".go:", "sqldb", "redis:", "WRONGTYPE"} {
		if a.status >= 400 && strings.Contains(a.body, inside) {
			fault("it tells of the inside: %q", inside)
		}
	}
}

// json sends v, or a string unchanged, with that token.
func (w *world) json(method, path, token string, v any) answer {
	w.t.Helper()
	r := request{method: method, path: path, token: token}
	if v != nil {
		r.media, r.body = "application/json", strings.NewReader(text(w.t, v))
	}
	return w.send(r)
}

// must is json for a request that must succeed.
func (w *world) must(method, path, token string, v any) answer {
	w.t.Helper()
	a := w.json(method, path, token, v)
	if !a.ok() {
		w.t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
	}
	return a
}

// asMal sends as mal. If an earlier request has ended mal's account or session, it sends as a new user.
func (w *world) asMal(r request) answer {
	w.t.Helper()
	var sent []byte
	if r.body != nil {
		var err error
		if sent, err = io.ReadAll(r.body); err != nil {
			w.t.Fatal(err)
		}
	}
	for range 2 {
		r.token = w.mal.AccessToken
		if r.body != nil {
			r.body = bytes.NewReader(sent)
		}
		if a := w.send(r); a.code() != "auth.token_invalid" {
			return a
		}
		w.mal = w.signUp("mal", "", "")
	}
	w.t.Fatalf("%s %s: a new user's token is refused", r.method, r.path)
	return answer{}
}

// text returns v as JSON, or a string unchanged.
func text(t testing.TB, v any) string {
	t.Helper()
	if s, ok := v.(string); ok {
		return s
	}
	return jsonOf(t, v)
}

func jsonOf(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	must(t, err)
	return string(b)
}

func clip(s string) string { return s[:min(len(s), 120)] }

// parse parses a JSON response.
func parse[T any](t testing.TB, a answer) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	return v
}

// populate creates ann and her resources.
func (w *world) populate() {
	w.t.Helper()
	w.ann = w.signUp("ann."+hidden, annZone, password)
	token := w.ann.AccessToken
	w.belongs = map[string]string{"user": w.ann.User.ID, "device": w.ann.Device, "email": w.ann.email}
	w.must("PATCH", "/v1/me", token, `{"name":"Ann","bio":"for all to see"}`)
	other := parse[api.Tokens](w.t, w.must("POST", "/v1/auth/login", "",
		api.LoginRequest{Email: w.ann.email, Password: password, Device: "the hidden device"}))
	w.belongs["other device"] = other.Device
	w.must("POST", "/v1/checkin", token, `{"words":4242}`)
	ask := func(from person, message, to string) string {
		a := w.must("POST", "/v1/friends/requests", from.AccessToken,
			api.FriendRequestNew{User: to, Message: message, Remark: "the hidden remark", Tag: "hidden"})
		return parse[api.FriendRequestReply](w.t, a).Request.ID
	}
	friend, asker, asked, blocked := w.signUp("bob", "", ""), w.signUp("cat", "", ""), w.signUp("dan", "", ""), w.signUp("eve", "", "")
	w.must("POST", "/v1/friends/requests/"+ask(w.ann, "", friend.User.ID)+"/accept", friend.AccessToken, "{}")
	w.belongs["request"] = ask(asker, "the hidden question", w.ann.User.ID)
	w.belongs["other request"] = ask(w.ann, "the hidden answer", asked.User.ID)
	w.belongs["friend"], w.belongs["blocked"] = friend.User.ID, blocked.User.ID
	w.must("PUT", "/v1/blocks/"+blocked.User.ID, token, nil)
	a := w.send(request{method: "PUT", path: "/v1/me/avatar", media: "image/png", token: token, body: bytes.NewReader(square(w.t, 70))})
	w.belongs["avatar"] = parse[api.Avatar](w.t, a).Avatar
	made := parse[api.GroupMembership](w.t, w.must("POST", "/v1/groups", token,
		api.GroupNew{Name: "the hidden group", Members: []string{friend.User.ID}}))
	w.belongs["group"] = made.Group.ID
	w.belongs["group chat"] = client.ChatIn(made.Group.ID)
	group := "/v1/groups/" + made.Group.ID
	w.must("PATCH", group, token, `{"joins":"asking","announcement":"the hidden announcement"}`)
	joining := w.must("POST", group+"/requests", asker.AccessToken, api.GroupRequestNew{Answer: "the hidden answer to a group"})
	w.belongs["group request"] = parse[api.GroupRequestReply](w.t, joining).Request.ID
	w.must("PATCH", group, token, `{"joins":"invited"}`)
	w.must("PUT", group+"/bans/"+blocked.User.ID, token, nil)
	room := parse[api.RoomPlace](w.t, w.must("POST", "/v1/rooms", token, api.RoomNew{Name: "the hidden room"})).Room.ID
	w.belongs["room"] = room
	w.belongs["room item"] = parse[api.RoomItem](w.t,
		w.must("POST", "/v1/rooms/"+room+"/playlist", token,
			api.RoomItemNew{Kind: api.ItemURL, Source: "https://example.org/hidden.mp4", Title: "the hidden film"})).ID
	w.must("POST", "/v1/rooms/"+room+"/chat", token, api.RoomSay{Text: "the hidden line"})
	w.must("POST", "/v1/rooms/"+room+"/danmaku", token, api.DanmakuNew{Text: "the hidden danmaku"})
	w.belongs["stream"] = parse[api.StreamKeyed](w.t,
		w.must("POST", "/v1/streams", token, api.StreamNew{Title: "the hidden stream"})).Stream.ID
	offered := w.must("POST", "/v1/transfers", token, api.TransferOffer{To: friend.User.ID, Name: "the hidden file", Size: 4242})
	w.belongs["transfer"] = parse[api.Transfer](w.t, offered).ID
	a = w.send(request{method: "PUT", path: group + "/picture", media: "image/png", token: token, body: bytes.NewReader(square(w.t, 70))})
	w.belongs["picture"] = parse[api.GroupMembership](w.t, a).Group.Picture
	note := []byte("the hidden content of a file")
	begun := parse[api.Transfer](w.t, w.must("POST", "/v1/transfers", token,
		api.TransferOffer{Name: "the hidden note", Size: int64(len(note))}))
	upload := request{method: "PATCH", path: "/v1/transfers/" + begun.ID + "/upload", media: "application/offset+octet-stream", token: token,
		body: bytes.NewReader(note), header: http.Header{"Upload-Offset": {"0"}}}
	if a := w.send(upload); !a.ok() {
		w.t.Fatalf("got %d %s", a.status, a.body)
	}
	w.belongs["file"] = begun.ID
	said := api.Send{ClientID: "a-file", Content: api.Content{Kind: api.MessageFile, Media: &api.Media{File: begun.ID}}}
	w.must("POST", "/v1/chats/"+w.belongs["group chat"]+"/messages", token, said)
	w.belongs["token"] = parse[api.Card](w.t, w.must("POST", "/v1/me/card", token, nil)).Token
}

// square returns a PNG.
func square(t testing.TB, side int) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, side, side))))
	return b.Bytes()
}

// owned returns the identifiers of ann's resources, one of each kind.
func (w *world) owned() []string { return slices.Sorted(maps.Values(w.belongs)) }

// rows is the content of SQL, with a line for each row.
type rows map[string]bool

// rows reads all tables except those that change by themselves.
func (w *world) rows() rows {
	w.t.Helper()
	return w.everything("outbox", "dev_mails", "checkin_runs", "checkin_months", "checkin_totals", "activity_days")
}

// everything reads all tables except the named ones. SQLite formats the lines, because with the race detector Go would
// need several times as long.
func (w *world) everything(but ...string) rows {
	w.t.Helper()
	dump, ok := w.dumps[len(but)]
	if !ok {
		var selects []string
		for _, table := range w.tables() {
			if strings.HasPrefix(table, "sqlite_") || slices.Contains(but, table) {
				continue
			}
			line := "'" + table + ":'"
			w.each("SELECT name FROM pragma_table_info('"+table+"')", func(_ []string, values []any) {
				if c := cell(values[0]); c != "used" || table != "sessions" { // a job updates it later
					line += fmt.Sprintf(` || ' %s=' || coalesce(CAST("%[1]s" AS TEXT), '<nil>')`, c)
				}
			})
			selects = append(selects, "SELECT "+line+" FROM "+table)
		}
		dump = strings.Join(selects, " UNION ALL ")
		w.dumps[len(but)] = dump
	}
	all := rows{}
	w.each(dump, func(_ []string, values []any) {
		if row := cell(values[0]); !strings.HasPrefix(row, "settings: name=push_mark") &&
			!strings.HasPrefix(row, "settings: name=last_trial_write") {
			// the server writes these
			all[row] = true
		}
	})
	if len(all) == 0 {
		w.t.Fatal("SQL is empty")
	}
	return all
}

func cell(v any) string {
	if b, ok := v.([]byte); ok {
		return string(b)
	}
	return fmt.Sprint(v)
}

func (w *world) tables() (names []string) {
	w.t.Helper()
	w.each("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name", func(_ []string, values []any) {
		names = append(names, cell(values[0]))
	})
	return names
}

func (w *world) each(query string, fn func(columns []string, values []any)) {
	w.t.Helper()
	res, err := w.db.QueryContext(w.t.Context(), query)
	must(w.t, err)
	defer res.Close()
	columns, err := res.Columns()
	must(w.t, err)
	for res.Next() {
		values, to := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		must(w.t, res.Scan(to...))
		fn(columns, values)
	}
	must(w.t, res.Err())
}

// of returns the rows that contain one of these names.
func (r rows) of(names ...string) rows {
	some := rows{}
	for row := range r {
		if slices.ContainsFunc(names, func(n string) bool { return strings.Contains(row, n) }) {
			some[row] = true
		}
	}
	return some
}

// changes returns the removed and the added rows, each with a sign in front.
func (r rows) changes(after rows) (all []string) {
	for _, row := range r.without(after) {
		all = append(all, "- "+row)
	}
	for _, row := range after.without(r) {
		all = append(all, "+ "+row)
	}
	return all
}

// without returns the rows that are in r and not in s, sorted.
func (r rows) without(s rows) (only []string) {
	for row := range r {
		if !s[row] {
			only = append(only, row)
		}
	}
	slices.Sort(only)
	return only
}

// op is an operation of the OpenAPI document.
type op struct {
	method, path, id string
	public, stream   bool
	params           []param
	media            string // of the body; empty without one
	body             *schema
}

func (o op) String() string { return o.method + " " + o.path }

func (o op) json() bool { return o.media == "application/json" }

type param struct {
	Name   string  `json:"name"`
	In     string  `json:"in"`
	Schema *schema `json:"schema"`
}

// schema has the parts of JSON Schema that the document uses.
type schema struct {
	Ref        string             `json:"$ref"`
	Type       any                `json:"type"`
	Format     string             `json:"format"`
	Pattern    string             `json:"pattern"`
	Enum       []any              `json:"enum"`
	Default    any                `json:"default"`
	MinLength  int                `json:"minLength"`
	MinItems   int                `json:"minItems"`
	Minimum    *float64           `json:"minimum"`
	Properties map[string]*schema `json:"properties"`
	Required   []string           `json:"required"`
	Additional any                `json:"additionalProperties"`
	Items      *schema            `json:"items"`
}

func (s *schema) is(kind string) bool {
	if list, ok := s.Type.([]any); ok {
		return slices.Contains(list, any(kind))
	}
	return s.Type == kind
}

// described caches the operations of servers by [testkit.Server.Operations], because describing them takes long.
var described = struct {
	sync.Mutex
	ops map[string][]op
}{ops: map[string][]op{}}

func operations(t testing.TB, s *testkit.Server) []op {
	t.Helper()
	described.Lock()
	defer described.Unlock()
	if described.ops[s.Operations] == nil {
		described.ops[s.Operations] = readOperations(t, s)
	}
	return slices.Clone(described.ops[s.Operations])
}

// readOperations reads the document.
func readOperations(t testing.TB, s *testkit.Server) (ops []op) {
	t.Helper()
	resp, err := s.HTTP.Get(s.URL + "/openapi.json")
	must(t, err)
	defer resp.Body.Close()
	var doc struct {
		Paths map[string]map[string]struct {
			ID       string           `json:"operationId"`
			Params   []param          `json:"parameters"`
			Security []map[string]any `json:"security"`
			Body     *struct {
				Content map[string]struct {
					Schema *schema `json:"schema"`
				} `json:"content"`
			} `json:"requestBody"`
			Responses map[string]struct {
				Content map[string]any `json:"content"`
			} `json:"responses"`
		} `json:"paths"`
		Components struct {
			Schemas map[string]*schema `json:"schemas"`
		} `json:"components"`
	}
	compact, err := io.ReadAll(resp.Body)
	must(t, err)
	must(t, openapi.Unmarshal(compact, &doc))
	var resolve func(s *schema) *schema
	resolve = func(s *schema) *schema {
		if s == nil {
			return &schema{}
		}
		if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
			return resolve(doc.Components.Schemas[name])
		}
		for name, p := range s.Properties {
			s.Properties[name] = resolve(p)
		}
		if s.Items != nil {
			s.Items = resolve(s.Items)
		}
		return s
	}
	for path, methods := range doc.Paths {
		for method, m := range methods {
			o := op{method: strings.ToUpper(method), path: path, id: m.ID, params: m.Params, public: len(m.Security) == 0}
			for i := range o.params {
				o.params[i].Schema = resolve(o.params[i].Schema)
			}
			if m.Body != nil {
				for media, c := range m.Body.Content {
					if o.media == "" || media == "application/json" || media < o.media {
						o.media, o.body = media, resolve(c.Schema)
					}
				}
			}
			inPath := slices.DeleteFunc(slices.Clone(o.params), func(p param) bool { return p.In != "path" })
			if len(inPath) != strings.Count(path, "{") {
				t.Errorf("%s has the parameters %v in its path", o, inPath) // it would be read as empty
			}
			_, o.stream = m.Responses["200"].Content["text/event-stream"]
			ops = append(ops, o)
		}
	}
	if len(ops) < 15 {
		t.Fatalf("found %d operations", len(ops))
	}
	slices.SortFunc(ops, func(a, b op) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	return ops
}

// place is where a client sends a value: a parameter or a field of the body.
type place struct {
	in, name string // path, query, header or body
	schema   *schema
}

func (p place) String() string { return p.in + "." + p.name }

// text reports whether it accepts text, or several texts separated by commas.
func (p place) text() bool {
	return p.schema.is("string") || p.in == "query" && p.schema.is("array") && p.schema.Items.is("string")
}

// places returns the places of an operation's values.
func (o op) places() (all []place) {
	for _, p := range o.params {
		all = append(all, place{p.In, p.Name, p.Schema})
	}
	if o.json() {
		for _, name := range slices.Sorted(maps.Keys(o.body.Properties)) {
			all = append(all, place{"body", name, o.body.Properties[name]})
		}
	}
	return all
}

// fits returns an example value for the place.
func (p place) fits() any {
	s := p.schema
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Default != nil:
		return s.Default
	case s.is("integer"), s.is("number"):
		if s.Minimum != nil {
			return max(*s.Minimum, 1)
		}
		return 1
	case s.is("boolean"):
		return true
	case s.is("array"):
		if s.MinItems > 0 {
			return []any{strings.Repeat("n", 12)}
		}
		return []any{}
	case s.is("object"):
		return map[string]any{}
	}
	switch {
	case p.name == "code", s.Pattern == "^[0-9]{6}$":
		return "000000"
	case p.name == "email":
		return "nobody@example.org"
	case p.name == "zone":
		return "UTC"
	case p.name == "size":
		return "64"
	case s.Format == "date":
		return time.Now().UTC().Format(time.DateOnly)
	case p.in == "header":
		return "a-key"
	case p.name == "password", p.name == "current":
		return "correct horse"
	}
	return strings.Repeat("n", max(s.MinLength, 12)) // an unknown identifier
}

// request builds a request to o with valid values, except for the ones given by place. Optional values are omitted
// unless given.
func (o op) request(t testing.TB, given map[string]any) request {
	t.Helper()
	r := request{method: o.method, path: o.path, header: http.Header{}}
	query, body := url.Values{}, map[string]any{}
	for _, p := range o.places() {
		v, ok := given[p.String()]
		if !ok {
			if p.in == "query" || p.in == "header" || p.in == "body" && !slices.Contains(o.body.Required, p.name) {
				continue
			}
			v = p.fits()
		}
		switch p.in {
		case "path":
			r.path = strings.ReplaceAll(r.path, "{"+p.name+"}", strings.ReplaceAll(url.PathEscape(fmt.Sprint(v)), ".", "%2E"))
		case "query":
			query.Set(p.name, fmt.Sprint(v))
		case "header":
			r.header.Set(p.name, fmt.Sprint(v))
		case "body":
			body[p.name] = v
		}
	}
	if len(query) > 0 {
		r.path += "?" + query.Encode()
	}
	switch {
	case o.json():
		r.media, r.body = o.media, strings.NewReader(text(t, body))
	case o.media != "":
		r.media, r.body = strings.Replace(o.media, "*", "png", 1), strings.NewReader("no picture")
	}
	return r
}
