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

	"github.com/chromedp/cdproto/network"
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

// adaInTwoTabs returns two tabs of a browser after Ada has registered.
func adaInTwoTabs(t *testing.T) (p, other *tab) {
	p = browse(t, serve(t, "--limits=false")+"/")
	p.signUp("ada@example.com", "Ada", "correct horse")
	p.says("[data-streak]", "0")
	other = p.open(p.location())
	other.says("[data-streak]", "0")
	return p, other
}

// sendsAfterBobLoggedIn sends Ada's request that [tab.holdsBack] delays after Bob has logged in.
func (p *tab) sendsAfterBobLoggedIn(other *tab) {
	p.t.Helper()
	other.button("Log out")
	other.signUp("bob@example.com", "Bob", "battery staple")
	p.says(".home h1", "Bob")
	p.do(chromedp.Evaluate[chromedp.Void](`send()`))
	p.until("the answer", "statuses.length > 0")
}

// leavesBobLoggedIn is sendsAfterBobLoggedIn for a request whose response must not affect Bob.
func (p *tab) leavesBobLoggedIn(other *tab) {
	p.t.Helper()
	p.sendsAfterBobLoggedIn(other)
	p.settles()
	if !evaluated[bool](p, `localStorage.getItem("stoa.session") !== null`) {
		p.t.Error("Bob was logged out by what Ada did")
	}
	other.says(".home h1", "Bob")
}

// settles gives the page time to process the last response: it waits for responses to some other requests.
func (p *tab) settles() {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](`(async () => { for (let i = 0; i < 5; i++) await (await fetch("/healthz")).text(); })()`,
		chromedp.EvalAwaitPromise))
}

// Ada logs out over a slow connection, and again in another tab. Bob logs in there before the first try gets a
// response.
func TestALogOutThatIsLateLeavesTheNextUserLoggedIn(t *testing.T) {
	t.Parallel()
	p, other := adaInTwoTabs(t)
	p.holdsBack("POST", "/v1/auth/logout")
	p.button("Log out")
	p.until("the request", "window.send")
	p.leavesBobLoggedIn(other)
}

// Ada checks in over a slow connection. In another tab she logs out, and Bob logs in, before her second try is refused.
func TestARequestThatIsLateLeavesTheNextUserLoggedIn(t *testing.T) {
	t.Parallel()
	p, other := adaInTwoTabs(t)
	p.holdsBack("POST", "/v1/checkin")
	p.refusesOnce("POST", "/v1/checkin", http.StatusUnauthorized, "auth.token_invalid")
	p.click("#checkin")
	p.until("the second try", "window.send")
	p.leavesBobLoggedIn(other)
}

// Ada sends a file over a slow connection. She logs out, and Bob logs in before the server has responded.
func TestAFileOfOneUserIsNotUploadedByTheNext(t *testing.T) {
	t.Parallel()
	ada, bob, _ := twoFriends(t, "--limits=false")
	file := filepath.Join(t.TempDir(), "plan.txt")
	if err := os.WriteFile(file, []byte("We begin at eight."), 0o600); err != nil {
		t.Fatal(err)
	}
	ada.holdsBack("POST", "/v1/transfers")
	ada.chooses(".writing input[type=file]", file)
	ada.until("the request", "window.send")
	ada.button("Log out")
	ada.says(".banner", "logged out")
	ada.signUp("carol@example.com", "Carol", "staple battery")
	ada.do(chromedp.Evaluate[chromedp.Void](`send()`))
	ada.until("the answer", "statuses.length > 0")
	ada.settles()
	if got := evaluated[string](ada, "statuses.join()"); got != "401" {
		t.Errorf("Ada's file was answered with %s, want 401 and no second try", got)
	}
	bob.lacks(".stored")
}

// The token expires in the middle of an upload, while the server cannot be reached.
func TestAFileGoesOnWhoseTokenCouldNotBeRenewedAtOnce(t *testing.T) {
	t.Parallel()
	ada, bob, _ := twoFriends(t, "--limits=false")
	file := filepath.Join(t.TempDir(), "plan.txt")
	if err := os.WriteFile(file, []byte("We begin at eight."), 0o600); err != nil {
		t.Fatal(err)
	}
	ada.do(chromedp.Evaluate[chromedp.Void](`(() => {
		const real = window.fetch;
		window.did = [];
		window.fetch = async (url, init) => {
			const { pathname } = new URL(url, location);
			if (pathname === "/v1/transfers" && did.length === 0) {
				did.push("expired");
				return new Response(JSON.stringify({ code: "auth.token_invalid" }), { status: 401, headers: { "Content-Type": "application/problem+json" } });
			}
			if (pathname === "/v1/auth/refresh" && did.length === 1) {
				did.push("cut");
				throw new TypeError("The line is cut.");
			}
			return real(url, init);
		};
	})()`))
	ada.chooses(".writing input[type=file]", file)
	bob.says(".stored", "plan.txt")
	if got := evaluated[string](ada, "did.join()"); got != "expired,cut" {
		t.Errorf("what happened on the way is %q", got)
	}
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

func TestAPageOfBeforeAnUpgradeIsLoadedAnewForAView(t *testing.T) {
	t.Parallel()
	at, newer := upgraded(t, serve(t), "notices-")
	p := browse(t, at+"/")
	p.signUp("ada@example.com", "Ada", "correct horse")
	p.says(".live", "Live")
	newer.Store(true)
	p.visit("#/notices")
	p.button("Try again")
	p.says("main h1", "Notices")
}

func TestAPageOfBeforeAnUpgradeIsLoadedAnewForTheConnection(t *testing.T) {
	t.Parallel()
	at, newer := upgraded(t, serve(t), "live-")
	p := browse(t, at+"/")
	p.until("the form to sign up", `document.querySelector("[name=email]") !== null`)
	newer.Store(true)
	p.signUp("ada@example.com", "Ada", "correct horse")
	p.says(".live", "Live")
}

func TestAPageOfBeforeAnUpgradeIsLoadedAnewInABrowserThatKeepsNothing(t *testing.T) {
	t.Parallel()
	at, newer := upgraded(t, serve(t), "view-")
	p := keepsNothing(t, at+"/")
	p.says(".pitch h1", "A social backend")
	newer.Store(true)
	p.visit("#/rooms")
	p.button("Try again")
	p.until("the newer page", `document.querySelector("script[type=module]")?.src.includes("/assets/index-newer-")`)
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

// A browser does not request a module again that has failed once. Older browsers do not even retry a module that failed
// to load.
func TestAPartOfThePageThatFailedOnceComes(t *testing.T) {
	t.Parallel()
	p := browse(t, failsOnce(t, serve(t), "live-")+"/")
	p.signUp("ada@example.com", "Ada", "correct horse")
	p.says(".live", "Live")

	other := p.stranger(failsOnce(t, serve(t), "notices-") + "/")
	other.signUp("bob@example.com", "Bob", "battery staple")
	other.visit("#/notices")
	other.button("Try again")
	other.says("main h1", "Notices")
}

// The texts of a language are in a separate file; the page works without it.
func TestAPageWithoutTheTextsOfItsLanguageIsEnglish(t *testing.T) {
	t.Parallel()
	p := browse(t, serve(t)+"/")
	p.says(".pitch h1", "A social backend")
	if _, err := chromedp.Call(p.ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(p.ctx, network.SetBlockedURLs,
		network.SetBlockedURLsParams{URLPatterns: []*network.BlockPattern{{URLPattern: "*://*:*/assets/zh-*", Block: true}}}); err != nil {
		t.Fatal(err)
	}
	p.button("中文")
	p.until("the other language", `localStorage.getItem("stoa.language") === "zh"`)
	p.says(".pitch h1", "A social backend")
}

// The log-out does not reach the server, which would continue to send pushes to the device.
func TestALogOutThatTheServerIsNotToldOfEndsPushes(t *testing.T) {
	t.Parallel()
	p := browse(t, serve(t)+"/")
	p.signUp("ada@example.com", "Ada", "correct horse")
	p.says(".live", "Live")
	p.do(chromedp.Evaluate[chromedp.Void](`(() => {
		Object.defineProperty(navigator, "serviceWorker", { value: { getRegistration: async () => ({ pushManager: { getSubscription: async () => ({ unsubscribe: async () => (window.unsubscribed = true) }) } }) } });
		window.fetch = () => Promise.reject(new TypeError("away"));
	})()`))
	p.button("Log out")
	p.says(".banner", "logged out here")
	p.until("the end of the subscription", `window.unsubscribed === true`)
}
