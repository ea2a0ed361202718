package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// tab is one page in a real browser.
type tab struct {
	t   *testing.T
	ctx context.Context
}

// browse starts a Chromium with an empty profile and opens url in it.
func browse(t *testing.T, url string) *tab {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("chromium is not in PATH; run `make deps`")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.WindowSize(1280, 1000),
		chromedp.DisableGPU,
		chromedp.NoSandbox, // the sandbox does not start as root, which containers often are
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-quic", true),
	)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	ctx, stop := chromedp.NewExecAllocator(ctx, opts...)
	t.Cleanup(stop)
	return (&tab{t, ctx}).open(url)
}

// open opens another tab of the same browser. Whatever its page throws, and
// whatever the content security policy stops, fails the test.
func (p *tab) open(url string) *tab {
	p.t.Helper()
	ctx, stop := chromedp.NewContext(p.ctx)
	n := &tab{p.t, ctx}
	n.do(chromedp.Navigate("about:blank"))
	console := chromedp.Console(ctx)
	var faults []string
	var reading sync.WaitGroup
	reading.Go(func() {
		for m, err := range console {
			if err != nil {
				return
			}
			if m.IsException() || strings.Contains(m.String(), "Content Security Policy") {
				faults = append(faults, m.String())
			}
		}
	})
	p.t.Cleanup(func() {
		stop()
		reading.Wait()
		for _, f := range faults {
			p.t.Errorf("in the browser's console: %s", f)
		}
	})
	n.do(chromedp.Navigate(url))
	return n
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.t.Fatal(err)
	}
}

func (p *tab) click(css string)     { p.t.Helper(); p.do(chromedp.Click(chromedp.CSS(css))) }
func (p *tab) typ(css, text string) { p.t.Helper(); p.do(chromedp.SendKeys(chromedp.CSS(css), text)) }

// text returns what an element says, as a reader sees it, or "" when it is not
// there.
func (p *tab) text(css string) string {
	p.t.Helper()
	s, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](fmt.Sprintf(`(document.querySelector(%q)?.innerText ?? "").trim()`, css)))
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// until waits for a JavaScript expression to become true. chromedp.Poll would
// need eval inside the page, which the page's policy forbids.
func (p *tab) until(what, expression string) {
	p.t.Helper()
	ok, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](fmt.Sprintf(`new Promise((done) => {
		const end = performance.now() + 15000;
		const look = () => {
			if (%s) done(true);
			else if (performance.now() > end) done(false);
			else setTimeout(look, 20);
		};
		look();
	})`, expression), chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("waiting for %s: %v", what, err)
	}
	if !ok {
		p.t.Fatalf("%s did not come; the page says:\n%s", what, p.text("body"))
	}
}

// says waits for an element to contain a text.
func (p *tab) says(css, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("%q in %s", text, css), fmt.Sprintf(`(document.querySelector(%q)?.textContent ?? "").includes(%q)`, css, text))
}

func TestAVisitorSignsUpInTheBrowserAndChecksInOnce(t *testing.T) {
	url := serve(t)
	p := browse(t, url+"/")

	// Sign up: a wrong code is refused, the one from the outbox is not.
	p.typ("[name=email]", "ada@example.com")
	p.click("form .primary")
	p.click("[data-use-code]")
	p.until("the code from the outbox", `/^[0-9]{6}$/.test(document.querySelector("[name=code]").value)`)
	code, err := chromedp.Run(p.ctx, chromedp.Value(chromedp.CSS("[name=code]")))
	if err != nil {
		t.Fatal(err)
	}
	wrong := code[:5] + string('0'+(code[5]-'0'+1)%10)
	p.do(chromedp.SetValue(chromedp.CSS("[name=code]"), wrong))
	p.typ("[name=name]", "Ada Lovelace")
	p.click("form .primary")
	p.says(".form-fault", "code is wrong")
	p.click("[data-use-code]")
	p.until("the code again", fmt.Sprintf(`document.querySelector("[name=code]").value === %q`, code))
	p.click("form .primary")

	// Home, before the first check-in.
	p.says("[data-streak]", "0")
	p.says(".home h1", "Ada Lovelace")
	today := `document.querySelector("td.today")?.getAttribute("aria-label") ?? ""`
	p.until("today in the heat map, open", fmt.Sprintf(`(%s).endsWith(": not yet")`, today))
	other := p.open(url + "/")
	other.says(".live", "Live")
	other.says("[data-streak]", "0")

	// One tap. The other tab is told by the server.
	p.typ("[name=words]", "12")
	p.typ("[name=minutes]", "30")
	p.click("#checkin")
	for _, p := range []*tab{p, other} {
		p.says("[data-streak]", "1")
		p.says("#checkin", "Done today")
		p.until("today in the heat map, checked in", fmt.Sprintf(`(%s).endsWith(": checked in")`, today))
		for _, board := range []string{"streak", "total_days"} {
			mine := fmt.Sprintf("[data-board=%s] li.mine", board)
			p.says(mine, "Ada Lovelace")
			p.says(mine, "1 day")
		}
		p.says("[data-figure=words]", "12")
		p.says("[data-figure=minutes]", "30 min")
	}

	// A second tap changes nothing, and says so.
	p.click("#checkin")
	p.says(".sentence", "Nothing has changed")
	for css, want := range map[string]string{
		"[data-streak]": "1", "[data-figure=longest]": "1", "[data-figure=total]": "1", "[data-figure=words]": "12",
	} {
		if got := p.text(css); got != want {
			t.Errorf("after the second tap %s says %q, want %q", css, got, want)
		}
	}

	// A reload keeps the session and what was done.
	p.do(chromedp.Reload())
	p.says("[data-streak]", "1")
	p.says("#checkin", "Done today")
	p.says("[data-figure=total]", "1")

	// Logging out ends the session in the other tab as well.
	p.click("nav button")
	for _, p := range []*tab{p, other} {
		p.says(".banner", "logged out")
		p.until("the form to sign up", `document.querySelector("[name=email]") !== null`)
	}
}
