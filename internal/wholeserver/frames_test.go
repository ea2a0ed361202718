package wholeserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// frames is a server with two friends and comparable tables.
type frames struct {
	*testkit.Server
	db       *sqldb.DB
	ann, bob *client.Client
	annID    string
	bobID    string
}

func newFrames(t *testing.T, set ...func(*app.Config)) *frames {
	t.Helper()
	p := deploy(t, 1, set...)
	f := &frames{Server: p.nodes[0], db: p.nodes[0].SQL(t)}
	f.ann, f.bob = f.SignUp(t, "UTC"), f.SignUp(t, "UTC")
	f.annID, f.bobID = id(f.ann), id(f.bob)
	befriend(t, f.ann, f.bob)
	_, err := f.ann.Send(t.Context(), client.ChatWith(f.bobID),
		api.Send{ClientID: "1", Content: api.Content{Kind: api.MessageText, Text: "Hi"}})
	must(t, err)
	return f
}

// tables returns all rows of all tables that do not change by connections and time alone. It omits the last connections
// of users, the progress of pushes, and queued messages.
func (f *frames) tables(t *testing.T) map[string]string {
	t.Helper()
	var names []string
	must(t, f.db.NewRaw("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'").Scan(t.Context(),
		&names))
	// the server writes these
	all, where := map[string]string{}, map[string]string{"settings": " WHERE name NOT IN ('push_mark', 'last_trial_write')"}
	for _, name := range names {
		if name == "presence" || name == "outbox" || strings.HasPrefix(name, "activity_") {
			continue
		}
		rows, err := f.db.QueryContext(t.Context(), "SELECT * FROM "+name+where[name])
		must(t, err)
		columns, err := rows.Columns()
		must(t, err)
		var lines []string
		for rows.Next() {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new(any)
			}
			must(t, rows.Scan(values...))
			line := ""
			for i, v := range values {
				if name != "sessions" || columns[i] != "used" {
					line += fmt.Sprintf("%v|", *v.(*any))
				}
			}
			lines = append(lines, line)
		}
		must(t, errors.Join(rows.Err(), rows.Close()))
		slices.Sort(lines)
		all[name] = strings.Join(lines, "\n")
	}
	return all
}

// unchanged fails if the tables differ from before.
func (f *frames) unchanged(t *testing.T, before map[string]string) {
	t.Helper()
	bubble.Sleep(20 * time.Second) // all later work has then ended
	after := f.tables(t)
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if after[name] != before[name] {
			t.Errorf("table %s changed from\n%s\nto\n%s", name, before[name], after[name])
		}
	}
}

// listen opens a socket that records the types of events, except those of presence.
func (f *frames) listen(t *testing.T, c *client.Client) *device {
	t.Helper()
	d := &device{c: c, ended: make(chan error, 1)}
	opened := make(chan struct{}, 100)
	d.Socket = c.Socket(client.SocketListener{Open: func(bool) { opened <- struct{}{} }, Event: func(e api.Event) {
		if e.Type != api.EventPresenceChanged {
			d.note(e.Type)
		}
	}})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { d.ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-d.ended
	})
	<-opened
	return d
}

// wire is a WebSocket for arbitrary frames of a test.
type wire struct {
	t    *testing.T
	conn *websocket.Conn
	in   chan string // replies; closed when the connection has ended
	told chan string // pushes, if a test reads them
	end  string      // how the connection ended
}

// openWire opens a WebSocket at a node, until the test ends.
func openWire(t *testing.T, s *testkit.Server, query string) *wire {
	t.Helper()
	conn, resp, err := websocket.Dial(t.Context(), strings.Replace(s.URL, "http", "ws", 1)+"/v1/socket"+query,
		&websocket.DialOptions{HTTPClient: s.HTTP})
	must(t, err)
	if resp.Body != nil {
		resp.Body.Close()
	}
	conn.SetReadLimit(-1)
	w := &wire{t: t, conn: conn, in: make(chan string, 1000), told: make(chan string, 1000)}
	go func() {
		defer close(w.in)
		for {
			_, frame, err := conn.Read(context.WithoutCancel(t.Context()))
			if err != nil {
				w.end = fmt.Sprintf("closed %d", websocket.CloseStatus(err))
				return
			}
			for line := range strings.Lines(string(frame)) {
				if line = strings.TrimSpace(line); line == "{}" {
					_ = conn.Write(context.WithoutCancel(t.Context()), websocket.MessageText, []byte("{}")) // the reply to a ping
				} else if strings.HasPrefix(line, `{"push"`) {
					w.told <- line
				} else {
					w.in <- line
				}
			}
		}
	}()
	t.Cleanup(func() {
		_ = conn.CloseNow()
		for range w.in { //nolint:revive // until the reader has ended
		}
	})
	return w
}

func (w *wire) say(kind websocket.MessageType, frame string) {
	w.t.Helper()
	_ = w.conn.Write(w.t.Context(), kind, []byte(frame)) // the read returns the end of a connection
}

// hear returns the next reply in short, such as "1 ok" or "2 error 107", or how the connection ended. It returns
// "silence" if nothing arrives for two minutes of the bubble.
func (w *wire) hear() string {
	w.t.Helper()
	select {
	case line, open := <-w.in:
		if !open {
			return w.end
		}
		var reply struct {
			ID    int
			Error *struct {
				Code    int
				Message string
			}
		}
		if err := json.Unmarshal([]byte(line), &reply); err != nil {
			w.t.Errorf("an answer that is no JSON: %q", line)
		}
		if reply.Error == nil {
			return fmt.Sprintf("%d ok", reply.ID)
		}
		code, _, _ := strings.Cut(reply.Error.Message, ":")
		return fmt.Sprintf("%d error %d %s", reply.ID, reply.Error.Code, code)
	case <-time.After(2 * time.Minute):
		return "silence"
	}
}

func (w *wire) connect(token string) {
	w.t.Helper()
	w.say(websocket.MessageText, `{"id":1,"connect":{"token":"`+token+`"}}`)
	if got := w.hear(); got != "1 ok" {
		w.t.Fatalf("connect: %s", got)
	}
}

// subscribe subscribes to a channel.
func (w *wire) subscribe(channel string) {
	w.t.Helper()
	w.say(websocket.MessageText, `{"id":2,"subscribe":{"channel":"`+channel+`"}}`)
	if got := w.hear(); got != "2 ok" {
		w.t.Fatalf("subscribe to %s: %s", channel, got)
	}
}

func rpc(id int, method, data string) string {
	return fmt.Sprintf(`{"id":%d,"rpc":{"method":%q,"data":%s}}`, id, method, data)
}

// A frame is refused before, with and after the connection, on both kinds of sockets.
func TestMalformedFramesChangeNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFrames(t)
		chat, annID, bobID := client.ChatWith(f.bobID), f.annID, f.bobID
		bob := f.listen(t, f.bob)
		token, foreign := f.ann.Tokens().AccessToken, f.bob.Tokens().AccessToken
		bubble.Sleep(10 * time.Second)
		before := f.tables(t)
		for _, c := range []struct {
			name, frame string
			want        string // the reply, or how the connection ended
		}{
			{"no JSON", `hello`, "closed 3501"},
			{"empty", ``, "closed 3501"},
			{"cut off", `{"id":2,"rpc":{"method":"me.get"`, "closed 3501"},
			{"an array", `[1,2]`, "closed 3501"},
			{"a text for an id", `{"id":"two","rpc":{"method":"me.get"}}`, "closed 3501"},
			{"a negative id", `{"id":-1,"rpc":{"method":"me.get"}}`, "closed 3501"},
			{"a number for a method", `{"id":2,"rpc":{"method":7}}`, "closed 3501"},
			{"no id", `{"rpc":{"method":"me.get"}}`, "closed 3501"},
			{"no command", `{"id":2}`, "closed 3501"},
			{"an unknown command", `{"id":2,"conquer":{}}`, "closed 3501"},
			{"a zero byte", "\x00", "closed 3501"},
			{"not UTF-8", "{\"id\":2,\"rpc\":{\"method\":\"\xff\"}}", "closed 3501"},
			{"connect again", `{"id":2,"connect":{"token":"` + token + `"}}`, "closed 3501"},
			{"a huge frame", rpc(2, "me.update", `{"body":{"name":"`+strings.Repeat("x", 200_000)+`"}}`), "closed 1009"},
			{"a huge body", rpc(2, "me.update", `{"body":{"name":"`+strings.Repeat("x", 66<<10)+`"}}`), "2 error 413 request.too_large"},
			{"deeply nested", rpc(2, "me.update", strings.Repeat(`{"body":`, 5000)+"1"+strings.Repeat("}", 5000)), "2 error 422 request.invalid"},
			{"deeply nested lists", rpc(2, "me.update", `{"body":{"name":`+strings.Repeat("[", 11_000)+strings.Repeat("]", 11_000)+`}}`),
				"2 error 400 request.malformed"},
			{"a huge number", rpc(2, "chats.mark", `{"path":{"chat":"`+chat+`"},"body":{"read":1e400}}`), "2 error 400 request.malformed"},

			{"an unknown operation", rpc(2, "no.such", `{}`), "2 error 404 operation.unknown"},
			{"no operation", rpc(2, "", `{}`), "2 error 404 operation.unknown"},
			{"a very long operation", rpc(2, strings.Repeat("x", 65), `{}`), "2 error 104 method not found"},
			{"an operation of HTTP only", rpc(2, "events.stream", `{}`), "2 error 422 operation.http_only"},
			{"data that is an array", rpc(2, "me.get", `[]`), "2 error 400 request.malformed"},
			{"data that is a text", rpc(2, "me.get", `"x"`), "2 error 400 request.malformed"},
			{"data with an unknown member", rpc(2, "me.get", `{"method":"DELETE"}`), "2 error 400 request.malformed"},
			{"a path that is no object", rpc(2, "users.get", `{"path":"x"}`), "2 error 400 request.malformed"},
			{"a path of objects", rpc(2, "users.get", `{"path":{"user":{"id":1}}}`), "2 error 400 request.malformed"},
			{"a path with another name", rpc(2, "users.get", `{"path":{"id":"x"}}`), "2 error 422 request.invalid"},
			{"a path that climbs", rpc(2, "chats.get", `{"path":{"chat":"../../me"}}`), "2 error 404 chat.unknown"},
			{"a query of the wrong type", rpc(2, "chats.list", `{"query":{"limit":"many"}}`), "2 error 422 request.invalid"},
			{"a body that is no object", rpc(2, "me.update", `{"body":7}`), "2 error 422 request.invalid"},
			{"a body with an unknown field", rpc(2, "me.update", `{"body":{"nome":"x"}}`), "2 error 422 request.invalid"},
			{"a body where none belongs", rpc(2, "me.get", `{"body":{"name":"x"}}`), "2 ok"},
			{"no body where one belongs", rpc(2, "chats.send", `{"path":{"chat":"`+chat+`"}}`), "2 error 400 request.malformed"},
			{"a key that is none", rpc(2, "me.update", `{"key":"a b\u0000","body":{"name":"Anna"}}`), "2 error 400 idempotency.key"},

			{"subscribe to one's own channel", `{"id":2,"subscribe":{"channel":"` + annID + `"}}`, "2 error 105 already subscribed"},
			{"subscribe to another user's channel", `{"id":2,"subscribe":{"channel":"` + bobID + `"}}`, "2 error 103 permission denied"},
			{"subscribe with a position", `{"id":2,"subscribe":{"channel":"` + bobID + `","recover":true,"epoch":"x","offset":1}}`,
				"2 error 103 permission denied"},
			{"publish to another user", `{"id":2,"publish":{"channel":"` + bobID + `","data":{"type":"message.new"}}}`, "2 error 108 not available"},
			{"publish to oneself", `{"id":2,"publish":{"channel":"` + annID + `","data":{"type":"message.new"}}}`, "2 error 108 not available"},
			{"presence", `{"id":2,"presence":{"channel":"` + bobID + `"}}`, "2 error 108 not available"},
			{"presence stats", `{"id":2,"presence_stats":{"channel":"` + bobID + `"}}`, "2 error 108 not available"},
			{"history", `{"id":2,"history":{"channel":"` + bobID + `","limit":10}}`, "2 error 108 not available"},
			{"a message without an answer", `{"send":{"data":{"type":"message.new"}}}`, "closed 3508"},
			{"refresh of a channel", `{"id":2,"sub_refresh":{"channel":"` + bobID + `","token":"x"}}`, "2 error 103 permission denied"},
			{"unsubscribe from another user's channel", `{"id":2,"unsubscribe":{"channel":"` + bobID + `"}}`, "2 ok"},
			{"refresh with another user's token", `{"id":2,"refresh":{"token":"` + foreign + `"}}`, "closed 3500"},
			{"refresh with a made-up token", `{"id":2,"refresh":{"token":"hunter2"}}`, "2 error 109 token expired"},
			{"refresh without a token", `{"id":2,"refresh":{}}`, "closed 3501"},
		} {
			heard := len(bob.all())
			w := openWire(t, f.Server, "")
			w.connect(token)
			w.say(websocket.MessageText, c.frame)
			got := w.hear()
			if got != c.want {
				t.Errorf("%s: got %s, want %s", c.name, got, c.want)
			}
			if !strings.HasPrefix(got, "closed") {
				w.say(websocket.MessageText, rpc(99, "me.get", `{}`))
				if got := w.hear(); got != "99 ok" {
					t.Errorf("%s: the connection does not go on: %s", c.name, got)
				}
			}
			_ = w.conn.CloseNow()
			if got := bob.all()[heard:]; len(got) > 0 {
				t.Errorf("%s: the other user heard %q", c.name, got)
			}
		}
		rename := rpc(2, "me.update", `{"body":{"name":"Anna"}}`)
		for _, c := range []struct {
			name, frame string
			want        string
		}{
			{"nothing", "", "closed 3502"},
			{"a call", rename, "closed 3501"},
			{"a call and then the connection", rename + "\n" + `{"id":1,"connect":{"token":"` + token + `"}}`, "closed 3501"},
			{"no token", `{"id":1,"connect":{}}`, "closed 3500"},
			{"no token, and a call", `{"id":1,"connect":{}}` + "\n" + rename, "closed 3500"},
			{"a made-up token", `{"id":1,"connect":{"token":"hunter2"}}`, "1 error 109 token expired"},
			{"another user's channel with it", `{"id":1,"connect":{"token":"` + token + `","subs":{"` + bobID +
				`":{"recover":true,"epoch":"x","offset":1}}}}`, "1 ok"},
			{"a token that is a number", `{"id":1,"connect":{"token":7}}`, "closed 3501"},
			{"a refresh", `{"id":1,"refresh":{"token":"` + token + `"}}`, "closed 3501"},
			{"a binary frame", "\x01\x02\x03", "closed 3501"},
		} {
			w := openWire(t, f.Server, "")
			if c.frame != "" {
				w.say(websocket.MessageText, c.frame)
			}
			got := w.hear()
			if got != c.want {
				t.Errorf("%s: got %s, want %s", c.name, got, c.want)
			}
			_ = w.conn.CloseNow()
		}
		for _, query := range []string{"", "?format=protobuf"} {
			for _, frame := range []string{"\x00", "\xff\xff\xff\xff\xff", "\x05\x08\x01", strings.Repeat("\x01\x00", 1000), `{"id":1`,
				"\x02\x08\x02"} {
				w := openWire(t, f.Server, query)
				w.say(websocket.MessageBinary, frame)
				if got := w.hear(); got != "closed 3501" {
					t.Errorf("%q on %q: got %s", frame, query, got)
				}
			}
		}
		// Text in a binary frame is also JSON.
		w := openWire(t, f.Server, "")
		w.say(websocket.MessageBinary, `{"id":1,"connect":{"token":"`+token+`"}}`)
		if got := w.hear(); got != "1 ok" {
			t.Errorf("JSON in a binary frame: got %s", got)
		}
		f.unchanged(t, before)
	})
}

func TestSockets_LimitPerClientNetwork(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFrames(t, func(c *app.Config) { c.Gateway.MaxFrom = 3 })
		var refusal api.Problem
		dial := func() (*websocket.Conn, int) {
			conn, resp, err := websocket.Dial(t.Context(), strings.Replace(f.URL, "http", "ws", 1)+"/v1/socket",
				&websocket.DialOptions{HTTPClient: f.HTTP})
			switch {
			case err == nil:
				return conn, http.StatusOK
			case resp == nil:
				t.Fatal(err)
			}
			refusal = api.Problem{}
			_ = json.NewDecoder(resp.Body).Decode(&refusal) // the code shows whether it was a refusal
			return nil, resp.StatusCode
		}
		for round := range 3 {
			var open []*websocket.Conn
			for range 3 {
				conn, status := dial()
				if conn == nil {
					t.Fatalf("round %d: connection %d is refused: %d", round, len(open), status)
				}
				open = append(open, conn)
			}
			bubble.Sleep(time.Second)
			if conn, status := dial(); conn != nil || status != http.StatusTooManyRequests || refusal.Code != "gateway.too_many" {
				t.Fatalf("round %d: one more than may be open at once: %d %+v", round, status, refusal)
			}
			// Requests that do not upgrade, or that fail the Origin check, release their connection slot at once.
			if resp, err := f.HTTP.Get(f.URL + "/v1/socket"); err != nil || resp.Body.Close() != nil || resp.StatusCode == http.StatusOK {
				t.Fatalf("round %d: no handshake: %v", round, err)
			}
			for i, conn := range open {
				if i == 0 {
					_ = conn.CloseNow()
				} else {
					_ = conn.Close(websocket.StatusNormalClosure, "")
				}
			}
			bubble.Sleep(time.Second)
			for range 5 {
				if resp, err := f.HTTP.Get(f.URL + "/v1/socket"); err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusBadRequest {
					t.Fatalf("round %d: no handshake: %v", round, err)
				}
			}
		}
	})
}

func TestVeryManyCommandsInOneFrameAreAllAnswered(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFrames(t)
		w := openWire(t, f.Server, "")
		w.connect(f.ann.Tokens().AccessToken)
		const calls = 900
		var frame strings.Builder
		for i := range calls {
			frame.WriteString(rpc(i+2, "me.get", `{}`) + "\n")
		}
		frame.WriteString(`{"id":` + fmt.Sprint(calls+2) + `,"rpc":{"method":"no.such"}}`)
		w.say(websocket.MessageText, frame.String())
		got := map[string]bool{}
		for range calls + 1 {
			got[w.hear()] = true
		}
		for i := range calls {
			if !got[fmt.Sprint(i+2, " ok")] {
				t.Fatalf("call %d was not answered; got %d answers, among them %v", i+2, len(got), slices.Collect(maps.Keys(got))[:3])
			}
		}
		if !got[fmt.Sprint(calls+2, " error 404 operation.unknown")] {
			t.Error("the last call was not refused")
		}
	})
}

func TestMetricsCountSocketsTheirCallsAndTheirEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFrames(t)
		token := f.ann.Tokens().AccessToken
		shown := func(want ...string) {
			t.Helper()
			_, _, text := f.Call(t, nil, "GET", "/metrics", "")
			for _, line := range want {
				if !strings.Contains(text, "\n"+line+"\n") {
					t.Errorf("the metrics lack %s", line)
				}
			}
		}
		shown("stoa_gateway_connections 0", `stoa_gateway_refused_total{reason="token"} 0`, `stoa_gateway_refused_total{reason="draining"} 0`)
		w, other := openWire(t, f.Server, ""), openWire(t, f.Server, "")
		w.connect(token)
		other.connect(token)
		for i, method := range []string{"me.get", "me.get", "no.such", "[]"} {
			data := `{}`
			if method == "[]" {
				data = method
			}
			w.say(websocket.MessageText, rpc(i+2, method, data))
			w.hear()
		}
		shown("stoa_gateway_connections 2", `stoa_gateway_calls_total{code="200"} 2`, `stoa_gateway_calls_total{code="404"} 1`,
			`stoa_gateway_calls_total{code="400"} 1`)
		other.say(websocket.MessageText, "hello")
		other.hear()
		refused := openWire(t, f.Server, "")
		refused.say(websocket.MessageText, `{"id":1,"connect":{"token":"hunter2"}}`)
		refused.hear()
		must(t, f.ann.Logout(t.Context()))
		if got := w.hear(); got != "closed 4500" {
			t.Errorf("after a log-out: %s", got)
		}
		bubble.Sleep(time.Second)
		shown("stoa_gateway_connections 0", `stoa_gateway_closed_total{code="3501"} 1`, `stoa_gateway_closed_total{code="4500"} 1`,
			`stoa_gateway_refused_total{reason="token"} 1`)
	})
}

// chatRoutes has the HTTP routes of the operations of chats.
var chatRoutes = map[string][2]string{
	"chats.get": {"GET", "/v1/chats/{chat}"}, "chats.messages": {"GET", "/v1/chats/{chat}/messages"},
	"chats.changes": {"GET", "/v1/chats/{chat}/changes"},
	"chats.send":    {"POST", "/v1/chats/{chat}/messages"}, "chats.edit": {"PATCH", "/v1/chats/{chat}/messages/{seq}"},
	"chats.delete": {"DELETE", "/v1/chats/{chat}/messages/{seq}"},
	"chats.react":  {"PUT", "/v1/chats/{chat}/messages/{seq}/reactions/{emoji}"}, "chats.mark": {"POST", "/v1/chats/{chat}/marks"},
	"chats.clear": {"DELETE", "/v1/chats/{chat}"}, "chats.update": {"PATCH", "/v1/chats/{chat}"},
	"chats.typing": {"POST", "/v1/chats/{chat}/typing"},
}

func nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

func TestWhatNoChatTakesIsRefusedAlikeOnBothWaysAndChangesNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFrames(t)
		eve := f.SignUp(t, "UTC") // no user has a chat with her
		bubble.Sleep(10 * time.Second)
		before := f.tables(t)
		bob := f.listen(t, f.bob)
		socket := openWire(t, f.Server, "")
		socket.connect(f.ann.Tokens().AccessToken)
		mine, foreign := client.ChatWith(f.bobID), client.ChatWith(eve.Tokens().User.ID)
		text := func(s string) string { return `{"client_id":"2","kind":"text","text":` + s + `}` }
		custom := func(data string) string {
			return `{"client_id":"2","kind":"custom","custom":{"type":"x","data":` + data + `}}`
		}
		type m = map[string]any
		for i, c := range []struct {
			name, op    string
			path, query m
			body        string
			want        string
		}{
			{"a negative number", "chats.edit", m{"chat": mine, "seq": -1}, nil, `{"text":"x"}`, "422 request.invalid"},
			{"number zero", "chats.delete", m{"chat": mine, "seq": 0}, nil, ``, "422 request.invalid"},
			{"a number of the future", "chats.edit", m{"chat": mine, "seq": 2}, nil, `{"text":"x"}`, "404 message.unknown"},
			{"a number of the far future", "chats.delete", m{"chat": mine, "seq": int64(1)<<62 + 1}, nil, ``, "404 message.unknown"},
			{"a number beyond all", "chats.delete", m{"chat": mine, "seq": "99999999999999999999"}, nil, ``, "422 request.invalid"},
			{"a number that is none", "chats.edit", m{"chat": mine, "seq": "one"}, nil, `{"text":"x"}`, "422 request.invalid"},
			{"a reaction to the future", "chats.react", m{"chat": mine, "seq": 7, "emoji": "👍"}, nil, ``, "404 message.unknown"},
			{"a reaction that is a word", "chats.react", m{"chat": mine, "seq": 1, "emoji": "yes"}, nil, ``, "422 message.emoji"},
			{"a mark of the future", "chats.mark", m{"chat": mine}, nil, `{"read":2}`, "422 chat.future"},
			{"a negative mark", "chats.mark", m{"chat": mine}, nil, `{"read":-1}`, "422 request.invalid"},
			{"a mark that is no whole number", "chats.mark", m{"chat": mine}, nil, `{"read":1.5}`, "422 request.invalid"},
			{"a reply to the future", "chats.send", m{"chat": mine}, nil, `{"client_id":"2","kind":"text","text":"x","reply_to":2}`,
				"422 message.reply"},
			{"a reply to a negative number", "chats.send", m{"chat": mine}, nil, `{"client_id":"2","kind":"text","text":"x","reply_to":-2}`,
				"422 request.invalid"},
			{"messages after a negative number", "chats.messages", m{"chat": mine}, m{"after": -1}, ``, "422 request.invalid"},
			{"messages before no number", "chats.messages", m{"chat": mine}, m{"before": "x"}, ``, "422 request.invalid"},
			{"very many messages", "chats.messages", m{"chat": mine}, m{"limit": 1_000_000}, ``, "422 request.invalid"},
			{"changes since a negative number", "chats.changes", m{"chat": mine}, m{"since": -1}, ``, "422 request.invalid"},
			{"a chat that never was", "chats.get", m{"chat": foreign}, nil, ``, "404 chat.unknown"},
			{"messages of a chat that never was", "chats.messages", m{"chat": foreign}, nil, ``, "404 chat.unknown"},
			{"a change in a chat that never was", "chats.edit", m{"chat": foreign, "seq": 1}, nil, `{"text":"x"}`, "404 chat.unknown"},
			{"a mark in a chat that never was", "chats.mark", m{"chat": foreign}, nil, `{"read":1}`, "404 chat.unknown"},
			{"a draft in a chat that never was", "chats.update", m{"chat": foreign}, nil, `{"draft":"x"}`, "404 chat.unknown"},
			{"a chat that never was, cleared", "chats.clear", m{"chat": foreign}, nil, ``, "404 chat.unknown"},
			{"a message to a stranger", "chats.send", m{"chat": foreign}, nil, text(`"x"`), "403 message.refused"},
			{"a chat with nobody", "chats.send", m{"chat": "u:V1StGXR8_Z5j"}, nil, text(`"x"`), "404 account.unknown"},
			{"a chat with oneself", "chats.send", m{"chat": client.ChatWith(f.annID)}, nil, text(`"x"`), "422 chat.self"},
			{"a chat of no name", "chats.send", m{"chat": "g:x"}, nil, text(`"x"`), "404 chat.unknown"},
			{"custom JSON of eleven levels", "chats.send", m{"chat": mine}, nil, custom(nested(11)), "422 message.content"},
			{"custom JSON of very many levels", "chats.send", m{"chat": mine}, nil, custom(nested(4000)), "422 message.content"},
			{"custom JSON of more levels than the decoder takes", "chats.send", m{"chat": mine}, nil, custom(nested(12_000)),
				"400 request.malformed"},
			{"custom JSON that is large", "chats.send", m{"chat": mine}, nil, custom(`"` + strings.Repeat("x", 9<<10) + `"`), "422 message.content"},
			{"a long text", "chats.send", m{"chat": mine}, nil, text(`"` + strings.Repeat("x", 4001) + `"`), "422 request.invalid"},
			{"an empty text", "chats.send", m{"chat": mine}, nil, text(`" \n "`), "422 message.content"},
			{"a text with a zero byte", "chats.send", m{"chat": mine}, nil, text(`"\u0000"`), "400 request.malformed"},
			{"a text that is a number", "chats.send", m{"chat": mine}, nil, text(`7`), "422 request.invalid"},
			{"a text with a picture", "chats.send", m{"chat": mine}, nil,
				`{"client_id":"2","kind":"text","text":"x","media":{"url":"https://example.org/x"}}`, "422 message.content"},
			{"a picture elsewhere", "chats.send", m{"chat": mine}, nil, `{"client_id":"2","kind":"image","media":{"url":"javascript:alert(1)"}}`,
				"422 message.content"},
			{"a client_id that is none", "chats.send", m{"chat": mine}, nil, `{"client_id":"a b","kind":"text","text":"x"}`, "422 request.invalid"},
			{"a client_id with other content", "chats.send", m{"chat": mine}, nil, `{"client_id":"1","kind":"text","text":"other"}`,
				"409 message.client_id_used"},
			{"an unknown kind", "chats.send", m{"chat": mine}, nil, `{"client_id":"2","kind":"poll","text":"x"}`, "422 request.invalid"},
			{"an unknown field", "chats.send", m{"chat": mine}, nil, `{"client_id":"2","kind":"text","text":"x","seq":9}`, "422 request.invalid"},
			{"a mention of nobody's id", "chats.send", m{"chat": mine}, nil, `{"client_id":"2","kind":"text","text":"x","mentions":["bob"]}`,
				"422 message.content"},
		} {
			heard := len(bob.all())
			path := chatRoutes[c.op][1]
			for name, value := range c.path {
				path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(fmt.Sprint(value)))
			}
			query := url.Values{}
			for name, value := range c.query {
				query.Set(name, fmt.Sprint(value))
			}
			if len(query) > 0 {
				path += "?" + query.Encode()
			}
			status, header, answer := f.Call(t, f.ann, chatRoutes[c.op][0], path, c.body)
			var problem api.Problem
			if json.Unmarshal([]byte(answer), &problem) != nil || header.Get("Content-Type") != "application/problem+json" ||
				problem.Status != status {
				t.Errorf("%s: %d %.200s is no problem document", c.name, status, answer)
			}
			if got := fmt.Sprint(status, " ", problem.Code); got != c.want {
				t.Errorf("%s: got %s by HTTP, want %s", c.name, got, c.want)
			}
			parts, err := json.Marshal(map[string]any{"path": c.path, "query": c.query})
			must(t, err)
			call := string(parts)
			if c.body != "" {
				call = strings.TrimSuffix(call, "}") + `,"body":` + c.body + "}"
			}
			socket.say(websocket.MessageText, rpc(i+2, c.op, call))
			if got, want := socket.hear(), strings.Replace(fmt.Sprint(i+2, " ", c.want), " ", " error ", 1); got != want {
				t.Errorf("%s: got %s on a socket, want %s", c.name, got, want)
			}
			if got := bob.all()[heard:]; len(got) > 0 {
				t.Errorf("%s: the other user heard %q", c.name, got)
			}
		}
		// A megabyte exceeds the largest frame: the server closes a socket, and refuses the HTTP request.
		huge := text(`"` + strings.Repeat("x", 1<<20) + `"`)
		if status, _, answer := f.Call(t, f.ann, "POST", "/v1/chats/"+mine+"/messages", huge); status != 413 ||
			!strings.Contains(answer, `"request.too_large"`) {
			t.Errorf("a megabyte by HTTP: %d %s", status, answer)
		}
		w := openWire(t, f.Server, "")
		w.connect(f.ann.Tokens().AccessToken)
		w.say(websocket.MessageText, rpc(2, "chats.send", `{"path":{"chat":"`+mine+`"},"body":`+huge+`}`))
		if got := w.hear(); got != "closed 1009" {
			t.Errorf("a megabyte on a socket: %s", got)
		}
		f.unchanged(t, before)
		// Content at the limits of the rules is accepted.
		for i, body := range []string{custom(nested(10)), text(`"` + strings.Repeat("x", 4000) + `"`)} {
			body = strings.Replace(body, `"2"`, fmt.Sprintf(`"edge%d"`, i), 1)
			if status, _, answer := f.Call(t, f.ann, "POST", "/v1/chats/"+mine+"/messages", body); status != 201 {
				t.Errorf("edge %d: %d %s", i, status, answer)
			}
		}
	})
}
