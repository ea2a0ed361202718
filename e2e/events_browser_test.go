package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// Readers copy the example of docs/events.md.
func TestTheExampleForBrowsersHearsEvents(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```js\n(.*?)```").FindSubmatch(text)
	if found == nil {
		t.Fatal("docs/events.md has no example")
	}
	url := serve(t)
	p := browse(t, url+"/")
	p.signUp("ada@example.com", "Ada", "correct horse")
	p.says("[data-streak]", "0")
	p.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(() => {
		%s
		const { access } = JSON.parse(localStorage.getItem("stoa.session"));
		window.heard = [];
		listen(%q, access, (e) => heard.push(e), new AbortController().signal);
		listen(%q, "nobody", () => {}, undefined).catch((err) => (window.refused = err.message));
	})()`, found[1], url, url)))
	p.until("a refusal with a code", `window.refused === "auth.token_invalid"`)
	// An event may be lost before the stream is open. A repeated check-in would publish no event, so the test changes the
	// name.
	p.until("an event with its data", `(heard.length > 0 && heard[0].type === "account.updated" && heard[0].data.name.startsWith("Ada") && !("id" in heard[0])) ||
		void fetch("/v1/me", {
			method: "PATCH",
			headers: { "Content-Type": "application/json", Authorization: "Bearer " + JSON.parse(localStorage.getItem("stoa.session")).access },
			body: JSON.stringify({ name: "Ada " + performance.now().toFixed() }),
		})`)
}

// The page requests a user's status. The user checks in on another device before the response.
func TestAnOlderAnswerDoesNotTakeACheckInBack(t *testing.T) {
	t.Parallel()
	p := browse(t, serve(t)+"/")
	p.signUp("ada@example.com", "Ada", "correct horse")
	p.says("[data-streak]", "0")
	p.do(chromedp.Evaluate[chromedp.Void](slowsAnswers))
	p.do(chromedp.Evaluate[chromedp.Void](`window.late = undefined; slow = "/v1/checkin"`))
	p.until("an answer that is late", `late || void document.dispatchEvent(new Event("visibilitychange"))`)
	p.ask("POST", "/v1/checkin", "{}")
	p.says("[data-streak]", "1")
	p.do(chromedp.Evaluate[chromedp.Void](`late()`))
	for range 3 {
		p.ask("GET", "/v1/checkin", "")
	}
	if streak := p.text("[data-streak]"); streak != "1" {
		t.Errorf("the page shows a streak of %s, want 1", streak)
	}
}

// The page requests the number of pending requests, and another request arrives before the response.
func TestAnOlderAnswerDoesNotHideARequest(t *testing.T) {
	t.Parallel()
	url := serve(t, "--limits=false") + "/"
	ada := browse(t, url)
	ada.signUp("ada@example.com", "Ada", "correct horse")
	bob := ada.stranger(url)
	bob.signUp("bob@example.com", "Bob", "battery staple")
	ada.says(".live", "Live")
	ada.do(chromedp.Evaluate[chromedp.Void](slowsAnswers))
	ada.do(chromedp.Evaluate[chromedp.Void](`window.late = undefined; slow = "/requests/unread"`))
	ada.until("an answer that is late", `late || void document.dispatchEvent(new Event("visibilitychange"))`)
	bob.ask("POST", "/v1/friends/requests", fmt.Sprintf(`{"user":%q}`, ada.id()))
	ada.says("[data-unread]", "1")
	ada.do(chromedp.Evaluate[chromedp.Void](`late()`))
	for range 3 {
		ada.ask("GET", "/v1/friends/requests/unread", "")
	}
	if n := ada.text("[data-unread]"); !strings.HasPrefix(n, "1") {
		t.Errorf("the page says of requests that wait %q, want 1", n)
	}
}

// Ada's check-in is in flight when she logs out in another tab, and Bob logs in there.
func TestWhatOneUserWantedIsNotDoneInTheNameOfTheNext(t *testing.T) {
	t.Parallel()
	p, other := adaInTwoTabs(t)
	p.holdsBack("POST", "/v1/checkin")
	p.click("#checkin")
	p.until("the request", "window.send")
	p.sendsAfterBobLoggedIn(other)
	for range 3 {
		p.ask("GET", "/v1/checkin", "")
	}
	if got := evaluated[string](p, "statuses.join()"); got != "401" {
		t.Errorf("what Ada wanted was answered with %s, want 401 and no second try", got)
	}
	other.says("[data-streak]", "0")
}
