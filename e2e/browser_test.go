package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stoa-dev/stoa/internal/checkin/streak"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

// tab is one page in a real browser.
type tab struct {
	t   *testing.T
	ctx context.Context
}

// chromium is the browser that all tests of this package share. browse starts it at its first use, and TestMain ends
// it.
var chromium struct {
	once sync.Once
	ctx  context.Context
	stop func()
	err  error
}

// browse opens url in a Chromium with an empty profile.
func browse(t *testing.T, url string) *tab {
	t.Helper()
	chromium.once.Do(func() {
		// The headless shell is Chromium without the parts for a window. A story takes less than half of the processor
		// time.
		path, err := exec.LookPath("chromium-headless-shell")
		if err != nil {
			path, err = exec.LookPath("chromium")
		}
		if err != nil {
			chromium.err = errors.New("neither chromium-headless-shell nor chromium is in PATH; run `make deps`")
			return
		}
		ctx, end := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
			chromedp.ExecPath(path),
			chromedp.WindowSize(1280, 1000),
			chromedp.DisableGPU,
			chromedp.NoSandbox, // the sandbox does not start as root, and many containers run as root
			chromedp.Flag("disable-component-update", true),
			chromedp.Flag("disable-quic", true),
			chromedp.Flag("force-prefers-reduced-motion", true),     // drawing animations takes two fifths of the processor time
			chromedp.Flag("use-fake-device-for-media-stream", true), // a fake microphone that beeps
			chromedp.Flag("use-fake-ui-for-media-stream", true),     // a user who allows it
		)...)
		ctx, stop := chromedp.NewContext(ctx)
		chromium.ctx, chromium.stop = ctx, func() { stop(); end() }
		chromium.err = chromedp.Do(ctx)
	})
	if chromium.err != nil {
		t.Fatal(chromium.err)
	}
	ctx, cancel := context.WithTimeout(chromium.ctx, 10*patience)
	t.Cleanup(cancel)
	return (&tab{t, ctx}).stranger(url)
}

// stranger opens a tab without shared storage, as on another device.
func (p *tab) stranger(url string) *tab {
	p.t.Helper()
	return p.open(url, chromedp.WithNewBrowserContext())
}

// open opens another tab of the same browser. Exceptions of its page, and violations of the content security policy,
// fail the test.
func (p *tab) open(url string, opts ...chromedp.ContextOption) *tab {
	p.t.Helper()
	ctx, stop := chromedp.NewContext(p.ctx, opts...)
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

// click clicks with the mouse as soon as the element is visible. If the page redraws it before its position is known,
// the new element is clicked.
func (p *tab) click(css string) {
	p.t.Helper()
	err := chromedp.Do(p.ctx, chromedp.Click(chromedp.CSS(css)))
	for err != nil && (strings.Contains(err.Error(), "Could not find node") || strings.Contains(err.Error(), "detached")) {
		err = chromedp.Do(p.ctx, chromedp.Click(chromedp.CSS(css)))
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// press is click in one step inside the page, for elements that the page may redraw at that moment.
func (p *tab) press(css string) {
	p.t.Helper()
	p.until("the element "+css, fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		if (!e?.checkVisibility() || e.closest("button[aria-busy=true], form[aria-busy=true]")) return false;
		e.focus();
		e.click();
		return true;
	})()`, css))
}

// typ inserts text at the cursor of a field, all at once: single keys take seconds on a busy machine.
func (p *tab) typ(css, text string) {
	p.t.Helper()
	p.until("the field "+css, fmt.Sprintf(`(() => {
		const field = document.querySelector(%q);
		if (!field?.checkVisibility()) return false;
		field.focus();
		return document.execCommand("insertText", false, %q);
	})()`, css, text))
}

// key sends keys, one after another.
func (p *tab) key(keys string, opts ...chromedp.KeyOption) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(keys, opts...))
}

// called is JavaScript that returns the accessible name of the focused element, as far as the page needs it.
const called = `((e) => e.ariaLabel ?? e.labels?.[0]?.textContent ?? e.textContent)(document.activeElement)`

// tabTo moves with the Tab key to the element with that name.
func (p *tab) tabTo(name string) {
	p.t.Helper()
	for range 60 {
		p.key(kb.Tab)
		at, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](called))
		if err != nil {
			p.t.Fatal(err)
		}
		if at == name {
			return
		}
	}
	p.t.Fatalf("the Tab key does not lead to %q", name)
}

// on waits until the element with that name has the focus.
func (p *tab) on(name string) {
	p.t.Helper()
	p.until("the focus on "+name, fmt.Sprintf("%s === %q", called, name))
}

// text returns the visible text of an element, or "" if the element does not exist.
func (p *tab) text(css string) string {
	p.t.Helper()
	s, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](fmt.Sprintf(`(document.querySelector(%q)?.innerText ?? "").trim()`, css)))
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

// until waits for a JavaScript expression to become true, even if the page is reloaded meanwhile. chromedp.Poll would
// need eval inside the page, and the page's policy forbids it.
func (p *tab) until(what, expression string) {
	p.t.Helper()
	ok, err := chromedp.Run(p.ctx, until(expression))
	for err != nil && strings.Contains(err.Error(), "Inspected target navigated") {
		ok, err = chromedp.Run(p.ctx, until(expression))
	}
	if err != nil {
		p.t.Fatalf("waiting for %s: %v", what, err)
	}
	if !ok {
		p.t.Fatalf("%s did not come; the page says:\n%s", what, p.text("body"))
	}
}

// until reports whether an expression became true in a document with a body before the timeout.
func until(expression string) chromedp.Action[bool] {
	return chromedp.Evaluate[bool](fmt.Sprintf(`new Promise((done) => {
		const end = performance.now() + %d;
		const look = () => {
			if (document.body !== null && (%s)) done(true);
			else if (performance.now() > end) done(false);
			else setTimeout(look, 20);
		};
		look();
	})`, patience.Milliseconds(), expression), chromedp.EvalAwaitPromise)
}

// says waits for an element to contain a text.
func (p *tab) says(css, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf("%q in %s", text, css), fmt.Sprintf(`(document.querySelector(%q)?.textContent ?? "").includes(%q)`, css, text))
}

// signUp registers a user through the page.
func (p *tab) signUp(email, name, password string) {
	p.t.Helper()
	p.typ("[name=email]", email)
	p.click("form .primary")
	p.useCode()
	p.typ("[name=name]", name)
	p.typ("[name=password]", password)
	p.click("form .primary")
	p.says("nav", "Log out")
}

// useCode takes the code from the development outbox.
func (p *tab) useCode() {
	p.t.Helper()
	p.click("[data-use-code]")
	// The page polls for a mail for five seconds, and then waits for the next click.
	p.until("the code from the outbox", `/^[0-9]{6}$/.test(document.querySelector("[name=code]").value) ||
		void ((b) => b && !b.disabled && b.click())(document.querySelector("[data-use-code]"))`)
}

// logInBy logs a user in by password.
func (p *tab) logInBy(email, password string) {
	p.t.Helper()
	p.click("[name=purpose][value=login]")
	p.button("Use my password")
	p.typ("[name=email]", email)
	p.typ("[name=password]", password)
	p.click("form .primary")
}

// button presses the button with that text or label as soon as it is enabled.
func (p *tab) button(name string) {
	p.t.Helper()
	p.until("the button "+name, fmt.Sprintf(`((b) => b && (b.click(), true))(
		[...document.querySelectorAll("button")].find((b) => (b.ariaLabel ?? b.textContent) === %q && b.checkVisibility() && !b.disabled && !b.closest("button[aria-busy=true], form[aria-busy=true]")))`, name))
}

// fill replaces the text of a field.
func (p *tab) fill(css, text string) {
	p.t.Helper()
	p.do(chromedp.SetValue(chromedp.CSS(css), text))
}

// visit follows a link within the page.
func (p *tab) visit(hash string) {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("void (location.hash = %q)", hash)))
}

// lacks waits until no visible element matches.
func (p *tab) lacks(css string) {
	p.t.Helper()
	p.until("the end of "+css, fmt.Sprintf(`![...document.querySelectorAll(%q)].some((e) => e.checkVisibility())`, css))
}

// logIn opens url as a user who already exists in SQL. The tab must show a page of the same server.
func (p *tab) logIn(who *person, zone, url string) {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(
		`localStorage.setItem("stoa.session", JSON.stringify({access: %[1]q, refresh: %[1]q, device: "d", user: {id: %[2]q, name: "", zone: %[3]q, created: "2020-01-01T00:00:00Z"}}))`,
		who.token, who.id, zone)), chromedp.Navigate(url))
}

// slowsAnswers is JavaScript that delays the next response to a GET whose path ends with window.slow, until window.late
// is called.
const slowsAnswers = `(() => {
	const real = window.fetch;
	window.slow = "";
	window.fetch = async (url, init) => {
		const mine = slow !== "" && (init?.method ?? "GET") === "GET" && String(url).split("?")[0].endsWith(slow);
		if (mine) slow = "";
		const res = await real(url, init);
		if (mine) await new Promise((go) => (window.late = go));
		return res;
	};
})()`

func TestAVisitorSignsUpInTheBrowserAndChecksInOnce(t *testing.T) {
	t.Parallel()
	url := serve(t)
	p := browse(t, url+"/")

	// Sign up: a wrong code is refused, and the one from the outbox is accepted.
	p.typ("[name=email]", "ada@example.com")
	p.click("form .primary")
	p.useCode()
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

	other.says("[data-figure=words]", "0")
	other.settles() // all of the page is loaded, also what it loads again after it has connected

	// The other tab has a request in flight, whose response is older than the check-in.
	other.do(chromedp.Evaluate[chromedp.Void](slowsAnswers + `;
		window.late = undefined;
		window.streaks = [];
		slow = "/v1/checkin";
		new MutationObserver(() => streaks.push(document.querySelector("[data-streak]").textContent))
			.observe(document.querySelector("[data-streak]"), { childList: true });
		document.dispatchEvent(new Event("visibilitychange"))`))
	other.until("an answer that is late", "late")
	// A third tab has its first response, and connects after the check-in.
	third := p.open("about:blank")
	third.runs(slowsAnswers + `;
		slow = "/v1/checkin";
		window.away = true;
		(() => {
			const { send } = WebSocket.prototype;
			WebSocket.prototype.send = function (frame) {
				if (away) this.close();
				else send.call(this, frame);
			};
			const real = window.fetch;
			window.fetch = async (url, init) => {
				if (away && String(url).includes("/v1/socket")) throw new TypeError("The line is cut.");
				return real(url, init);
			};
		})()`)
	third.do(chromedp.Navigate(url + "/"))
	third.until("an answer that is late", "window.late")

	// One tap. The server publishes it to the other tab.
	p.typ("[name=words]", "12")
	p.typ("[name=minutes]", "30")
	p.click("#checkin")
	other.says("[data-streak]", "1")
	third.do(chromedp.Evaluate[chromedp.Void](`away = false`))
	third.says(".live", "Live")
	for _, p := range []*tab{other, third} {
		p.do(chromedp.Evaluate[chromedp.Void](`late()`))
		p.settles()
	}
	if got := evaluated[string](other, `streaks.join()`); strings.Contains(got, "0") {
		t.Errorf("an older answer has taken the check-in back: the streak was %s", got)
	}
	for _, p := range []*tab{p, other, third} {
		p.says("[data-streak]", "1")
		p.says("#checkin", "Done today")
		p.until("today in the heat map, checked in", fmt.Sprintf(`(%s).endsWith(": checked in")`, today))
		for _, board := range []string{"streak", "total_days"} {
			p.click(fmt.Sprintf("[data-tab=%s]", board))
			mine := fmt.Sprintf("[data-board=%s] li.mine", board)
			p.says(mine, "Ada Lovelace")
			p.says(mine, "1 day")
		}
		p.says("[data-figure=words]", "12")
		p.says("[data-figure=minutes]", "30 min")
	}

	// A second tap changes nothing, and the page shows that.
	p.click("#checkin")
	p.says(".sentence", "Nothing has changed")
	for css, want := range map[string]string{
		"[data-streak]": "1", "[data-figure=longest]": "1", "[data-figure=total]": "1", "[data-figure=words]": "12",
	} {
		if got := p.text(css); got != want {
			t.Errorf("after the second tap %s says %q, want %q", css, got, want)
		}
	}

	// A reload keeps the session and the check-in.
	p.do(chromedp.Reload())
	p.says("[data-streak]", "1")
	p.says("#checkin", "Done today")
	p.says("[data-figure=total]", "1")

	// Logging out ends the session in the other tab as well. A request of a tab at that moment does not hide the reason
	// for the form.
	for _, p := range []*tab{p, other} {
		p.do(chromedp.Evaluate[chromedp.Void](`(() => {
			const real = fetch;
			window.fetch = (path, init) => !path.includes("/v1/checkin") ? real(path, init) : new Promise((_, fail) => {
				init.signal.addEventListener("abort", () => fail(init.signal.reason));
				document.body.dataset.asking = "";
			});
			Object.defineProperty(document, "visibilityState", { value: "visible" });
		})()`))
		p.until("a question on its way", `"asking" in document.body.dataset || !document.dispatchEvent(new Event("visibilitychange"))`)
	}
	p.click("nav button")
	for _, p := range []*tab{p, other} {
		p.says(".banner", "logged out")
		p.until("the form to sign up", `document.querySelector("[name=email]") !== null`)
	}
}

// keepsNothing opens a page as a browser that blocks all cookies. Such a browser also refuses the page its storage.
func (p *tab) keepsNothing(url string) *tab {
	p.t.Helper()
	n := p.stranger("about:blank")
	n.runs(`
		for (const area of ["localStorage", "sessionStorage", "indexedDB"])
			Object.defineProperty(window, area, { get: () => { throw new DOMException("Access is denied for this document.", "SecurityError"); } });`)
	n.do(chromedp.Navigate(url))
	return n
}

// runs runs a script in each document that the tab opens from now on, before the scripts of the page.
func (p *tab) runs(script string) {
	p.t.Helper()
	params := page.AddScriptToEvaluateOnNewDocumentParams{Source: script}
	if _, err := chromedp.Call(p.ctx, page.AddScriptToEvaluateOnNewDocument, params); err != nil {
		p.t.Fatal(err)
	}
}

// past writes check-ins of a user into SQL. The kind at index i is for the day i days before today.
func past(t *testing.T, db *sqldb.DB, who *person, today time.Time, kinds ...streak.Kind) {
	t.Helper()
	var args []any
	for i, kind := range kinds {
		if day := today.AddDate(0, 0, -i); kind != 0 {
			args = append(args, who.id, day.Unix()/86_400, day.UnixMilli(), uint8(kind), 0, 0, 1)
		}
	}
	insert(t, db, "INSERT INTO checkins (user_id, day, at, kind, words, minutes, req) VALUES ", 7, args)
}

// A history of weeks is written into SQL before the server starts. Later actions use the page.
func TestAMissedDayIsMadeUpInTheBrowserAmongNeighbours(t *testing.T) {
	t.Parallel()
	// A zone without a midnight during the test.
	now, zone := time.Now().UTC(), "UTC"
	if now.Hour() == 23 {
		now, zone = now.Add(6*time.Hour), "Etc/GMT-6"
	}
	today := now.Truncate(24 * time.Hour)
	if today.YearDay() <= 7 {
		t.Skip("the heat map shows one year, and the story reaches into the one before")
	}
	file := "sqlite:" + filepath.Join(t.TempDir(), "stoa.db")
	db := sqldbtest.Open(t, sqldb.Config{URL: file})
	// Fifteen users have 8 to 22 days, and four have 1 to 4; Ada ranks between them.
	persons := enrol(t, db, rand.New(rand.NewPCG(1, 1)), 20)
	if _, err := db.Writer().ExecContext(t.Context(), "DELETE FROM checkins"); err != nil { // they get other histories
		t.Fatal(err)
	}
	if _, err := db.Writer().ExecContext(t.Context(), "UPDATE users SET zone = ?, created = ?", zone,
		today.AddDate(0, 0, -6).UnixMilli()); err != nil {
		t.Fatal(err)
	}
	ada := persons[0]
	past(t, db, ada, today, 0, streak.Tapped, streak.Tapped, streak.Frozen, streak.Tapped, 0, streak.Tapped)
	for i, who := range persons[1:] {
		days := make([]streak.Kind, 1+i+1)
		if i >= 4 {
			days = make([]streak.Kind, 1+i+4)
		}
		for d := range days[1:] {
			days[1+d] = streak.Tapped
		}
		past(t, db, who, today, days...)
	}
	insert(t, db, "INSERT INTO checkin_grants (user_id, at, id, n, reason) VALUES ", 5, []any{ada.id, today.UnixMilli(), nanoid(), 2, "test"})

	url := serve(t, "--sql", file)
	p := browse(t, url+"/healthz")
	p.logIn(ada, zone, url+"/")
	p.says("[data-freezes]", "1")
	p.do(chromedp.Focus(chromedp.CSS(".freezes")))
	p.until("what a freeze is", `getComputedStyle(document.querySelector(".bubble")).visibility === "visible"`)
	p.says(".bubble", "1 streak freeze left, 1 used")
	day := func(i int) string {
		return fmt.Sprintf("td[data-day=%q]", today.AddDate(0, 0, -i).Format(time.DateOnly))
	}
	state := func(p *tab, i int, want string) {
		t.Helper()
		p.until(fmt.Sprintf("%q %d days ago", want, i), fmt.Sprintf(`(document.querySelector(%q)?.getAttribute("aria-label") ?? "").endsWith(%q)`,
			day(i), ": "+want))
	}
	state(p, 1, "checked in, day 3 of a run")
	state(p, 3, "covered, the streak goes on")
	state(p, 5, "missed, can be made up")
	state(p, 7, "missed") // before the account existed
	p.says(".makeups", "3 make-ups left this month.")

	// The dialog asks, and returns the focus.
	missed := today.AddDate(0, 0, -5).Format("2 January")
	p.press(day(5))
	p.says("dialog[open] h2", "Make up "+missed)
	p.says("dialog[open]", "3 left this month")
	p.do(chromedp.KeyEvent(kb.Escape))
	p.until("the focus on the day", fmt.Sprintf(`!document.querySelector("dialog") && document.activeElement.matches(%q)`, day(5)))

	// Another tab was faster: the page shows the server's text.
	p.do(chromedp.KeyEvent(kb.Enter))
	p.says("dialog[open] h2", "Make up "+missed)
	other := p.open(url + "/")
	other.says(".live", "Live")
	other.says("[data-streak]", "3")
	other.until("days to make up", `document.querySelector(".makeups .chip")?.checkVisibility()`)
	other.click(".makeups .chip")
	other.click("dialog .primary")
	for _, p := range []*tab{other, p} {
		p.says(".makeups", "2 make-ups left this month.")
		p.says(".makeups details", "made up just now")
		state(p, 5, "checked in, day 2 of a run")
		state(p, 3, "covered, the streak goes on")
		p.says("[data-streak]", "5")
		p.says("[data-figure=total]", "5")
	}
	p.click("dialog .primary")
	p.says("dialog .form-fault", "already counts")
	p.click("dialog .secondary")
	p.says(".makeups", "2 make-ups left this month.")

	// The neighbours, three on either side, and Ada's first day of this week.
	p.click("#checkin")
	p.says("[data-streak]", "6")
	const ranks = `[...document.querySelectorAll("[data-board=%s] li")].map((li) => li.value || "-").join(" ") === "1 2 3 4 5 6 7 8 9 10 - 13 14 15 16 17 18 19"`
	for _, board := range []string{"streak", "total_days"} {
		p.click(fmt.Sprintf("[data-tab=%s]", board))
		p.until("Ada's neighbours", fmt.Sprintf(ranks, board))
		p.says(fmt.Sprintf("[data-board=%s] li.mine", board), "16UUser "+ada.id)
	}
	p.do(chromedp.KeyEvent(kb.ArrowRight))
	p.says("[data-board=week] li.mine", "User "+ada.id)
	_, week := now.ISOWeek()
	p.says(".seasons", fmt.Sprintf("Week %d,", week))
	p.click(".seasons button:first-child")
	_, week = now.AddDate(0, 0, -7).ISOWeek()
	p.says(".seasons", fmt.Sprintf("Week %d,", week))
	p.click(".seasons button:last-child")
	p.says("[data-board=week] li.mine", "User "+ada.id)
	p.click("[data-tab=month]")
	p.says(".seasons", now.Format("January 2006"))
	p.says("[data-board=month] li.mine", "User "+ada.id)
}
