package mail

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, int(250*time.Millisecond), time.UTC)

func atNoon(cfg *sqldb.Config) { cfg.Now = func() time.Time { return noon } }

func TestBox_ReturnsMailsNewestFirst(t *testing.T) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			box := NewBox(e.Open(t, atNoon))
			for _, m := range []Message{
				{"ann@example.org", "First", "482913 is your code, not 4829131 nor 12345."},
				{"Bob@example.org", "Grüße 你好 🙂", "It's <b>you</b>"},
				{"ann@example.org", "Second", "ref 99, then 000001."},
			} {
				if err := box.Send(t.Context(), m); err != nil {
					t.Fatal(err)
				}
			}
			first := Sent{"ann@example.org", "First", "482913 is your code, not 4829131 nor 12345.", api.At(noon), "482913"}
			bob := Sent{"Bob@example.org", "Grüße 你好 🙂", "It's <b>you</b>", api.At(noon), ""}
			second := Sent{"ann@example.org", "Second", "ref 99, then 000001.", api.At(noon), "000001"}
			for to, want := range map[string][]Sent{
				"": {second, bob, first}, "ann@example.org": {second, first}, "BOB@example.org": {bob}, "eve@example.org": {},
			} {
				got, err := box.Newest(t.Context(), to)
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("mails to %q: got %+v (%v), want %+v", to, got, err, want)
				}
			}
		})
	}
}

func TestBox_IsBounded(t *testing.T) {
	for _, e := range sqldbtest.Engines(t) {
		t.Run(e.Name, func(t *testing.T) {
			db := e.Open(t)
			box := NewBox(db)
			send := func(n int) {
				if err := box.Send(t.Context(), Message{"ann@example.org", fmt.Sprint(n), "x"}); err != nil {
					t.Fatal(err)
				}
			}
			send(0)
			// The other 498 rows need not be inserted.
			err := db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				for n := 1; n < boxSize; n++ {
					if _, err := tx.ExecContext(ctx, "INSERT INTO dev_mails (recipient, subject, body, sent) VALUES ('ann@example.org', ?, 'x', 0)",
						fmt.Sprint(n)); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			send(boxSize)
			send(boxSize + 1)
			var n int
			if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM dev_mails").Scan(&n); err != nil || n != boxSize {
				t.Errorf("the box holds %d mails (%v), want %d", n, err, boxSize)
			}
			if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM dev_mails WHERE subject IN ('0', '1')").Scan(&n); err != nil || n != 0 {
				t.Errorf("%d of the oldest two are left (%v), want 0", n, err)
			}
			mails, err := box.Newest(t.Context(), "")
			if err != nil || len(mails) != maxShown || mails[0].Subject != fmt.Sprint(boxSize+1) {
				t.Errorf("one look shows %d mails (%v), want %d from the newest on", len(mails), err, maxShown)
			}
		})
	}
}

func TestBox_RefusesLikeSMTP(t *testing.T) {
	box := NewBox(sqldbtest.SQLite(t))
	if err := box.Send(t.Context(), Message{"ann", "Hello", "x"}); err == nil {
		t.Error("got nil, want the recipient refused")
	}
}

func get(t *testing.T, h http.Handler, url, accept string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, url, nil)
	r.Host, r.RemoteAddr = "localhost", "127.0.0.1:50000"
	r.Header.Set("Accept", accept)
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}

func TestPage_ShowsMailsWithoutScripts(t *testing.T) {
	box := NewBox(sqldbtest.SQLite(t, atNoon))
	h := box.Handler(slog.New(slog.DiscardHandler))
	const browser = "text/html,application/xhtml+xml,application/json;q=0.9,*/*;q=0.8"
	if empty := get(t, h, "/dev/mail", browser).Body.String(); !strings.Contains(empty, "No mail yet.") {
		t.Errorf("the empty page does not say so:\n%s", empty)
	}
	for _, m := range []Message{
		{"ann@example.org", "Your code", "482913 is your code."},
		{"bob+x@example.org", "<script>alert(1)</script>", "</pre><script>alert(2)</script>"},
	} {
		if err := box.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	rec := get(t, h, "/dev/mail", browser)
	body := rec.Body.String()
	if got := rec.Header().Get("Content-Type"); rec.Code != http.StatusOK || got != "text/html; charset=utf-8" {
		t.Errorf("got %d %s, want 200 and HTML", rec.Code, got)
	}
	for _, want := range []string{
		`<p class="code">482913</p>`, `<h2>&lt;script&gt;alert(1)`, `href="?to=bob%2bx%40example.org"`,
		`<time datetime="2026-03-01T12:00:00.250Z">1 Mar 2026, 12:00:00 UTC</time>`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s:\n%s", want, body)
		}
	}
	if strings.Contains(body, "<script") || regexp.MustCompile(`\s(style|on\w+)=|//`).MatchString(body) {
		t.Errorf("the page runs or loads something:\n%s", body)
	}
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(body)
	sum := sha256.Sum256([]byte(style[1]))
	if csp, want := rec.Header().Get("Content-Security-Policy"), "style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+
		"'"; !strings.Contains(csp, want) || !strings.Contains(csp, "default-src 'none'") {
		t.Errorf("policy: got %s, want nothing but %s", csp, want)
	}
	if body := get(t, h, "/dev/mail?to=ann@example.org", browser).Body.String(); strings.Contains(body, "bob") ||
		!strings.Contains(body, "482913") {
		t.Errorf("the page for ann shows more or less than her mails:\n%s", body)
	}
}

func TestHandler_ServesThisMachineOnly(t *testing.T) {
	h := NewBox(sqldbtest.SQLite(t)).Handler(slog.New(slog.DiscardHandler))
	status := func(host, peer string, header ...string) int {
		r := httptest.NewRequest(http.MethodGet, "/dev/mail.json", nil)
		r.Host, r.RemoteAddr = host, peer
		for _, name := range header {
			r.Header.Set(name, "127.0.0.1")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	const here = "127.0.0.1:50000"
	for host, want := range map[string]int{
		"localhost:8080": 200, "127.0.0.1:8080": 200, "127.8.9.1": 200, "[::1]:8080": 200, "a.localhost": 200,
		"192.168.1.7": 421, "8.8.8.8:8080": 421, "[2001:db8::1]:8080": 421, "laptop": 421, "laptop.local": 421,
		"evil.example:8080": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421, "": 421,
	} {
		if got := status(host, here); got != want {
			t.Errorf("Host %q: got %d, want %d", host, got, want)
		}
	}
	for peer, want := range map[string]int{
		"[::1]:50000": 200, "[::ffff:127.0.0.1]:50000": 200,
		"192.168.1.7:50000": 421, "[fe80::1%eth0]:50000": 421, "": 421, "@": 421,
	} {
		if got := status("localhost", peer); got != want {
			t.Errorf("from %q: got %d, want %d", peer, got, want)
		}
	}
	for _, header := range []string{"X-Forwarded-For", "x-forwarded-host", "X-Forwarded-Proto", "X-Real-IP", "Forwarded", "Via"} {
		if got := status("localhost", here, header); got != 421 {
			t.Errorf("with %s: got %d, want 421", header, got)
		}
	}
}

func TestHandler_ServesJSON(t *testing.T) {
	box := NewBox(sqldbtest.SQLite(t, atNoon))
	h := box.Handler(slog.New(slog.DiscardHandler))
	if err := box.Send(t.Context(), Message{"ann@example.org", "Your code", "482913 is your code."}); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{{"to": "ann@example.org", "subject": "Your code", "text": "482913 is your code.",
		"at": "2026-03-01T12:00:00.250Z", "code": "482913"}}
	for url, accept := range map[string]string{"/dev/mail.json?to=ann@example.org": "*/*", "/dev/mail": "application/json",
		"/dev/mail.json": ""} {
		rec := get(t, h, url, accept)
		var got []map[string]any
		if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || !reflect.DeepEqual(got, want) ||
			rec.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: got %s (%v), want %v", url, rec.Body, err, want)
		}
	}
	if got := get(t, h, "/dev/mail.json?to=eve@example.org", "").Body.String(); got != "[]\n" {
		t.Errorf("to eve: got %q, want an empty list", got)
	}
}

func TestHandler_UnavailableWithoutDatabase(t *testing.T) {
	db, err := sqldb.Open(t.Context(), sqldb.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	if rec := get(t, NewBox(db).Handler(slog.New(slog.DiscardHandler)), "/dev/mail.json", ""); rec.Code != http.StatusServiceUnavailable {
		t.Errorf("got %d, want 503", rec.Code)
	}
}
