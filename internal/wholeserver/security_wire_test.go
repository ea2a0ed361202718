package wholeserver

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/base/origin"
	"github.com/stoa-dev/stoa/internal/obs"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/testing/logtest"
)

// raw sends bytes and returns the complete response, until the server closes the connection. The bytes should request
// that.
func (w *world) raw(text string) string {
	w.t.Helper()
	return w.rawly(text, false)
}

// rawly is raw. With half, it closes its sending side, which the server treats as the end of the client.
func (w *world) rawly(text string, half bool) string {
	w.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.URL, "http://"))
	must(w.t, err)
	defer conn.Close()
	must(w.t, conn.SetDeadline(time.Now().Add(30*time.Second)))
	if _, err := io.WriteString(conn, text); err != nil {
		w.t.Fatal(err)
	}
	if half {
		must(w.t, conn.(*net.TCPConn).CloseWrite())
	}
	got, err := io.ReadAll(conn)
	if err != nil && len(got) == 0 {
		w.t.Fatal(err)
	}
	return string(got)
}

var statusLine = regexp.MustCompile(`HTTP/1\.1 (\d{3})`)

// statuses returns the status of each response in raw text.
func statuses(text string) (all []string) {
	for _, m := range statusLine.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// TestARequestThatTwoReadersWouldReadDifferentlyIsRefused sends the building blocks of request smuggling.
func TestARequestThatTwoReadersWouldReadDifferentlyIsRefused(t *testing.T) {
	w := newWorld(t)
	head := "PATCH /v1/me HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer " + w.mal.AccessToken +
		"\r\nContent-Type: application/json\r\n"
	body := `{"name":"smuggled"}`
	next := "GET /v1/sessions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + w.mal.AccessToken + "\r\nConnection: close\r\n\r\n"
	for name, text := range map[string]string{
		"two lengths":            head + "Content-Length: 19\r\nContent-Length: 5\r\n\r\n" + body + next,
		"a list of lengths":      head + "Content-Length: 19, 5\r\n\r\n" + body + next,
		"a negative length":      head + "Content-Length: -19\r\n\r\n" + body,
		"a signed length":        head + "Content-Length: +19\r\n\r\n" + body,
		"a huge length":          head + "Content-Length: 99999999999999999999\r\n\r\n" + body,
		"a length in hex":        head + "Content-Length: 0x13\r\n\r\n" + body,
		"a length with a space":  head + "Content-Length : 19\r\n\r\n" + body,
		"longer than it is":      head + "Content-Length: 400\r\n\r\n" + body,
		"another coding":         head + "Transfer-Encoding: identity\r\n\r\n" + body,
		"chunked and more":       head + "Transfer-Encoding: chunked, identity\r\n\r\n13\r\n" + body + "\r\n0\r\n\r\n",
		"chunked in disguise":    head + "Transfer-Encoding: xchunked\r\n\r\n13\r\n" + body + "\r\n0\r\n\r\n",
		"chunked twice":          head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n13\r\n" + body + "\r\n0\r\n\r\n",
		"a chunk with a lie":     head + "Transfer-Encoding: chunked\r\n\r\n7\r\n" + body + "\r\n0\r\n\r\n",
		"a chunk of huge size":   head + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n" + body + "\r\n0\r\n\r\n",
		"a chunk without an end": head + "Transfer-Encoding: chunked\r\n\r\n13\r\n" + body,
		"a folded header":        head + "X-A: b\r\n c\r\nContent-Length : 19\r\n\r\n" + body,
		"a NUL in a header":      head + "X-A: b\x00c\r\nContent-Length: 19\r\n\r\n" + body,
		"a bare CR in a header":  head + "X-A: b\rX-B: c\r\nContent-Length: 19\r\n\r\n" + body,
		"no colon":               head + "X-A\r\nContent-Length: 19\r\n\r\n" + body,
		"no name":                head + ": b\r\nContent-Length: 19\r\n\r\n" + body,
		"no host":                strings.Replace(head, "Host: x\r\n", "", 1) + "Content-Length: 19\r\n\r\n" + body,
		"two hosts":              head + "Host: y\r\nContent-Length: 19\r\n\r\n" + body,
		"a bad host":             strings.Replace(head, "Host: x", "Host: x y<>", 1) + "Content-Length: 19\r\n\r\n" + body,
		"another protocol":       strings.Replace(head, "HTTP/1.1", "HTTP/3.7", 1) + "Content-Length: 19\r\n\r\n" + body,
		"a space in the path":    strings.Replace(head, "/v1/me", "/v1/me x", 1) + "Content-Length: 19\r\n\r\n" + body,
		"headers without end":    head + "X-A: " + strings.Repeat("a", 64<<10) + "\r\nContent-Length: 19\r\n\r\n" + body,
		"too many headers":       head + strings.Repeat("X-A: a\r\n", 20_000) + "Content-Length: 19\r\n\r\n" + body,
	} {
		ends := !slices.Contains([]string{"longer than it is", "a chunk without an end", "a chunk of huge size"}, name)
		got := w.rawly(text, !ends)
		if list := statuses(got); len(list) != 1 || ends && list[0] == "499" || list[0][0] != '4' && list[0] != "501" && list[0] != "505" {
			t.Errorf("%s: got %v\n%.300s", name, list, got)
		}
	}
	// Chunked encoding overrides a length, so the bytes after the chunks are the next request, not part of this one. A
	// proxy that counts otherwise has to refuse both.
	open := strings.Replace(head, "Connection: close\r\n", "", 1)
	if list := statuses(w.raw(open + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n13\r\n" + body + "\r\n0\r\n\r\n" +
		next)); !slices.Equal(list, []string{"200", "200"}) {
		t.Errorf("a length beside chunks, and another request: got %v", list)
	}
	w.must("PATCH", "/v1/me", w.mal.AccessToken, `{"name":"mal"}`)
	w.rawly(head+"Content-Length: 400\r\n\r\n"+body, true)
	if a := w.must("GET", "/v1/me", w.mal.AccessToken, nil); strings.Contains(a.body, "smuggled") {
		t.Errorf("half a body changed the name: %s", a.body)
	}
	if got := w.raw(head + "Content-Length: 19\r\n\r\n" + body); !slices.Equal(statuses(got), []string{"200"}) {
		t.Errorf("the same without a fault: got %s", got)
	}
}

// TestNothingFromARequestBreaksOutOfAHeader sends line ends in every form in values that response headers repeat.
func TestNothingFromARequestBreaksOutOfAHeader(t *testing.T) {
	w := newWorld(t)
	for _, evil := range []string{"%0d%0aSet-Cookie:%20a=b", "%0aSet-Cookie:%20a=b", "%0d%0a%0d%0a<script>",
		"%E5%98%8A%E5%98%8DSet-Cookie:%20a=b", "%00"} {
		for _, line := range []string{
			"GET //" + evil + "/../x HTTP/1.1\r\n", "GET /docs" + evil + " HTTP/1.1\r\n", "GET /v1/sessions/" + evil + "/ HTTP/1.1\r\n",
			"GET /assets/" + evil + "/../ HTTP/1.1\r\n", "GET /?next=" + evil + " HTTP/1.1\r\n", "GET /dev/mail.json?to=" + evil + " HTTP/1.1\r\n",
			"GET / HTTP/1.1\r\nX-Request-Id: " + evil + "\r\nOrigin: https://" + evil + "\r\nIdempotency-Key: " + evil + "\r\n",
			"GET / HTTP/1.1\r\nX-Request-Id: a\tb\r\n", "GET / HTTP/1.1\r\nX-Request-Id: " + strings.Repeat("a", 100) + "\r\n",
		} {
			got := w.raw(line + "Host: x\r\nConnection: close\r\n\r\n")
			header, _, _ := strings.Cut(got, "\r\n\r\n")
			if len(statuses(got)) != 1 || strings.Contains(header, "Set-Cookie: ") || strings.Contains(header, "<script>") ||
				strings.Contains(header, "%") && strings.Contains(header, "X-Request-Id: %") {
				t.Errorf("%q: got\n%s", line, header)
			}
			if place := regexp.MustCompile(`(?m)^Location: (.*)\r$`).FindStringSubmatch(got); place != nil &&
				(strings.HasPrefix(place[1], "//") || !strings.HasPrefix(place[1], "/")) {
				t.Errorf("%q: it leads elsewhere: %s", line, place[1])
			}
		}
	}
	for _, path := range []string{"//evil.example", "//evil.example/", "/\\evil.example/..", "//evil.example/%2e%2e", "///evil.example/x/..",
		"/.//evil.example", "/docs//evil.example", "http://evil.example/docs"} {
		got := w.raw("GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if place := regexp.MustCompile(`(?m)^Location: (.*)\r$`).FindStringSubmatch(got); place != nil &&
			(!strings.HasPrefix(place[1], "/") || strings.HasPrefix(place[1], "//") || strings.HasPrefix(place[1], "/\\")) {
			t.Errorf("%s leads to %s", path, place[1])
		}
	}
}

func TestAForgedHostIsRepeatedNowhere(t *testing.T) {
	w := newWorld(t)
	w.populate()
	var paths []string
	for _, o := range w.ops {
		if o.method == "GET" && !o.stream {
			paths = append(paths, o.request(t, nil).path)
		}
	}
	// The searched text has a dot, because the id of a request may be 7evilfj7qzg1.
	for _, path := range append(paths, pages...) {
		for _, headers := range []string{"Host: evil.example\r\n",
			"Host: x\r\nX-Forwarded-Host: evil.example\r\nForwarded: host=evil.example\r\nX-Forwarded-Proto: evil.proto\r\n",
			"Host: x\r\nX-Original-Url: /evil.example\r\nX-Rewrite-Url: /evil.example\r\n"} {
			got := w.raw("GET " + path + " HTTP/1.1\r\n" + headers + "Authorization: Bearer " + w.ann.AccessToken + "\r\nConnection: close\r\n\r\n")
			if strings.HasPrefix(path, "/v1/me/card") && strings.Contains(got, "Cache-Control: no-store") {
				continue // a link for the caller only, to the address that the caller used
			}
			if strings.Contains(got, "evil.") || len(statuses(got)) != 1 {
				t.Errorf("%s with %q: got\n%.600s", path, headers, got)
			}
		}
	}
}

// pages lists the pages that are not operations.
var pages = []string{"/", "/docs", "/docs/", "/docs/start.js", "/docs/swagger-ui.css", "/docs/keys", "/openapi.json", "/healthz", "/readyz",
	"/metrics", "/dev/mail", "/dev/mail.json", "/nothing", "/assets/nothing.js", "/v1/nothing"}

// scripts returns the sources that a policy allows for scripts: by script-src, or else by default-src.
func scripts(csp string) (sources []string) {
	for directive := range strings.SplitSeq(csp, ";") {
		words := strings.Fields(directive)
		if len(words) == 0 {
			continue
		}
		if name := words[0]; name == "script-src" || strings.HasPrefix(name, "script-src-") || name == "default-src" &&
			!strings.Contains(csp, "script-src") {
			sources = append(sources, words[1:]...)
		}
	}
	return sources
}

// TestEveryPageCanNeitherBeFramedNorMadeToRunWhatIsNotItsOwn checks the headers for browsers. [world.send] also checks
// the headers of every response.
func TestEveryPageCanNeitherBeFramedNorMadeToRunWhatIsNotItsOwn(t *testing.T) {
	w := newWorld(t)
	for _, path := range append(w.assets(), pages...) {
		for _, origin := range []string{"", "https://evil.example", "null"} {
			a := w.send(request{method: "GET", path: path, header: http.Header{"Origin": {origin}, "Cookie": {"a=b"}}})
			csp := a.header.Get("Content-Security-Policy")
			for _, source := range scripts(csp) {
				if source != "'self'" && source != "'none'" {
					t.Errorf("%s: scripts may come from %s: %s", path, source, csp)
				}
			}
			elsewhere := strings.Replace(csp, "media-src 'self' https:;", "", 1) // a room's playlist may have videos of any host
			for _, bad := range []string{"unsafe-eval", "http:", "https:", "*", "script-src data:"} {
				if strings.Contains(elsewhere, bad) {
					t.Errorf("%s: the policy allows %s: %s", path, bad, csp)
				}
			}
			if strings.Contains(csp, "script-src") && (!strings.Contains(csp, "base-uri 'none'") || !strings.Contains(csp, "form-action 'none'")) {
				t.Errorf("%s: the policy leaves base or forms open: %s", path, csp)
			}
			if a.header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s may be read from %q", path, origin)
			}
			if a.header.Get("Server") != "" || a.header.Get("X-Powered-By") != "" {
				t.Errorf("%s says what serves it: %v", path, a.header)
			}
		}
	}
}

// assets returns the paths of the page's parts.
func (w *world) assets() (paths []string) {
	w.t.Helper()
	for _, m := range regexp.MustCompile(`"(/assets/[^"]+)"`).FindAllStringSubmatch(w.must("GET", "/", "", nil).body, -1) {
		paths = append(paths, m[1])
	}
	if len(paths) < 2 {
		w.t.Fatal("the page has no parts")
	}
	return paths
}

func TestOnlyTheOriginsOfTheSettingsReadAnswers(t *testing.T) {
	w := newWorld(t, func(cfg *app.Config) { cfg.Origins = origin.MustPatterns("https://app.example.org") })
	for _, o := range w.ops {
		for origin, allowed := range map[string]bool{"https://app.example.org": true, "https://evil.example": false,
			"http://app.example.org": false, "https://app.example.org.evil.example": false,
			"https://evilapp.example.org": false, "https://app.example.org:8443": false, "null": false, "https://APP.example.org": false} {
			r := o.request(t, nil)
			r.header.Set("Origin", origin)
			if o.stream {
				continue
			}
			if got := w.send(r).header.Get("Access-Control-Allow-Origin"); (got == origin) != allowed || !allowed && got != "" {
				t.Errorf("%s from %s: got %q", o, origin, got)
			}
			pre := w.send(request{method: "OPTIONS", path: r.path,
				header: http.Header{"Origin": {origin}, "Access-Control-Request-Method": {o.method},
					"Access-Control-Request-Headers": {"authorization"}}})
			if got := pre.header.Get("Access-Control-Allow-Origin"); (got == origin) != allowed || !allowed && got != "" {
				t.Errorf("before %s from %s: got %q", o, origin, got)
			}
		}
	}
}

func TestNoPathLeadsOutOfWhatIsServed(t *testing.T) {
	w := newWorld(t)
	for _, root := range []string{"/", "/assets/", "/docs/", "/v1/", "/v1/sessions/", "/v1/checkin/boards/", "/v1/avatars/", "/v1/cards/"} {
		for _, up := range []string{"../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..%5c", "..\\", "....//", "..;/", "%252e%252e%252f", "..%c0%af",
			".%00./", "%u002e%u002e/"} {
			for _, file := range []string{"etc/passwd", "go.mod", "stoa.db", "secret", "index.html%00.js"} {
				got := w.raw("GET " + root + strings.Repeat(up, 8) + file + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + w.mal.AccessToken +
					"\r\nConnection: close\r\n\r\n")
				list := statuses(got)
				if len(list) != 1 || list[0][0] != '4' && list[0] != "307" && list[0] != "301" || strings.Contains(got, "root:") ||
					strings.Contains(got, "SQLite format") || strings.Contains(got, "module github.com") {
					t.Errorf("%s: got %v\n%.400s", root+strings.Repeat(up, 8)+file, list, got)
				}
			}
		}
	}
}

// TestNobodyForgesALineOfTheLog writes line ends, colours and fields into every input that might be logged.
func TestNobodyForgesALineOfTheLog(t *testing.T) {
	logs, handlers := map[string]*logtest.Buffer{}, []slog.Handler{}
	for _, format := range []string{"json", "text", "pretty"} {
		logs[format] = &logtest.Buffer{}
		handlers = append(handlers, obs.NewLogger(logs[format], obs.Log{Level: slog.LevelDebug, Format: format}).Handler())
	}
	s := testkit.StartLogged(t, slog.New(slog.NewMultiHandler(handlers...)))
	w := &world{Server: s, t: t, hc: http.DefaultClient, ops: operations(t, s)}
	w.mal = w.signUp("mal", "", "")
	const forged = "FORGED"
	evil := "x\n" + `time=2026-01-01T00:00:00Z level=ERROR msg=` + forged + "\r\n" + `{"level":"ERROR","msg":"` + forged + `"}` +
		"\n12:00:00 ERR " + forged + "\x1b[2J"
	for _, o := range w.ops {
		for _, p := range o.places() {
			if p.schema.is("string") && p.in != "header" {
				w.asMal(o.request(t, map[string]any{p.String(): evil}))
			}
		}
		r := o.request(t, nil)
		for _, name := range []string{"User-Agent", "X-Request-Id", "Idempotency-Key", "X-Forwarded-For", "Referer", "Last-Event-Id"} {
			r.header.Set(name, `a" level=ERROR msg=`+forged+` {"msg":"`+forged+`"}`+"\t\u2028é")
		}
		w.asMal(r)
	}
	w.raw("GET /v1/me%0alevel=ERROR%20msg=" + forged + " HTTP/1.1\r\nHost: x\r\nX-Request-Id: a\nlevel=ERROR msg=" + forged +
		"\r\nConnection: close\r\n\r\n")
	for format, log := range logs {
		n := 0
		for line := range strings.Lines(log.String()) {
			n++
			if line = strings.TrimSuffix(line, "\n"); strings.Contains(line, "\x1b") || !wellFormed(format, line) {
				t.Errorf("%s: a line is not the server's own: %q", format, line)
			}
		}
		if n < len(w.ops) {
			t.Errorf("%s: looked at %d lines", format, n)
		}
	}
}

// wellFormed reports whether a line begins as the format requires, and not as a forged one.
func wellFormed(format, line string) bool {
	switch format {
	case "json":
		var v struct {
			Time  time.Time
			Level string
			Msg   string
		}
		return json.Unmarshal([]byte(line), &v) == nil && !v.Time.IsZero() && v.Msg != "FORGED"
	case "text":
		return regexp.MustCompile(`^time=\S+ level=[A-Z]+ msg=`).MatchString(line) && !strings.HasPrefix(line, "time=2026-01-01")
	}
	return regexp.MustCompile(`^\d\d:\d\d:\d\d (DBG|INF|WRN|ERR)`).MatchString(line) && !strings.HasPrefix(line, "12:00:00 ERR FORGED")
}

// TestAPageOfAnotherSiteChangesNothing sends the requests that a browser allows any page to send without a preflight.
// Stoa has no cookies that would authenticate them.
func TestAPageOfAnotherSiteChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.populate()
	before := w.rows()
	for _, o := range w.ops {
		for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data"} {
			r := o.request(t, nil)
			if o.public && o.media == "" {
				continue // it has no input and changes nothing
			}
			r.media = media
			r.header.Set("Origin", "https://evil.example")
			r.header.Set("Sec-Fetch-Site", "cross-site")
			r.header.Set("Cookie", fmt.Sprintf("token=%s; stoa=%s", w.ann.AccessToken, w.ann.AccessToken))
			if a := w.send(r); a.ok() {
				t.Errorf("%s as %s from another site: got %d %s", o, media, a.status, a.body)
			}
		}
	}
	if changed := before.without(w.rows()); len(changed) > 0 {
		t.Errorf("another site's page changed\n%s", strings.Join(changed, "\n"))
	}
}
