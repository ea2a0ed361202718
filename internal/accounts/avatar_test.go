package accounts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/jpeg"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/picture"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
)

// square is a small image of one colour.
func square(t testing.TB, c color.Color) []byte {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, 8, 8))
	for i := range 64 {
		img.Set(i%8, i/8, c)
	}
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// send is say without a record; headers are pairs.
func (c *conversation) send(method, path, bearer string, body []byte, headers ...string) *httptest.ResponseRecorder {
	c.t.Helper()
	r := httptest.NewRequestWithContext(c.t.Context(), method, path, bytes.NewReader(body))
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	return w
}

// upload sets a picture and returns its id.
func (c *conversation) upload(bearer string, data []byte, media string) string {
	c.t.Helper()
	w := c.send("PUT", "/v1/me/avatar", bearer, data, "Content-Type", media)
	var a api.Avatar
	if err := json.Unmarshal(w.Body.Bytes(), &a); w.Code != http.StatusOK || err != nil || a.Avatar == "" {
		c.t.Fatalf("upload: got %d %s", w.Code, w.Body)
	}
	return a.Avatar
}

func (c *conversation) answers(what string, w *httptest.ResponseRecorder, status int, code string) {
	c.t.Helper()
	var p struct{ Code string }
	_ = json.Unmarshal(w.Body.Bytes(), &p) // a response without a code has none
	if w.Code != status || p.Code != code {
		c.t.Errorf("%s: got %d %.200s, want %d %s", what, w.Code, w.Body, status, code)
	}
}

func TestAvatar_SetShowReplaceRemove(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		w.listen()
		c := w.talk()
		ann, bob := w.join("ann@example.org", ""), w.join("bob@example.org", "")
		sub := w.bus.Subscribe(t.Context(), ann.User.ID.String())
		defer sub.Close()
		avatarOf := func() string {
			t.Helper()
			var p api.Profile
			c.say("GET", "/v1/users/"+ann.User.ID.String(), bob.Access, "", &p)
			return p.Avatar
		}

		// The bytes define the type, whatever the header says.
		first := c.upload(ann.Access, square(t, color.NRGBA{200, 0, 0, 255}), "image/webp")
		if got := avatarOf(); got != first {
			t.Errorf("the profile has the picture %q, want %q", got, first)
		}
		select {
		case e := <-sub.C:
			var u api.User
			if err := json.Unmarshal(e.Data, &u); err != nil || e.Type != api.EventAccountUpdated || u.Avatar != first {
				t.Errorf("told %s %s, %v", e.Type, e.Data, err)
			}
		case <-time.After(patience):
			t.Error("the devices heard nothing")
		}
		for _, size := range picture.Sizes {
			path := fmt.Sprintf("/v1/avatars/%s/%d", first, size)
			got := c.send("GET", path, "", nil)
			img, kind, err := image.Decode(bytes.NewReader(got.Body.Bytes()))
			if err != nil || kind != "jpeg" || img.Bounds().Dx() != size {
				t.Fatalf("%s: got %d, %s, %v %.300s", path, got.Code, kind, err, got.Body)
			}
			tag := got.Header().Get("ETag")
			for name, want := range map[string]string{
				"Content-Type": "image/jpeg", "Cache-Control": "public, max-age=31536000, immutable", "Content-Disposition": "inline",
				"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
				"ETag": fmt.Sprintf(`"%s-%d"`, first, size), "Content-Length": fmt.Sprint(got.Body.Len()),
			} {
				if got := got.Header().Get(name); got != want {
					t.Errorf("%s: %s is %q, want %q", path, name, got, want)
				}
			}
			for _, known := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
				if got := c.send("GET", path, "", nil, "If-None-Match", known); got.Code != http.StatusNotModified || got.Body.Len() != 0 ||
					got.Header().Get("ETag") != tag || got.Header().Get("Cache-Control") == "no-store" || got.Header().Get("Content-Length") != "" {
					t.Errorf("%s known as %s: got %d %v", path, known, got.Code, got.Header())
				}
			}
			if got := c.send("GET", path, "", nil, "If-None-Match", `"x", "`+first+`"`); got.Code != http.StatusOK {
				t.Errorf("%s with other tags known: got %d", path, got.Code)
			}
		}
		network, srv := bubble.NewNetwork(), &http.Server{Handler: c.handler}
		go func() { _ = srv.Serve(network) }()
		if head, err := network.Client().Head("http://server/v1/avatars/" + first + "/64"); err != nil || head.StatusCode != 200 ||
			head.ContentLength <= 0 || head.Header.Get("ETag") == "" {
			t.Errorf("HEAD: got %+v, %v", head, err)
		} else if body, err := io.ReadAll(head.Body); len(body) != 0 || err != nil || head.Body.Close() != nil {
			t.Errorf("HEAD has a body of %d bytes, %v", len(body), err)
		}
		_ = srv.Close()
		c.answers("another size", c.send("GET", "/v1/avatars/"+first+"/128", "", nil), 422, "request.invalid")
		c.answers("another picture", c.send("GET", "/v1/avatars/000000000000/64", "", nil), 404, "avatar.unknown")
		if got := c.send("GET", "/v1/avatars/000000000000/64", "", nil).Header().Get("Cache-Control"); got != "no-store" {
			t.Errorf("a refusal may be kept: %s", got)
		}
		c.answers("no id", c.send("GET", "/v1/avatars/x/64", "", nil), 404, "avatar.unknown")

		for what, r := range map[string]struct {
			bearer, media string
			body          []byte
			status        int
			code          string
		}{
			"no token":   {"", "image/png", square(t, color.White), 401, "auth.required"},
			"JSON":       {ann.Access, "application/json", []byte(`{"avatar":"000000000000"}`), 415, "request.media_type"},
			"no type":    {ann.Access, "", square(t, color.White), 415, "request.media_type"},
			"empty":      {ann.Access, "image/png", nil, 400, "request.malformed"},
			"SVG":        {ann.Access, "image/svg+xml", []byte("<svg xmlns='http://www.w3.org/2000/svg'/>"), 422, "picture.unreadable"},
			"cut off":    {ann.Access, "image/png", square(t, color.White)[:60], 422, "picture.unreadable"},
			"bomb":       {ann.Access, "image/gif", []byte("GIF89a\xff\xff\xff\xff\x00\x00\x00"), 422, "picture.dimensions"},
			"oversized":  {ann.Access, "image/png", make([]byte, picture.MaxBytes+1), 413, "request.too_large"},
			"large junk": {ann.Access, "image/png", make([]byte, picture.MaxBytes), 422, "picture.unreadable"},
		} {
			c.answers(what, c.send("PUT", "/v1/me/avatar", r.bearer, r.body, "Content-Type", r.media), r.status, r.code)
		}
		if got := avatarOf(); got != first {
			t.Errorf("after refusals the picture is %q, want %q", got, first)
		}

		clear := c.upload(ann.Access, square(t, color.NRGBA{0, 200, 0, 100}), "image/png")
		if got := c.send("GET", "/v1/avatars/"+clear+"/256", "", nil); got.Header().Get("Content-Type") != "image/png" {
			t.Errorf("what shows through is %s", got.Header().Get("Content-Type"))
		}
		c.answers("the one before", c.send("GET", "/v1/avatars/"+first+"/64", "", nil), 404, "avatar.unknown")
		if n := w.count("avatars"); n != len(picture.Sizes) || avatarOf() != clear {
			t.Errorf("%d rows, and the profile has %q, want %q", n, avatarOf(), clear)
		}

		if got := c.send("DELETE", "/v1/me/avatar", bob.Access, nil); got.Code != http.StatusNoContent || avatarOf() != clear {
			t.Errorf("another user's removal: got %d", got.Code)
		}
		for range 2 {
			if got := c.send("DELETE", "/v1/me/avatar", ann.Access, nil); got.Code != http.StatusNoContent || avatarOf() != "" ||
				w.count("avatars") != 0 {
				t.Errorf("removed: got %d %s", got.Code, got.Body)
			}
		}
		c.answers("removed", c.send("GET", "/v1/avatars/"+clear+"/64", "", nil, "If-None-Match", "*"), 404, "avatar.unknown")

		last := c.upload(ann.Access, square(t, color.White), "image/png")
		w.exec("UPDATE users SET erased = ? WHERE id = ?", w.db.Now().Add(time.Hour).UnixMilli(), ann.User.ID)
		c.answers("a deleted user's", c.send("GET", "/v1/avatars/"+last+"/64", "", nil), 404, "avatar.unknown")
		// A request that runs while the account is deleted leaves no data.
		if _, err := w.SetAvatar(t.Context(), ann.User.ID, square(t, color.Black)); !errors.Is(err, ErrNoUser) {
			t.Errorf("a deleted user got a picture: %v", err)
		}
		if _, err := w.DrawCard(t.Context(), ann.User.ID); !errors.Is(err, ErrNoUser) || w.count("cards") != 0 {
			t.Errorf("a deleted user got a card: %v", err)
		}
	})
}

func TestAvatar_ConcurrentUploadsLeaveOne(t *testing.T) {
	eachEngine(t, Settings{}, func(t *testing.T, w *world) {
		w.listen()
		users := w.people(3)
		sizes, err := w.studio.Square(t.Context(), "", square(t, color.White))
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for _, id := range users {
			for i := range 4 {
				all.Go(func() {
					a, sizes := ids.New[picture.Picture](), sizes
					if i == 3 {
						a, sizes = AvatarID{}, nil // a removal
					}
					if err := w.changeAvatar(t.Context(), id, a, sizes); err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		var orphans int
		if err := w.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM avatars a LEFT JOIN users u ON u.id = a.user_id AND u.avatar = a.id "+
			"WHERE u.id IS NULL").Scan(&orphans); err != nil || orphans != 0 {
			t.Errorf("%d pictures have no owner, %v", orphans, err)
		}
		for _, id := range users {
			u, err := w.User(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if u.Avatar == "" {
				continue
			}
			a, err := ids.Parse[picture.Picture](u.Avatar)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Avatar(t.Context(), a, 512); err != nil {
				t.Errorf("the picture that the profile names: %v", err)
			}
		}
	})
}

func TestAvatar_FailedUploadKeepsThePrevious(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := onSQLite(t, Settings{})
		w.listen()
		id := w.people(1)[0]
		first, err := w.SetAvatar(t.Context(), id, square(t, color.White))
		if err != nil {
			t.Fatal(err)
		}
		w.exec("CREATE TRIGGER fail BEFORE UPDATE OF avatar ON users BEGIN SELECT RAISE(ABORT, 'no'); END")
		if _, err := w.SetAvatar(t.Context(), id, square(t, color.Black)); err == nil {
			t.Fatal("the upload did not fail")
		}
		if err := w.RemoveAvatar(t.Context(), id); err == nil {
			t.Fatal("the removal did not fail")
		}
		if u, err := w.User(t.Context(), id); err != nil || u.Avatar != first.String() {
			t.Errorf("got %q, %v, want %q", u.Avatar, err, first)
		}
		if _, err := w.Avatar(t.Context(), first, 64); err != nil || w.count("avatars") != len(picture.Sizes) {
			t.Errorf("got %v and %d rows", err, w.count("avatars"))
		}
		if _, err := w.SetAvatar(t.Context(), ids.New[User](), square(t, color.White)); !errors.Is(err, ErrNoUser) {
			t.Errorf("for nobody: got %v", err)
		}
	})
}

func TestAvatar_ChangesWithoutRedis(t *testing.T) {
	onMemory(t, Settings{}, func(t *testing.T, w *world, server *redistest.Memory) {
		w.listen()
		id := w.people(1)[0]
		if _, err := w.User(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		server.Kill()
		a, err := w.SetAvatar(t.Context(), id, square(t, color.White))
		if err != nil {
			t.Fatal(err)
		}
		if u, err := w.User(t.Context(), id); err != nil || u.Avatar != a.String() {
			t.Errorf("got %q, %v, want %q", u.Avatar, err, a)
		}
	})
}

// BenchmarkAvatar shows why pictures are not cached.
func BenchmarkAvatar(b *testing.B) {
	for _, e := range sqldbtest.Engines(b) {
		b.Run(e.Name, func(b *testing.B) {
			db := e.Open(b)
			s := &Service{db: db}
			id, user := ids.New[picture.Picture](), ids.New[User]()
			data := []byte(strings.Repeat("x", 20<<10)) // a photo of 256 pixels
			for _, q := range []struct {
				text string
				args []any
			}{
				{"INSERT INTO users (id, email, email_key, name, zone, zone_next, zone_from, created) VALUES (?, 'a', 'a', 'a', 'UTC', '', 0, 0)",
					[]any{user}},
				{"INSERT INTO avatars (id, size, user_id, type, data) VALUES (?, 256, ?, 'image/jpeg', ?)", []any{id, user, data}},
			} {
				if _, err := db.ExecContext(b.Context(), q.text, q.args...); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if _, err := s.Avatar(b.Context(), id, 256); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
