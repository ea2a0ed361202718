package wholeserver

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/groups"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// public lists the operations that need no token. A new entry needs a decision.
var public = []string{
	"GET /v1/avatars/{avatar}/{size}", "POST /v1/auth/codes", "POST /v1/auth/email/undo", "POST /v1/auth/jwt", "POST /v1/auth/login",
	"POST /v1/auth/password", "POST /v1/auth/refresh", "POST /v1/auth/register",
	"GET /v1/files/{link}", "GET /v1/group-pictures/{picture}/{size}", "GET /v1/room-links/{link}", "GET /v1/server",
	"POST /v1/rooms/{room}/guests",
}

func TestEveryOperationButTheListedNeedsAToken(t *testing.T) {
	w := newWorld(t)
	w.populate()
	var open []string
	for _, o := range w.ops {
		if o.public {
			open = append(open, o.String())
		}
	}
	slices.Sort(open)
	slices.Sort(public)
	if !slices.Equal(open, public) {
		t.Errorf("the public operations are\n%q, want\n%q", open, public)
	}
	revoked := w.signUp("rev", "", "")
	w.must("POST", "/v1/auth/logout", revoked.AccessToken, nil)
	good := w.mal.AccessToken
	letter := 29 + strings.IndexFunc(good[29:], unicode.IsLetter)
	flipped := []byte(good)
	flipped[letter] ^= 'a' ^ 'A'
	tokens := map[string][]string{
		"none":                  nil,
		"an empty one":          {"Bearer "},
		"garbage":               {"Bearer garbage"},
		"basic":                 {"Basic bWFsOm1hbA=="},
		"no scheme":             {good},
		"a refresh token":       {"Bearer " + w.mal.RefreshToken},
		"cut off":               {"Bearer " + good[:len(good)-1]},
		"longer":                {"Bearer " + good + "A"},
		"in another case":       {"Bearer " + string(flipped)},
		"upper case":            {"Bearer " + strings.ToUpper(good)},
		"of another user":       {"Bearer sa_" + w.ann.User.ID + good[15:]},
		"of another device":     {"Bearer " + good[:16] + w.ann.Device + good[28:]},
		"unicode":               {"Bearer " + strings.Replace(good, "sa_", "ſa_", 1)},
		"with a space":          {"Bearer  " + good},
		"revoked":               {"Bearer " + revoked.AccessToken},
		"two of them":           {"Bearer " + good, "Bearer " + good},
		"two in one":            {"Bearer " + good + ", Bearer " + good},
		"of two, the first bad": {"Bearer garbage", "Bearer " + good},
	}
	before := w.rows()
	for _, o := range w.ops {
		if o.public {
			continue
		}
		for name, lines := range tokens {
			r := o.request(t, nil)
			if lines != nil {
				r.header["Authorization"] = lines
			}
			w.refused(o, name, w.send(r))
		}
		r := o.request(t, nil)
		r.path += "?access_token=" + good + "&token=" + good
		r.header.Set("Cookie", "token="+good+"; access_token="+good+"; session="+good)
		r.header.Set("X-User-Id", w.ann.User.ID)
		r.header.Set("X-Forwarded-User", w.ann.User.ID)
		w.refused(o, "in other places", w.send(r))
	}
	if changed := before.changes(w.rows()); len(changed) > 0 {
		t.Errorf("requests without a good token changed\n%s", strings.Join(changed, "\n"))
	}
	if w.json("GET", "/v1/me", good, nil).status != 200 {
		t.Error("the token that none of this used is bad")
	}
	banned := w.signUp("ban", "", "")
	id, err := ids.Parse[accounts.User](banned.User.ID)
	must(t, err)
	must(t, accounts.NewDirectory(w.db).Ban(t.Context(), id, time.Now().Add(time.Hour), "a test"))
	eventually.True(t, "a banned user's token to be refused", func() bool { return !w.json("GET", "/v1/me", banned.AccessToken, nil).ok() })
	for _, o := range w.ops {
		if !o.public {
			r := o.request(t, nil)
			r.token = banned.AccessToken
			w.refused(o, "of a banned user", w.send(r))
		}
	}
	w.Clock.Set(w.Clock.Now().Add(25 * time.Hour))
	for _, o := range w.ops {
		if !o.public {
			r := o.request(t, nil)
			r.token = good
			w.refused(o, "expired", w.send(r))
		}
	}
}

// refused expects 401 and a challenge.
func (w *world) refused(o op, token string, a answer) {
	w.t.Helper()
	if a.status != http.StatusUnauthorized || !strings.HasPrefix(a.header.Get("Www-Authenticate"), "Bearer ") {
		w.t.Errorf("%s with a token that is %s: got %d %s", o, token, a.status, a.body)
	}
}

// known lists, with the tables, the operations of another user that may rightly create or change rows of ann's.
var known = map[string][]string{
	// lists are locked and versioned by their rows
	"POST /v1/friends/requests": {"friend_requests", "friend_lists", "notices", "notice_lists"},
	"PUT /v1/blocks/{user}":     {"blocks", "friend_lists"},
}

// TestNobodyReachesWhatIsSomebodyElses puts identifiers of ann's into every text of every operation, as another user. A
// place in a body gets ann's identifier of the kind that it names, and a quarter of the others, a different one in each
// run: all of them would take minutes.
func TestNobodyReachesWhatIsSomebodyElses(t *testing.T) {
	w := newWorld(t)
	w.populate()
	asked, turn := 0, rand.IntN(4)
	t.Logf("turn %d of four", turn)
	before := w.rows().of(w.owned()...)
	for _, o := range w.ops {
		w.mal = w.signUp("mal", "", "")
		said := []string{}
		for _, p := range o.places() {
			if !p.text() {
				continue
			}
			turn++
			for i, kind := range slices.Sorted(maps.Keys(w.belongs)) {
				named := kind == p.name || strings.HasSuffix(kind, " "+p.name)
				if p.in == "body" && !named && (i+turn)%4 != 0 {
					continue
				}
				asked++
				a := w.asMal(o.request(t, map[string]any{p.String(): w.belongs[kind]}))
				said = append(said, w.belongs[kind])
				w.leaksNothing(o, p.String()+" is ann's "+kind, a, mayHear(o, kind, said)...)
				if strings.HasPrefix(o.path, "/v1/service/") { // no user may call it
					if !strings.Contains(a.body, `"auth.caller"`) {
						t.Errorf("%s is %d to a user: %s", o, a.status, a.body)
					}
					continue
				}
				if p.in == "path" && named && !shown[o.path] {
					w.looksLikeNothing(o, p, kind, a)
				}
			}
		}
		after := w.rows().of(w.owned()...)
		for _, row := range append(before.without(after), after.without(before)...) {
			table, _, _ := strings.Cut(row, ":")
			// mal's own input
			own := !before[row] && slices.Contains([]string{"users", "idempotency_keys", "chat_groups", "rooms", "streams"}, table) ||
				!before[row] && o.String() == "POST /v1/groups" && slices.Contains([]string{"conversations", "messages"}, table) ||
				// an upload of mal's own with that name
				!before[row] && o.String() == "POST /v1/transfers" && table == "transfers" && strings.Contains(row, " receiver= ")
			if !own && !slices.Contains(known[o.String()], table) {
				t.Errorf("%s by somebody else changed what is ann's: %s", o, row)
			}
		}
		before = after
	}
	if asked < 100 {
		t.Errorf("tried %d requests; the walk is broken", asked)
	}
	w.annSees(t)
}

// mayHear returns the inputs of mal that a response may repeat. It is all of them where the response has mal's own
// data. Where other users are shown, it is only the requested id.
func mayHear(o op, kind string, said []string) []string {
	switch {
	case !strings.HasPrefix(o.path, "/v1/users") && !strings.HasPrefix(o.path, "/v1/cards"):
		return said
	case kind == "email":
		return nil
	}
	return said[len(said)-1:]
}

// shown lists the paths whose identifiers are meant for other users.
var shown = map[string]bool{
	"/v1/users/{user}": true, "/v1/blocks/{user}": true, "/v1/cards/{token}": true, "/v1/avatars/{avatar}/{size}": true,
	"/v1/group-pictures/{picture}/{size}": true,
}

// looksLikeNothing expects the same response for a resource of ann's as for an unknown identifier, so that users cannot
// detect which identifiers exist.
func (w *world) looksLikeNothing(o op, p place, kind string, a answer) {
	w.t.Helper()
	var nothing map[string]any
	if kind == "group chat" { // the server refuses an invalid id before it checks anything else
		nothing = map[string]any{p.String(): client.ChatIn(ids.New[groups.Group]().String())}
	}
	none := w.asMal(o.request(w.t, nothing))
	if a.status != none.status || a.body != none.body || a.status != http.StatusNotFound && nothing == nil {
		w.t.Errorf("%s: for ann's %s the answer is %d %s, for nothing at all it is %d %s", o, kind, a.status, a.body, none.status, none.body)
	}
}

// leaksNothing expects no hidden data in a response to another user, except the user's own input.
func (w *world) leaksNothing(o op, what string, a answer, said ...string) {
	w.t.Helper()
	for _, s := range said {
		a.body = strings.ReplaceAll(a.body, s, "")
	}
	for _, secret := range []string{hidden, annZone, w.ann.AccessToken, w.ann.RefreshToken, w.belongs["other device"], w.belongs["blocked"],
		w.belongs["token"]} {
		if strings.Contains(strings.ToLower(a.body), strings.ToLower(secret)) {
			w.t.Errorf("%s, where %s, told somebody else %q:\n%s", o, what, secret, a.body)
		}
	}
}

// annSees checks that the data existed: ann can read and change it.
func (w *world) annSees(t *testing.T) {
	t.Helper()
	seen := ""
	for _, path := range []string{"/v1/me", "/v1/sessions", "/v1/friends", "/v1/friends/requests", "/v1/friends/requests?box=out",
		"/v1/blocks", "/v1/me/card"} {
		seen += w.must("GET", path, w.ann.AccessToken, nil).body
	}
	for _, secret := range []string{w.ann.email, annZone, "the hidden device", "the hidden remark", "the hidden answer", "the hidden question",
		w.belongs["blocked"], w.belongs["token"]} {
		if !strings.Contains(seen, secret) {
			t.Errorf("ann herself does not see %q", secret)
		}
	}
	before := w.rows()
	w.must("DELETE", "/v1/sessions/"+w.belongs["other device"], w.ann.AccessToken, nil)
	w.must("POST", "/v1/friends/requests/"+w.belongs["request"]+"/accept", w.ann.AccessToken, "{}")
	w.must("DELETE", "/v1/friends/requests/"+w.belongs["other request"], w.ann.AccessToken, nil)
	if gone := before.without(w.rows()); !strings.Contains(strings.Join(gone, "\n"), w.belongs["other device"]) {
		t.Error("that a device of ann's is gone does not show")
	}
}

// serverOwned lists fields that only the server sets, as attackers guess them.
var serverOwned = map[string]any{
	"id": "AAAAAAAAAAAA", "user_id": "AAAAAAAAAAAA", "uid": "AAAAAAAAAAAA", "owner": "AAAAAAAAAAAA", "from": "AAAAAAAAAAAA",
	"admin": true, "is_admin": true, "role": "admin", "roles": []string{"admin"}, "verified": true,
	"banned": false, "banned_until": 0, "erased": nil, "deleted": false, "created": "2020-01-01T00:00:00Z", "state": "accepted",
	"password_hash": "x", "email_key": "x", "access_token": "x", "token": "x", "device_id": "AAAAAAAAAAAA",
	"version": 99, "since": "2020-01-01T00:00:00Z", "expires": "2099-01-01T00:00:00Z", "__proto__": map[string]any{"admin": true},
	"constructor": 1,
}

func TestAFieldThatAnOperationDoesNotTakeIsRefusedByName(t *testing.T) {
	w := newWorld(t)
	w.populate()
	for _, o := range w.ops {
		if !o.json() {
			continue
		}
		w.closed(o, "body", o.body, 0)
		if strings.HasPrefix(o.path, "/v1/service/") { // no user may call these
			continue
		}
		before := w.rows()
		fields := maps.Clone(serverOwned)
		for _, name := range []string{"email", "name", "user", "device", "avatar", "zone", "password"} {
			fields[name] = "x"
		}
		for name := range o.body.Properties { // in another case it is another field
			fields[strings.ToUpper(name)] = "x"
		}
		for name, v := range fields {
			if o.body.Properties[name] != nil {
				continue
			}
			a := w.asMal(o.request(t, map[string]any{}).with(t, name, v))
			if a.status != http.StatusUnprocessableEntity || !strings.Contains(a.body, `"body.`+name+`"`) {
				t.Errorf("%s with the field %s: got %d %s", o, name, a.status, a.body)
			}
		}
		if changed := before.without(w.rows()); len(changed) > 0 {
			t.Errorf("%s: what was refused changed\n%s", o, strings.Join(changed, "\n"))
		}
	}
}

// with adds a field to a JSON body.
func (r request) with(t testing.TB, name string, v any) request {
	t.Helper()
	b, err := io.ReadAll(r.body)
	must(t, err)
	comma := ","
	if string(b) == "{}" {
		comma = ""
	}
	r.body = strings.NewReader(strings.TrimSuffix(string(b), "}") + comma + jsonOf(t, name) + ":" + jsonOf(t, v) + "}")
	return r
}

// closed expects every object that a client sends to refuse unknown fields.
func (w *world) closed(o op, where string, s *schema, depth int) {
	w.t.Helper()
	if s.is("object") && len(s.Properties) > 0 && s.Additional != false {
		w.t.Errorf("%s: %s takes any field", o, where)
	}
	if depth > 4 {
		return
	}
	for name, p := range s.Properties {
		w.closed(o, where+"."+name, p, depth+1)
	}
	if s.Items != nil {
		w.closed(o, where+"[]", s.Items, depth+1)
	}
}

// hostile lists texts with a meaning in SQL, Redis, keys, paths, pages or terminals.
var hostile = []string{
	`' OR '1'='1`, `' OR 1=1 -- `, `"; DROP TABLE users; --`, `1); DELETE FROM sessions; --`, `\' OR 1=1 #`,
	`' UNION SELECT email, name FROM users --`,
	`%`, `_`, `%' ESCAPE '!`, `?`, `?0`, `{{uid}}`, `{user}`, `}`, `user:info:*`, `a:b:c`, `[a-z]*`, `:`, `*`, "%00", `\x00`,
	"\x00", "a\x00b", "\r\nSET x 1\r\n", "*1\r\n$8\r\nFLUSHALL\r\n", "a\nb", "\u2028", "\ufeff", "\u202egnp.exe", "\u200b",
	"é\u0301\u0301\u0301", "\U0001F468\u200d\U0001F469",
	`../../../../etc/passwd`, `..\..\windows`, `/etc/passwd`, `file:///etc/passwd`, `http://127.0.0.1:1/`, "${jndi:ldap://127.0.0.1:1/a}",
	`{{7*7}}`, `$(reboot)`, "`reboot`",
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `javascript:alert(1)`, "\x1b[31mred\x1b[0m", `null`, `undefined`, `NaN`,
	`-1`, `1e309`, `0x10`, `9223372036854775808`,
	"", " ", strings.Repeat("A", 300), strings.Repeat("é", 128), strings.Repeat("a@", 130), strings.Repeat("(", 60), "a@b",
	"a@b\r\nBcc: all@example.org", `"a b"@example.org`, "a@[127.0.0.1]", "\xff\xfe",
}

// TestNoTextReachesAnythingButItsPlace puts texts that are hostile to SQL and Redis into every text of every operation.
// Each place gets a quarter of them, a different one in each run.
func TestNoTextReachesAnythingButItsPlace(t *testing.T) {
	w := newWorld(t)
	w.populate()
	tables, before := w.tables(), w.rows().of(w.owned()...)
	size, asked := w.sizes(), 0
	turn := rand.IntN(4)
	t.Logf("turn %d of four", turn)
	for _, o := range w.ops {
		for _, p := range o.places() {
			if !p.text() {
				continue
			}
			turn++
			for i, s := range hostile {
				if (i+turn)%4 != 0 {
					continue
				}
				if p.in == "header" && strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) || p.in == "path" && s == "" {
					continue // a Go client cannot send it; see the raw ones
				}
				asked++
				a := w.asMal(o.request(t, map[string]any{p.String(): s}))
				w.leaksNothing(o, fmt.Sprintf("%s is %q", p, s), a)
				if strings.Contains(a.body, w.ann.User.ID) {
					t.Errorf("%s, where %s is %q, found ann: %s", o, p, s, a.body)
				}
			}
		}
	}
	if asked < 500 {
		t.Errorf("tried %d requests; the walk is broken", asked)
	}
	if got := w.tables(); !slices.Equal(got, tables) {
		t.Errorf("the tables are %q, want %q", got, tables)
	}
	if changed := before.without(w.rows()); len(changed) > 0 {
		t.Errorf("ann's rows changed:\n%s", strings.Join(changed, "\n"))
	}
	for table, n := range w.sizes() {
		if n < size[table] && table != "outbox" || n > size[table]+asked {
			t.Errorf("%s had %d rows and has %d after %d requests", table, size[table], n, asked)
		}
	}
	w.each("PRAGMA integrity_check", func(_ []string, values []any) {
		if cell(values[0]) != "ok" {
			t.Errorf("SQLite says: %s", values[0])
		}
	})
	redistest.KeysDeclared(t, w.redis, app.Keys()...)
}

func (w *world) sizes() map[string]int {
	n := map[string]int{}
	for _, table := range w.tables() {
		w.each("SELECT COUNT(*) FROM "+table, func(_ []string, values []any) { n[table] = int(values[0].(int64)) })
	}
	return n
}

// TestNoOperationFailsWhileRedisIsAway lets ann call every operation on her resources without a Redis. No operation
// fails; those that need Redis return a refusal.
func TestNoOperationFailsWhileRedisIsAway(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.populate()
		w.away = true
		w.memory.Kill()
		bubble.Sleep(time.Second)
		ends := func(o op) int { // operations that delete come last, and those that end ann's session at the very end
			switch {
			case o.path == "/v1/auth/logout" || o.path == "/v1/me/deletion" || o.method == "DELETE" && strings.HasPrefix(o.path, "/v1/sessions"):
				return 2
			case o.method == "DELETE":
				return 1
			}
			return 0
		}
		done, need := 0, []string{}
		for _, o := range slices.SortedStableFunc(slices.Values(w.ops), func(a, b op) int { return ends(a) - ends(b) }) {
			switch a := w.send(w.hers(o)); {
			case a.status < 300:
				done++
			case a.status == http.StatusServiceUnavailable:
				need = append(need, o.String()+" "+a.code())
			}
		}
		if want := []string{"POST /v1/rooms/{room}/playback room.state_away", "POST /v1/streams/{stream}/stop live.state_away",
			"GET /v1/streams/{stream}/viewers live.state_away",
			"POST /v1/streams/{stream}/whep live.no_media", "POST /v1/streams/{stream}/whip live.no_media",
			"DELETE /v1/streams/{stream}/whip/{session} live.state_away"}; !slices.Equal(need, want) {
			t.Errorf("these need Redis: %q, want %q", need, want)
		}
		if done < len(w.ops)/3 {
			t.Errorf("%d of %d operations were done; the walk is broken", done, len(w.ops))
		}
	})
}

// TestABodyThatIsNotWhatItShouldBeIsRefused sends invalid JSON, and JSON that parsers read differently, to every
// operation with a body.
func TestABodyThatIsNotWhatItShouldBeIsRefused(t *testing.T) {
	w := newWorld(t)
	w.populate()
	bodies := map[string]string{
		"no JSON": `{"a"`, "nothing but spaces": "   ", "a list": `[]`, "a text": `"x"`, "null": `null`, "a number": `1`,
		"two values": `{}{}`, "garbage behind": `{} x`, "a byte order mark": "\ufeff{}", "UTF-16": "\xff\xfe{\x00}\x00",
		"not UTF-8":    "{\"a\":\"\xff\"}",
		"a name twice": `{"a":1,"a":2}`, "a huge number": `{"a":1e999}`, "deep lists": `{"a":` + strings.Repeat("[", 20_000) +
			strings.Repeat("]", 20_000) + `}`,
		"deep objects": strings.Repeat(`{"a":`, 5_000) + "1" + strings.Repeat("}", 5_000), "a NUL": "{\"a\":\"\x00\"}", "a comment": `{/* */}`,
		"single quotes":    `{'a':1}`,
		"a comma too many": `{"a":1,}`, "NaN": `{"a":NaN}`, "a form": `email=a&password=b`,
		"XML": `<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>`,
	}
	for _, o := range w.ops {
		if o.media == "" {
			continue
		}
		before := w.rows()
		for name, body := range bodies {
			r := o.request(t, nil)
			r.body = strings.NewReader(body)
			if a := w.asMal(r); a.status/100 != 4 {
				t.Errorf("%s with %s: got %d %s", o, name, a.status, a.body)
			}
		}
		if o.json() {
			for _, field := range slices.Sorted(maps.Keys(o.body.Properties)) {
				w.oddly(o, field)
			}
		}
		kinds := []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/html",
			"application/xml",
			"application/json; charset=utf-16", "application/jsonp", "application/json, text/plain", "application/problem+json", "image/svg+xml",
			"\"", "*/*"}
		if strings.HasPrefix(o.path, "/v1/service/") { // a user is refused earlier
			kinds = nil
		}
		for _, media := range kinds {
			r := o.request(t, nil)
			r.media = media
			isPicture := !o.json() && strings.HasPrefix(media, "image/") // accepted until its bytes are checked
			if a := w.asMal(r); a.status != http.StatusUnsupportedMediaType &&
				(!isPicture || a.status != http.StatusUnprocessableEntity && a.status != http.StatusNotFound) {
				t.Errorf("%s as %q: got %d %s", o, media, a.status, a.body)
			}
		}
		for _, chunked := range []bool{false, true} {
			if o.media != "application/offset+octet-stream" && !strings.HasPrefix(o.path, "/v1/service/") { // a file is as large as its offer states
				w.tooLarge(o, chunked)
			}
		}
		if changed := before.without(w.rows()); len(changed) > 0 {
			t.Errorf("%s: what was refused changed\n%s", o, strings.Join(changed, "\n"))
		}
	}
}

// oddly sends a field twice, and with a value of each wrong type.
func (w *world) oddly(o op, field string) {
	w.t.Helper()
	s := o.body.Properties[field]
	v := jsonOf(w.t, place{"body", field, s}.fits())
	bodies := []string{fmt.Sprintf(`{%q:%s,%q:%s}`, field, v, field, v)}
	for kind, wrong := range map[string]string{"string": `"` + "x" + `"`, "integer": "1.5", "boolean": "true", "object": `{"$ne":""}`,
		"array": `["a"]`} {
		if !s.is(kind) && (kind != "integer" || !s.is("number")) {
			bodies = append(bodies, fmt.Sprintf(`{%q:%s}`, field, wrong))
		}
	}
	if s.is("integer") {
		bodies = append(bodies, fmt.Sprintf(`{%q:1e999}`, field), fmt.Sprintf(`{%q:99999999999999999999}`, field),
			fmt.Sprintf(`{%q:-9223372036854775809}`, field))
	}
	for _, body := range bodies {
		r := o.request(w.t, nil)
		r.body = strings.NewReader(body)
		if a := w.asMal(r); a.status/100 != 4 {
			w.t.Errorf("%s with %s: got %d %s", o, body, a.status, a.body)
		}
	}
}

// tooLarge sends more than any operation accepts.
func (w *world) tooLarge(o op, chunked bool) {
	w.t.Helper()
	r := o.request(w.t, nil)
	most := 64 << 10
	if !o.json() {
		most = 5 << 20
	}
	big := append([]byte(`{"a":"`), bytes.Repeat([]byte("x"), most)...)
	var a answer
	var err error
	for range 5 { // the server may close the connection before the client has sent all and read the response
		r.body, r.token = bytes.NewReader(append(big, `"}`...)), w.mal.AccessToken
		if chunked {
			r.body = io.MultiReader(r.body)
		}
		if a, err = w.try(r); err == nil {
			break
		}
	}
	if err != nil || a.status != http.StatusRequestEntityTooLarge {
		w.t.Errorf("%s with %d bytes (chunked: %v): got %d %s, %v", o, most, chunked, a.status, a.body, err)
	}
}

// asksWhatIsServed lists the paths that answer OPTIONS: those of the protocols tus, WHIP and WHEP.
var asksWhatIsServed = map[string]bool{"/v1/uploads": true, "/v1/transfers/{transfer}/upload": true, "/v1/streams/{stream}/whip": true,
	"/v1/streams/{stream}/whip/{session}": true, "/v1/streams/{stream}/whep": true, "/v1/streams/{stream}/whep/{session}": true}

// TestMethodsThatARouteDoesNotHaveAreRefused tries every method on every path, and ways to smuggle one.
func TestMethodsThatARouteDoesNotHaveAreRefused(t *testing.T) {
	w := newWorld(t)
	w.populate()
	has := map[string][]string{}
	for _, o := range w.ops {
		has[o.path] = append(has[o.path], o.method)
		if o.method == "GET" {
			has[o.path] = append(has[o.path], "HEAD")
		}
	}
	for _, o := range w.ops {
		path := o.request(t, nil).path
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "FOO", "get", "PROPFIND"} {
			if slices.Contains(has[o.path], method) || method == "OPTIONS" && asksWhatIsServed[o.path] {
				continue
			}
			a := w.send(request{method: method, path: path, token: w.mal.AccessToken, media: "application/json", body: strings.NewReader("{}")})
			if a.status != http.StatusMethodNotAllowed && a.status != http.StatusNotFound || method == "TRACE" &&
				strings.Contains(a.body, w.mal.AccessToken) {
				t.Errorf("%s %s: got %d %s", method, path, a.status, a.body)
			}
		}
	}
	before := w.rows()
	for _, header := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "_method"} {
		for _, o := range w.ops {
			if o.method == "GET" && !o.stream {
				r := o.request(t, nil)
				r.token = w.mal.AccessToken
				r.header.Set(header, "DELETE")
				r.path += "?_method=DELETE"
				w.send(r)
			}
		}
	}
	if changed := before.without(w.rows()); len(changed) > 0 {
		t.Errorf("a GET changed\n%s", strings.Join(changed, "\n"))
	}
}

// TestAKeyOfSomebodyElseReplaysNothing sends the request of one user, with the same Idempotency-Key, as another user.
func TestAKeyOfSomebodyElseReplaysNothing(t *testing.T) {
	w := newWorld(t)
	replayed := 0
	again := func(o op, token string) answer {
		r := o.request(t, map[string]any{"header.Idempotency-Key": "the same for both, of " + o.id})
		r.token = token
		return w.send(r)
	}
	first, second := w.signUp("first", "", ""), w.signUp("second", "", "")
	for _, o := range w.ops {
		if o.public || o.method == "GET" {
			continue
		}
		if again(o, first.AccessToken).code() == "auth.token_invalid" { // an earlier operation has ended the session
			first = w.signUp("first", "", "")
			again(o, first.AccessToken)
		}
		if again(o, first.AccessToken).header.Get("Idempotency-Replayed") != "" {
			replayed++
		}
		a := again(o, second.AccessToken)
		if a.code() == "auth.token_invalid" {
			second = w.signUp("second", "", "")
			a = again(o, second.AccessToken)
		}
		if a.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%s: another user got the first one's answer: %s", o, a.body)
		}
	}
	if a := w.json("DELETE", "/v1/sessions", first.AccessToken, nil); a.status != http.StatusNoContent && a.status != http.StatusUnauthorized {
		t.Fatalf("log-out: got %d %s", a.status, a.body)
	}
	for _, o := range w.ops {
		if o.public || o.method == "GET" {
			continue
		}
		if a := again(o, first.AccessToken); a.status != http.StatusUnauthorized {
			t.Errorf("%s: whose token was revoked got %d %s", o, a.status, a.body)
		}
	}
	if replayed == 0 {
		t.Error("nobody's own answer was replayed; the test proves nothing")
	}
	w.each("SELECT body FROM idempotency_keys", func(_ []string, values []any) {
		if body := cell(values[0]); strings.Contains(body, "sa_") || strings.Contains(body, "sr_") {
			t.Errorf("a token is stored in an answer: %s", body)
		}
	})
}

// TestAnImageBombIsRefused uploads small files that would decode to huge images, and files that are no images. Package
// picture has the decoder's own tests.
func TestAnImageBombIsRefused(t *testing.T) {
	w := newWorld(t)
	huge := func(side uint32) []byte { // the header declares it, with a valid checksum
		b := square(t, 1)
		binary.BigEndian.PutUint32(b[16:], side)
		binary.BigEndian.PutUint32(b[20:], side)
		binary.BigEndian.PutUint32(b[29:], crc32.ChecksumIEEE(b[12:29]))
		return b
	}
	before := w.rows()
	for name, data := range map[string][]byte{
		"50,000 a side": huge(50_000), "2³¹ a side": huge(1<<31 - 1), "no side": huge(0), "5,001 a side": square(t, 5_001),
		"cut off": square(t, 70)[:60],
		"a GIF of 65,535 a side": []byte("GIF89a\xff\xff\xff\xff\x80\x00\x00\x00\x00\x00\xff\xff\xff," +
			"\x00\x00\x00\x00\xff\xff\xff\xff\x00\x02\x02D\x01\x00;"),
		"an SVG":                 []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`),
		"a page":                 []byte("<!doctype html><script>alert(1)</script>"),
		"a GIF that is a script": []byte("GIF89a/*;*/=alert(1)"), "nothing but a signature": []byte("\x89PNG\r\n\x1a\n"),
		"a TIFF": []byte("II*\x00\x08\x00\x00\x00"), "a ZIP": []byte("PK\x03\x04"),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		a := w.send(request{method: "PUT", path: "/v1/me/avatar", media: "image/png", token: w.mal.AccessToken, body: bytes.NewReader(data)})
		runtime.ReadMemStats(&after)
		// The smallest of the huge images has 25 MB of pixels. A refusal may only use the memory of a request.
		if taken := after.TotalAlloc - before.TotalAlloc; a.status/100 != 4 || taken > 16<<20 {
			t.Errorf("%s: got %d %s, and it took %d bytes", name, a.status, a.body, taken)
		}
	}
	if changed := w.rows().without(before); len(changed) > 0 {
		t.Errorf("what was refused is stored: %.300s", strings.Join(changed, "\n"))
	}
	put := w.send(request{method: "PUT", path: "/v1/me/avatar", media: "image/gif", token: w.mal.AccessToken,
		body: strings.NewReader(string(square(t, 70)) + "<script>alert(1)</script>")})
	got := w.send(request{method: "GET", path: "/v1/avatars/" + parse[api.Avatar](t, put).Avatar + "/64"})
	if media := got.header.Get("Content-Type"); !got.ok() || strings.Contains(got.body, "script") || media != "image/jpeg" &&
		media != "image/png" {
		t.Errorf("a picture with something behind it is shown as %d %v", got.status, got.header)
	}
}

// FuzzOperations puts any text into any place of any operation, or any bytes into its body, as a logged-in user. All
// general promises must hold for the response.
func FuzzOperations(f *testing.F) {
	w := newWorld(f)
	for n := range w.ops {
		f.Add(uint16(n), uint16(n), hostile[n%len(hostile)], "")
		f.Add(uint16(n), uint16(0), "", `{"a":[{"b":null}],"email":1e99}`)
	}
	f.Fuzz(func(t *testing.T, n, at uint16, value, body string) {
		w.t = t
		o := w.ops[int(n)%len(w.ops)]
		given := map[string]any{}
		if places := o.places(); len(places) > 0 {
			p := places[int(at)%len(places)]
			if p.in == "header" && strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				return // no HTTP client sends it
			}
			given[p.String()] = value
		}
		r := o.request(t, given)
		if body != "" && o.media != "" {
			r.body = strings.NewReader(body)
		}
		w.asMal(r)
	})
}
