package e2e

import (
	"fmt"
	"os"
	"regexp"
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
