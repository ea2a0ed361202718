package accounts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/makiuchi-d/gozxing"
	zxing "github.com/makiuchi-d/gozxing/qrcode"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/qr"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/keyspace"
	"github.com/stoa-dev/stoa/lib/ratelimit"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// scan reads a QR code with another library than the one that drew it.
func scan(t testing.TB, img image.Image) string {
	t.Helper()
	bits, err := gozxing.NewBinaryBitmapFromImage(img)
	if err != nil {
		t.Fatal(err)
	}
	r, err := zxing.NewQRCodeReader().Decode(bits, nil)
	if err != nil { // the library does not find the corners of every readable code
		r, err = zxing.NewQRCodeReader().Decode(bits, map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_PURE_BARCODE: true})
	}
	if err != nil {
		t.Fatalf("the code cannot be read: %v", err)
	}
	return r.GetText()
}

var (
	viewBox = regexp.MustCompile(`viewBox="0 0 (\d+) (\d+)"`)
	darkRun = regexp.MustCompile(`M(\d+) (\d+)h(\d+)v1h-(\d+)z`)
)

// paint draws the SVG of a code with three pixels for each module.
func paint(t testing.TB, svg []byte) image.Image {
	t.Helper()
	number := func(b []byte) int {
		n, err := strconv.Atoi(string(b))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	box := viewBox.FindSubmatch(svg)
	if box == nil || number(box[1]) != number(box[2]) {
		t.Fatalf("no viewBox in %s", svg)
	}
	all := number(box[1]) * 3
	img := image.NewGray(image.Rect(0, 0, all, all))
	for i := range img.Pix {
		img.Pix[i] = 255
	}
	for _, m := range darkRun.FindAllSubmatch(svg, -1) {
		x, y, run := number(m[1]), number(m[2]), number(m[3])
		for i := range 3 * run * 3 {
			img.Set(3*x+i%(3*run), 3*y+i/(3*run), color.Black)
		}
	}
	return img
}

func TestCard_HTTP(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		w.listen()
		c := w.talk()
		ann, bob := w.join("ann@example.org", ""), w.join("bob@example.org", "")
		for name, value := range map[string]string{"ANN'S TOKEN": ann.Access, "BOB'S TOKEN": bob.Access, "ANN": ann.User.ID.String(),
			"BOB": bob.User.ID.String()} {
			c.call(value, name)
		}
		var first, again, second api.Card
		c.say("POST", "/v1/me/card", ann.Access, "", &first)
		c.call(first.Token, "CARD1")
		c.say("POST", "/v1/me/card", ann.Access, "", &again)
		c.say("GET", "/v1/cards/"+first.Token, bob.Access, "", nil)
		c.say("GET", "/v1/cards/"+first.Token, "", "", nil)
		c.say("GET", "/v1/cards/0000000000000000000000", bob.Access, "", nil)
		c.say("GET", "/v1/cards/x", bob.Access, "", nil)
		c.say("GET", "/v1/me/card.png?size=127", ann.Access, "", nil)
		c.say("GET", "/v1/me/card.png?size=1025", ann.Access, "", nil)
		c.say("GET", "/v1/me/card.svg", "", "", nil)
		c.say("DELETE", "/v1/me/card", bob.Access, "", nil)
		c.say("GET", "/v1/cards/"+first.Token, bob.Access, "", nil)
		c.say("DELETE", "/v1/me/card", ann.Access, "", nil)
		c.say("GET", "/v1/cards/"+first.Token, bob.Access, "", nil)
		c.say("DELETE", "/v1/me/card", ann.Access, "", nil)
		c.say("POST", "/v1/me/card", ann.Access, "", &second)
		c.call(second.Token, "CARD2")
		c.say("GET", "/v1/cards/"+second.Token, bob.Access, "", nil)
		c.agrees("testdata/card.golden")
		if strings.Contains(w.log.String(), first.Token) || strings.Contains(w.log.String(), second.Token) {
			t.Error("a card's token is in the log")
		}
	})
}

func TestCard_IsEqualForTwoDaysOnAllNodes(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		w.listen()
		other := w.neighbour()
		id := w.people(1)[0]
		card := func(n *world) Card {
			t.Helper()
			c, err := n.DrawCard(t.Context(), id)
			if err != nil || c.User != id || !isNonce(w.CardToken(c)) {
				t.Fatalf("got %+v, %v", c, err)
			}
			return c
		}
		owner := func(n *world, token string, want error) {
			t.Helper()
			got, err := n.CardOwner(t.Context(), token)
			if !errors.Is(err, want) || err == nil && got != id {
				t.Errorf("got %s, %v, want %v", got, err, want)
			}
		}
		before := w.db.Now()
		first := card(w)
		if after := w.db.Now(); first.Expires.Before(before.Add(cardLife).Truncate(time.Millisecond)) ||
			first.Expires.After(after.Add(cardLife)) {
			t.Errorf("a new card is good until %s, want %s after %s to %s", first.Expires, cardLife, before, after)
		}
		w.pass(47 * time.Hour)
		for _, n := range []*world{w, other, other} {
			if c := card(n); w.CardToken(c) != w.CardToken(first) || c.Expires.UnixMilli() != first.Expires.UnixMilli() {
				t.Errorf("an hour before its end: got %+v, want %+v", c, first)
			}
			owner(n, w.CardToken(first), nil)
		}
		w.pass(time.Hour)
		owner(w, w.CardToken(first), ErrNoCard)
		owner(other, w.CardToken(first), ErrNoCard)
		second := card(other)
		if w.CardToken(second) == w.CardToken(first) || w.CardToken(card(w)) != w.CardToken(second) {
			t.Errorf("after its end: got %+v and %+v, before %+v", second, card(w), first)
		}
		owner(w, w.CardToken(second), nil)
		owner(other, w.CardToken(second), nil)
		owner(w, w.CardToken(first), ErrNoCard)

		if err := w.WithdrawCard(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		owner(w, w.CardToken(second), ErrNoCard) // at once
		eventually.True(t, "another node to take the card no longer", func() bool {
			_, err := other.CardOwner(t.Context(), w.CardToken(second))
			return errors.Is(err, ErrNoCard)
		})
		third := card(w)
		if err := w.db.Tx(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			return deleteCard(ctx, tx, second)
		}); err != nil || w.count("cards") != 1 {
			t.Errorf("a late withdrawal of the card before took this one, %v", err)
		}
		if w.CardToken(third) == w.CardToken(second) {
			t.Error("a withdrawn card came back")
		}
		for what, set := range map[string]string{"banned": "banned_until", "deleted": "erased"} {
			w.exec("UPDATE users SET "+set+" = ? WHERE id = ?", w.db.Now().Add(time.Hour).UnixMilli(), id)
			if err := w.caches.Drop(t.Context(), AccountBanned.Of(w.caches.Runtime, id)...); err != nil {
				t.Fatal(err)
			}
			if got, err := w.CardOwner(t.Context(), w.CardToken(third)); !errors.Is(err, ErrNoCard) {
				t.Errorf("%s: got %s, %v", what, got, err)
			}
			w.exec("UPDATE users SET "+set+" = 0 WHERE id = ?", id)
		}
		if _, err := w.DrawCard(t.Context(), ids.New[User]()); !errors.Is(err, ErrNoUser) {
			t.Errorf("nobody's card: %v", err)
		}
	})
}

func TestCard_CacheEntryExpiresWithIt(t *testing.T) {
	onMemory(t, Settings{}, func(t *testing.T, w *world, server *redistest.Memory) {
		w.listen()
		id := w.people(1)[0]
		first, err := w.DrawCard(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		w.pass(47 * time.Hour)
		look := func() {
			t.Helper()
			if c, err := w.DrawCard(t.Context(), id); err != nil || w.CardToken(c) != w.CardToken(first) {
				t.Fatalf("got %+v, %v", c, err)
			}
			if _, err := w.CardOwner(t.Context(), w.CardToken(first)); err != nil {
				t.Fatal(err)
			}
		}
		look()
		for _, k := range []keyspace.Key{cardKeys.At(id).Key, cardTokenKeys.At(keyspace.Hashed{S: first.Name}).Key} {
			left, err := w.redis.Do(t.Context(), keyspace.Cmd{Name: "PTTL", Key: k}).Int()
			if err != nil || left <= 0 || left > time.Hour.Milliseconds() {
				t.Errorf("%s lives for another %d ms, %v, want at most an hour", k, left, err)
			}
		}
		// Only Redis has cache entries.
		server.FlushAll()
		look()
		server.Kill()
		look()
		if err := w.WithdrawCard(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if _, err := w.CardOwner(t.Context(), w.CardToken(first)); !errors.Is(err, ErrNoCard) {
			t.Errorf("withdrawn without Redis: got %v", err)
		}
		if c, err := w.DrawCard(t.Context(), id); err != nil || w.CardToken(c) == w.CardToken(first) {
			t.Errorf("drawn without Redis: got %+v, %v", c, err)
		}
	})
}

func TestDrawCard_ConcurrentCallersGetOneCard(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		w.listen()
		nodes := []*world{w, w.neighbour()}
		id := w.people(1)[0]
		var mu sync.Mutex
		tokens := map[string]bool{}
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				c, err := nodes[i%2].DrawCard(t.Context(), id)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				tokens[c.Name] = true
			})
		}
		all.Wait()
		if len(tokens) != 1 {
			t.Errorf("got %d cards, want one", len(tokens))
		}
	})
}

func TestCard_QRCodeLinksToThePage(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		c := w.talk()
		ann := w.join("ann@example.org", "")
		if _, err := w.Card(t.Context(), ann.User.ID); !errors.Is(err, ErrNotDrawn) {
			t.Errorf("before it is drawn: got %v, want %v", err, ErrNotDrawn)
		}
		if _, err := w.DrawCard(t.Context(), ann.User.ID); err != nil {
			t.Fatal(err)
		}
		get := func(path, host string) *httptest.ResponseRecorder {
			t.Helper()
			r := httptest.NewRequestWithContext(t.Context(), "GET", path, nil)
			r.Host = host
			r.Header.Set("Authorization", "Bearer "+ann.Access)
			rec := httptest.NewRecorder()
			c.handler.ServeHTTP(rec, r)
			if rec.Code != 200 {
				t.Fatalf("%s: got %d %s", path, rec.Code, rec.Body)
			}
			return rec
		}
		for host, origin := range map[string]string{
			"stoa.example.org":                 "http://stoa.example.org",
			"[::1]:8080":                       "http://[::1]:8080",
			strings.Repeat("a", 253) + ":8080": "http://" + strings.Repeat("a", 253) + ":8080",
			strings.Repeat("a", 9000):          "", // not a host
			`x"><script>`:                      "",
		} {
			var card api.Card
			if err := json.Unmarshal(get("/v1/me/card", host).Body.Bytes(), &card); err != nil || card.URL != origin+"/#/card/"+card.Token {
				t.Errorf("%.40s: got %+v, %v", host, card, err)
			}
			sizes := []int{512}
			if host == "stoa.example.org" {
				sizes = []int{128, 333, 512, 1024}
			}
			for _, size := range sizes {
				got := get(fmt.Sprint("/v1/me/card.png?size=", size), host)
				if got.Header().Get("Content-Type") != "image/png" || got.Header().Get("Cache-Control") != "no-store" ||
					got.Header().Get("Content-Length") != fmt.Sprint(got.Body.Len()) {
					t.Errorf("the PNG's headers: %v", got.Header())
				}
				img, kind, err := image.Decode(got.Body)
				if err != nil || kind != "png" || img.Bounds() != image.Rect(0, 0, size, size) {
					t.Fatalf("got %s, %v", kind, err)
				}
				if text := scan(t, img); text != card.URL {
					t.Errorf("on %d pixels it says %q, want %q", size, text, card.URL)
				}
			}
			got := get("/v1/me/card.svg", host)
			if got.Header().Get("Content-Type") != "image/svg+xml" || strings.Contains(got.Body.String(), "script") {
				t.Errorf("the SVG: %v %s", got.Header(), got.Body)
			}
			if text := scan(t, paint(t, got.Body.Bytes())); text != card.URL {
				t.Errorf("as SVG it says %q, want %q", text, card.URL)
			}
		}
		if img, _, err := image.Decode(get("/v1/me/card.png", "stoa.example.org").Body); err != nil || img.Bounds().Dx() != 512 {
			t.Errorf("without a size: %v, %v", img.Bounds(), err)
		}
	})
}

func TestCard_ScansAreLimitedPerUser(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		a := web.New(web.Config{Auth: w.Service, Limiter: ratelimit.New(w.redis)})
		w.Routes(a)
		c := &conversation{world: w, handler: a.Handler()}
		ann := w.join("ann@example.org", "")
		for i := range scanLimit.Max + 1 {
			status, code := 404, "card.unknown"
			if i == scanLimit.Max {
				status, code = 429, "limit.exceeded"
			}
			c.answers(fmt.Sprint("scan ", i+1), c.send("GET", "/v1/cards/"+newNonce(), ann.Access, nil), status, code)
		}
	})
}

// Guesses leave no data in Redis.
func TestCard_UnknownTokensAreNotCached(t *testing.T) {
	onMemory(t, Settings{}, func(t *testing.T, w *world, _ *redistest.Memory) {
		w.listen()
		size := func() int64 {
			t.Helper()
			n, err := w.redis.Do(t.Context(), keyspace.Cmd{Name: "DBSIZE"}).Int()
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		if _, err := w.CardOwner(t.Context(), newNonce()); !errors.Is(err, ErrNoCard) {
			t.Fatal(err)
		}
		before := size()
		for range 20 {
			if _, err := w.CardOwner(t.Context(), newNonce()); !errors.Is(err, ErrNoCard) {
				t.Error(err)
			}
		}
		if after := size(); after != before {
			t.Errorf("20 guesses: %d keys became %d", before, after)
		}
		calls := w.calls()
		for _, token := range []string{"", "x", strings.Repeat("0", 21), strings.Repeat("0", 23), "000000000000000000000:",
			"00000000000000000000é"} {
			if _, err := w.CardOwner(t.Context(), token); !errors.Is(err, ErrNoCard) {
				t.Errorf("%q: %v", token, err)
			}
		}
		if now := w.calls(); now["get"] != calls["get"] || now["evalsha"] != calls["evalsha"] {
			t.Errorf("what is no token was looked up: %v, then %v", calls, now)
		}
	})
}

func FuzzQR(f *testing.F) {
	f.Add("https://stoa.example.org/#/card/V1StGXR8_Z5jdHi6B-myTA", 512)
	f.Add("", 128)
	f.Add(strings.Repeat("a", 300), 1024)
	f.Fuzz(func(t *testing.T, text string, size int) {
		// The token of a link. The QR reader takes other bytes for another alphabet.
		if len(text) > 300 || strings.ContainsFunc(text, func(r rune) bool { return r < '!' || r > '~' }) || size < 128 || size > 1024 {
			t.Skip()
		}
		c, err := qr.New(text)
		if err != nil {
			t.Fatal(err)
		}
		b, err := c.PNG(size)
		if err != nil {
			t.Fatal(err)
		}
		img, _, err := image.Decode(bytes.NewReader(b))
		if err != nil || img.Bounds().Dx() != size {
			t.Fatalf("%v, %v", img.Bounds(), err)
		}
		if text != "" && size/(c.Side+2*qr.Quiet) >= 3 {
			if got := scan(t, img); got != text {
				t.Fatalf("%q says %q", text, got)
			}
		}
		if text != "" {
			if got := scan(t, paint(t, c.SVG())); got != text {
				t.Fatalf("as SVG %q says %q", text, got)
			}
		}
	})
}

// A reader of SQL and Redis cannot create the token of a card.
func TestCard_TokenIsNotStored(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		id := w.join("ann@example.org", "").User.ID
		c, err := w.DrawCard(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		token := w.CardToken(c)
		if owner, err := w.CardOwner(t.Context(), token); owner != id || err != nil {
			t.Errorf("the token is %s's, %v", owner, err)
		}
		copies, _, err := w.redis.Do(t.Context(), keyspace.Cmd{Name: "GET", Key: cardKeys.At(id).Key}).Text()
		if err != nil {
			t.Fatal(err)
		}
		if rows := w.dump("SELECT * FROM cards"); strings.Contains(rows+copies, token) || !strings.Contains(rows, c.Name) {
			t.Errorf("stored: %s, %s", rows, copies)
		}
		if _, err := w.CardOwner(t.Context(), c.Name); !errors.Is(err, ErrNoCard) {
			t.Errorf("what is stored, as a token: got %v, want ErrNoCard", err)
		}
		if other := mint("another secret of thirty-two byte").cardToken(c.Name); other == token || len(other) != len(token) {
			t.Errorf("another server's token is %q", other)
		}
	})
}
