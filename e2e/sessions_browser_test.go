package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
)

// holdsBack delays the page's first request of a method for a path until window.send is called. It records the statuses
// of such requests in window.statuses.
func (p *tab) holdsBack(method, path string) {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(() => {
		const real = window.fetch;
		window.statuses = [];
		window.fetch = async (url, init) => {
			if (init?.method !== %q || new URL(url, location).pathname !== %q) return real(url, init);
			if (!window.send) await new Promise((go) => (window.send = go));
			const res = await real(url, init);
			statuses.push(res.status);
			return res;
		};
	})()`, method, path)))
}

// refusesOnce refuses the page's first request of a method for a path with that end. Then window.refused is true.
func (p *tab) refusesOnce(method, path string, status int, code string) {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(() => {
		const real = window.fetch;
		window.refused = false;
		window.fetch = async (url, init) => {
			if (refused || (init?.method ?? "GET") !== %q || !String(url).endsWith(%q)) return real(url, init);
			refused = true;
			return new Response(JSON.stringify({ code: %q, status: %d, title: "Not now." }), { status: %[4]d, headers: { "Content-Type": "application/problem+json" } });
		};
	})()`, method, path, code, status)))
}

// settles gives the page time to process the last response: it waits for responses to some other requests.
func (p *tab) settles() {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](`(async () => { for (let i = 0; i < 5; i++) await (await fetch("/healthz")).text(); })()`,
		chromedp.EvalAwaitPromise))
}

// proxyTo forwards requests to a server with their original host.
func proxyTo(t *testing.T, server string) *httputil.ReverseProxy {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
	}}
}

// upgraded is a proxy in front of a server. After newer is set, the page has another script. A part of the old page,
// whose name begins with gone, is missing until the new page was requested.
func upgraded(t *testing.T, server, gone string) (at string, newer *atomic.Bool) {
	t.Helper()
	const script = "/assets/index-"
	newer = new(atomic.Bool)
	var seen atomic.Bool
	proxy := proxyTo(t, server)
	proxy.ModifyResponse = func(res *http.Response) error {
		if !newer.Load() || res.Request.URL.Path != "/" {
			return nil
		}
		page, err := io.ReadAll(res.Body)
		if err != nil {
			return err
		}
		before, after, _ := bytes.Cut(page, []byte(script))
		_, rest, _ := bytes.Cut(after, []byte(".js"))
		name := string(after[:len(after)-len(rest)])
		page = bytes.Join([][]byte{before, []byte(script + "newer-" + name), rest}, nil)
		res.Body = io.NopCloser(bytes.NewReader(page))
		res.ContentLength = int64(len(page))
		res.Header.Set("Content-Length", strconv.Itoa(len(page)))
		return nil
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			r.Header.Del("If-None-Match")
			r.Header.Del("Accept-Encoding")
		}
		if name, ok := strings.CutPrefix(r.URL.Path, script+"newer-"); ok {
			r.URL.Path = script + name
			seen.Store(true)
		}
		if strings.HasPrefix(r.URL.Path, "/assets/"+gone) && newer.Load() && !seen.Load() {
			http.NotFound(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return front.URL, newer
}

// failsOnce is a proxy in front of a server. Its first response for an asset whose name begins with name is a script
// that fails.
func failsOnce(t *testing.T, server, name string) string {
	t.Helper()
	var failed atomic.Bool
	proxy := proxyTo(t, server)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/assets/"+name) && failed.CompareAndSwap(false, true) {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = io.WriteString(w, `throw new Error("a part of it did not come")`)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	return front.URL
}

// Bob uses one browser in several tabs, each with a request in flight. He logs out in another tab, and Carol logs in
// there. The requests do not run in her name, and do not log her out. She sees the pictures of her own chats.
func TestWhatOneUserWantedIsNotDoneInTheNameOfTheNext(t *testing.T) {
	t.Parallel()
	ada, bob, line := twoFriends(t, "--limits=false")
	shown := func(shape string) string {
		return `((img) => img?.naturalWidth > 0 && ` + shape + `)(document.querySelector("img.shot"))`
	}
	ada.chooses(".writing input[type=file]", drawing(t, 900, 600))
	bob.until("Bob's picture", shown(`img.naturalWidth > img.naturalHeight`))
	friend := bob.location()

	opens := func() *tab {
		n := bob.open(line.url() + "/")
		n.says("[data-streak]", "0")
		return n
	}
	retries := opens() // its second try is late, because the token of the first one was refused
	retries.holdsBack("POST", "/v1/checkin")
	retries.refusesOnce("POST", "/v1/checkin", http.StatusUnauthorized, "auth.token_invalid")
	retries.click("#checkin")
	retries.until("the second try", "window.send")
	checks := opens()
	checks.holdsBack("POST", "/v1/checkin")
	checks.click("#checkin")
	checks.until("the request", "window.send")
	leaves, other := opens(), opens()
	leaves.holdsBack("POST", "/v1/auth/logout")
	leaves.button("Log out")
	leaves.until("the request", "window.send")
	file := filepath.Join(t.TempDir(), "plan.txt")
	if err := os.WriteFile(file, []byte("We begin at eight."), 0o600); err != nil {
		t.Fatal(err)
	}
	bob.holdsBack("POST", "/v1/transfers")
	bob.chooses(".writing input[type=file]", file)
	bob.until("the request", "window.send")

	other.button("Log out")
	other.signUp("carol@example.com", "Carol", "staple battery")
	for name, p := range map[string]*tab{"a check-in": checks, "its second try": retries, "a file": bob, "a log-out": leaves} {
		p.do(chromedp.Evaluate[chromedp.Void](`send()`))
		p.until("the answer to "+name, "statuses.length > 0")
		p.settles()
		if got := evaluated[string](p, "statuses.join()"); got != "401" && p != leaves {
			t.Errorf("%s of Bob was answered with %s, want 401 and no second try", name, got)
		}
		if !evaluated[bool](p, `localStorage.getItem("stoa.session") !== null`) {
			t.Errorf("Carol was logged out by %s of Bob", name)
		}
	}
	other.says(".home h1", "Carol")
	other.says("[data-streak]", "0")
	ada.lacks(".stored")

	ada.befriends(other)
	ada.visit("#/chats/" + other.id())
	ada.says(".room-who h2", "Carol")
	ada.chooses(".writing input[type=file]", drawing(t, 600, 900))
	bob.visit(friend[strings.Index(friend, "#"):])
	bob.until("a picture", shown("true"))
	bob.until("Carol's picture", shown(`img.naturalWidth < img.naturalHeight`))
}

// The page is from before an upgrade, a part of it fails once, or the server is away. In each case the page shows that,
// and is whole again later.
func TestThePageComesBackAfterUpgradesAndFailures(t *testing.T) {
	t.Parallel()
	url := serve(t, "--limits=false")
	at, newer := upgraded(t, url, "notices-")
	p := browse(t, at+"/")
	p.signUp("ada@example.com", "Ada", "correct horse")
	p.says(".live", "Live")
	newer.Store(true)
	p.visit("#/notices")
	p.button("Try again")
	p.says("main h1", "Notices")
	enters := func(at string) *tab {
		n := p.stranger(at + "/")
		n.until("the form to sign up", `document.querySelector("[name=email]") !== null`)
		return n
	}

	// The part of the page that connects is missing.
	at, newer = upgraded(t, url, "live-")
	connects := enters(at)
	newer.Store(true)
	connects.logInBy("ada@example.com", "correct horse")
	connects.says(".live", "Live")

	// A browser does not request a module again that has failed once. Older browsers do not even retry a module that
	// failed to load.
	connects = enters(failsOnce(t, url, "live-"))
	connects.logInBy("ada@example.com", "correct horse")
	connects.says(".live", "Live")
	reads := enters(failsOnce(t, url, "notices-"))
	reads.logInBy("ada@example.com", "correct horse")
	reads.says("nav", "Log out")
	reads.visit("#/notices")
	reads.button("Try again")
	reads.says("main h1", "Notices")

	// A browser that stores nothing for the page.
	at, newer = upgraded(t, url, "view-")
	bare := p.keepsNothing(at + "/")
	bare.button("中文")
	bare.until("the page in Chinese", `document.documentElement.lang === "zh-CN"`)
	bare.button("English")
	bare.until("the page in English", `document.documentElement.lang === "en-GB"`)
	bare.says(".pitch h1", "A social backend")
	newer.Store(true)
	bare.visit("#/rooms")
	bare.button("Try again")
	bare.until("the newer page", `document.querySelector("script[type=module]")?.src.includes("/assets/index-newer-")`)
	bare.signUp("bob@example.com", "Bob", "battery staple")
	bare.visit("#/chats")
	bare.until("the chats", `document.querySelector(".chats") !== null`)

	// The server is away, and the user can retry.
	p = enters(url)
	p.logInBy("ada@example.com", "correct horse")
	p.says(".live", "Live")
	green := evaluated[string](p, `getComputedStyle(document.querySelector(".live"), "::before").backgroundColor`)
	p.do(chromedp.Evaluate[chromedp.Void](`(() => {
		window.reach = fetch;
		window.fetch = () => Promise.reject(new TypeError("away"));
		window.dispatchEvent(new HashChangeEvent("hashchange"));
	})()`))
	p.says("#checkin", "No answer")
	p.says(".left", "cannot be reached")
	p.visit("#/friends")
	p.says("[aria-labelledby=list-title]", "Your friends could not be read")
	p.do(chromedp.Evaluate[chromedp.Void]("void (window.fetch = window.reach)"))
	p.button("Try again")
	p.says("[aria-labelledby=list-title]", "Nobody yet")

	// The dot is green only while the stream is open.
	p.do(chromedp.Evaluate[chromedp.Void](`void (document.querySelector(".live").dataset.state = "connecting")`))
	p.until("another colour", fmt.Sprintf(`getComputedStyle(document.querySelector(".live"), "::before").backgroundColor !== %q`, green))
}
