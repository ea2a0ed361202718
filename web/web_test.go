package pages

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stoa-dev/stoa/api"
)

func get(t *testing.T, method, path string, headers ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestThePageIsRevalidatedAndAllowsNothingInline(t *testing.T) {
	res := get(t, "GET", "/")
	if got, want := res.StatusCode, 200; got != want {
		t.Fatalf("status = %d, want %d", got, want)
	}
	if got, want := res.Header.Get("Content-Type"), "text/html; charset=utf-8"; got != want {
		t.Errorf("Content-Type = %q, want %q", got, want)
	}
	if got, want := res.Header.Get("Cache-Control"), "no-cache"; got != want {
		t.Errorf("Cache-Control = %q, want %q", got, want)
	}
	csp := res.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
		"frame-ancestors 'none'"} {
		if !strings.Contains(csp, want) {
			t.Errorf("Content-Security-Policy = %q, want %q in it", csp, want)
		}
	}
	if strings.Contains(csp, "unsafe") {
		t.Errorf("Content-Security-Policy = %q, want nothing unsafe", csp)
	}
	page := text(t, res)
	// What the policy would refuse must not be there to begin with.
	for _, re := range []string{`<style`, `\sstyle=`, `\son[a-z]+=`, `<script(?:\s[^>]*)?>[^<]`, `(?:src|href)="https?:`} {
		if m := regexp.MustCompile(re).FindString(page); m != "" {
			t.Errorf("the page has %q, which the policy refuses", m)
		}
	}

	again := get(t, "GET", "/", "If-None-Match", res.Header.Get("ETag"))
	if got, want := again.StatusCode, 304; got != want {
		t.Errorf("status with the same ETag = %d, want %d", got, want)
	}
}

func TestEveryPartOfThePageIsThereHashedAndKept(t *testing.T) {
	hashed := regexp.MustCompile(`^/assets/[\w.-]+-[\w-]{8}\.(js|css|svg|woff2)$`)
	first := map[string]bool{} // fetched with the page
	refs := regexp.MustCompile(`(?:src|href)="(/[^"]+)"`).FindAllStringSubmatch(text(t, get(t, "GET", "/")), -1)
	want := map[string]bool{}
	for _, m := range refs {
		if m[1] != "/docs" {
			want[m[1]], first[m[1]] = true, true
		}
	}
	for url := range load() {
		if url != "/" && url != "/sw.js" && url != api.RoomSample {
			want[url] = true
		}
	}
	if len(want) < 3 {
		t.Fatalf("the page has %d parts, want script, style and icon at least", len(want))
	}
	var script int
	for url := range want {
		if !hashed.MatchString(url) {
			t.Errorf("%s has no hash in its name", url)
		}
		res := get(t, "GET", url)
		if got, want := res.StatusCode, 200; got != want {
			t.Errorf("%s: status = %d, want %d", url, got, want)
			continue
		}
		if got, want := res.Header.Get("Cache-Control"), "public, max-age=31536000, immutable"; got != want {
			t.Errorf("%s: Cache-Control = %q, want %q", url, got, want)
		}
		if strings.HasSuffix(url, ".js") {
			if got, want := res.Header.Get("Content-Type"), "text/javascript; charset=utf-8"; got != want {
				t.Errorf("%s: Content-Type = %q, want %q", url, got, want)
			}
			if body := text(t, res); first[url] {
				script += packed(t, body)
			}
		}
	}
	// The page is a first impression, also over a slow line. What only some views
	// need comes with them, and so does another language than English.
	if got, limit := script, 24<<10; got > limit || got == 0 {
		t.Errorf("scripts fetched with the page have %d bytes when packed, want some and at most %d", got, limit)
	}
}

// packed is how many bytes a text has on its way to a browser.
func packed(t *testing.T, text string) int {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Len()
}

func TestTheWorkerIsLookedForAnewAndFetchesNothing(t *testing.T) {
	res := get(t, "GET", "/sw.js")
	if res.StatusCode != 200 || res.Header.Get("Cache-Control") != "no-cache" ||
		res.Header.Get("Content-Type") != "text/javascript; charset=utf-8" || res.Header.Get("Content-Security-Policy") != "default-src 'none'" {
		t.Fatalf("/sw.js: %d %v", res.StatusCode, res.Header)
	}
	if body := text(t, res); strings.Contains(body, "import") || !strings.Contains(body, "notificationclick") {
		t.Errorf("a worker that browsers take as no module says %s", body)
	}
}

func TestTheSampleVideoIsSmallAndServedInParts(t *testing.T) {
	res := get(t, "GET", api.RoomSample, "Accept-Encoding", "gzip")
	whole := text(t, res)
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "video/webm" || res.Header.Get("Content-Encoding") != "" ||
		len(whole) == 0 || len(whole) > 200<<10 {
		t.Fatalf("the sample: %d %v, %d bytes", res.StatusCode, res.Header, len(whole))
	}
	part := get(t, "GET", api.RoomSample, "Range", "bytes=1000-1999", "Accept-Encoding", "gzip")
	if got := text(t, part); part.StatusCode != 206 || got != whole[1000:2000] {
		t.Errorf("a part of the sample: %d %v, %d bytes", part.StatusCode, part.Header, len(got))
	}
}

func TestOtherPathsAndMethodsAreRefused(t *testing.T) {
	for _, path := range []string{"/index.html", "/assets/", "/assets/none.js", "/assets/../web.go", "/v1/me"} {
		if got, want := get(t, "GET", path).StatusCode, 404; got != want {
			t.Errorf("GET %s: status = %d, want %d", path, got, want)
		}
	}
	res := get(t, "POST", "/")
	if got, want := res.StatusCode, 405; got != want {
		t.Errorf("POST /: status = %d, want %d", got, want)
	}
	if got, want := res.Header.Get("Allow"), "GET, HEAD"; got != want {
		t.Errorf("POST /: Allow = %q, want %q", got, want)
	}
	if got := text(t, get(t, "HEAD", "/")); got != "" {
		t.Errorf("HEAD / answers %d bytes, want none", len(got))
	}
}
