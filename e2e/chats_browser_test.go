package e2e

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A line is a proxy between a browser and a server. It can be cut.
type line struct {
	to    string
	ln    net.Listener
	mu    sync.Mutex
	down  bool
	left  int // number of bytes until the cut; 0 means no cut
	conns map[net.Conn]bool
}

// lineTo returns a line to the server at url; the browser uses the line's own URL.
func lineTo(t *testing.T, url string) *line {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{to: strings.TrimPrefix(url, "http://"), ln: ln, conns: map[net.Conn]bool{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { l.pass(near) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		l.cut()
		serving.Wait()
	})
	return l
}

func (l *line) url() string { return "http://" + l.ln.Addr().String() }

// hold registers a connection that can be cut. While the line is cut, it closes the connection and returns false.
func (l *line) hold(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		c.Close()
		return false
	}
	l.conns[c] = true
	return true
}

func (l *line) release(c net.Conn) {
	c.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

func (l *line) pass(near net.Conn) {
	if !l.hold(near) {
		return
	}
	defer l.release(near)
	far, err := net.Dial("tcp", l.to)
	if err != nil || !l.hold(far) {
		return
	}
	defer l.release(far)
	var there sync.WaitGroup
	there.Go(func() {
		_, _ = io.Copy(far, metered{near, l})
		far.Close()
	})
	_, _ = io.Copy(near, far)
	near.Close()
	there.Wait()
}

// metered counts the bytes from the browser.
type metered struct {
	net.Conn
	line *line
}

func (c metered) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.line.count(n)
	return n, err
}

func (l *line) count(n int) {
	l.mu.Lock()
	over := l.left > 0 && n >= l.left
	l.left = max(0, l.left-n)
	l.mu.Unlock()
	if over {
		l.cut()
	}
}

// cutAfter cuts the line after so many more bytes from the browser.
func (l *line) cutAfter(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = n
}

// cut closes the connections of the line, and refuses new ones until mend.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for c := range l.conns {
		c.Close()
	}
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = false
}

// ask calls the server as the user who is logged in on the page.
func (p *tab) ask(method, path, body string) {
	p.t.Helper()
	status, err := chromedp.Run(p.ctx, chromedp.Evaluate[int](fmt.Sprintf(`fetch(%q, {
		method: %q, body: %q || undefined,
		headers: { "Content-Type": "application/json", Authorization: "Bearer " + JSON.parse(localStorage.getItem("stoa.session")).access },
	}).then((res) => res.status)`, path, method, body), chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatal(err)
	}
	if status >= 300 {
		p.t.Fatalf("%s %s: status %d", method, path, status)
	}
}

// id returns the id of the user who is logged in on the page.
func (p *tab) id() string {
	p.t.Helper()
	id, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](`JSON.parse(localStorage.getItem("stoa.session")).user.id`))
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

// befriends makes two users friends: each sends a request to the other.
func (p *tab) befriends(other *tab) {
	p.t.Helper()
	p.ask("POST", "/v1/friends/requests", fmt.Sprintf(`{"user":%q}`, other.id()))
	other.ask("POST", "/v1/friends/requests", fmt.Sprintf(`{"user":%q}`, p.id()))
}

// twoFriends returns the tabs of Ada and Bob, who have an open chat with each other. Bob's browser reaches the server
// through a line.
func twoFriends(t *testing.T, args ...string) (ada, bob *tab, l *line) {
	t.Helper()
	url := serve(t, args...)
	l = lineTo(t, url)
	ada = browse(t, url+"/")
	ada.signUp("ada@example.com", "Ada", "correct horse")
	bob = ada.stranger(l.url() + "/")
	bob.signUp("bob@example.com", "Bob", "battery staple")
	ada.befriends(bob)
	ada.visit("#/chats/" + bob.id())
	bob.visit("#/chats/" + ada.id())
	ada.says(".room-who h2", "Bob")
	bob.says(".room-who h2", "Ada")
	return ada, bob, l
}

// write sends a message through the field and the Enter key.
func (p *tab) write(text string) {
	p.t.Helper()
	p.typ("[name=message]", text)
	p.enter()
}

// enter presses the Enter key as a keyboard does: if the page prevents the key, no new line is added. p.key adds the
// line itself.
func (p *tab) enter() {
	p.t.Helper()
	press := input.DispatchKeyEventParams{Type: kb.KeyDown, Key: "Enter", Code: "Enter", WindowsVirtualKeyCode: 13, Text: "\r"}
	for _, press.Type = range []input.DispatchKeyEventType{kb.KeyDown, kb.KeyUp} {
		if _, err := chromedp.Call(p.ctx, input.DispatchKeyEvent, press); err != nil {
			p.t.Fatal(err)
		}
	}
}

// said is JavaScript that returns the texts of the messages in the open chat.
const said = `[...document.querySelectorAll(".message")].map((m) => m.querySelector(".said")?.textContent ?? "")`

// hears waits until the open chat has exactly these messages, in this order.
func (p *tab) hears(texts ...string) {
	p.t.Helper()
	want := "[]"
	if len(texts) > 0 {
		want = fmt.Sprintf("[%q]", texts[0])
		for _, s := range texts[1:] {
			want = strings.TrimSuffix(want, "]") + fmt.Sprintf(", %q]", s)
		}
	}
	p.until("the messages "+want, fmt.Sprintf("JSON.stringify(%s) === JSON.stringify(%s)", said, want))
}

// ticks waits for the delivery state of the message with a number.
func (p *tab) ticks(seq int, want string) {
	p.t.Helper()
	p.until(want, fmt.Sprintf(`document.querySelector('[data-seq="%d"]')?.dataset.tick === %q`, seq, want))
}

// does opens the menu of a message and presses the named entries.
func (p *tab) does(seq int, names ...string) {
	p.t.Helper()
	p.until("the message", fmt.Sprintf(`document.querySelector('[data-seq="%d"] .more') !== null`, seq))
	p.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector('[data-seq="%d"] .more').click()`, seq)))
	for _, name := range names {
		p.button(name)
	}
}

func TestTwoFriendsChatInTheBrowser(t *testing.T) {
	t.Parallel()
	ada, bob, _ := twoFriends(t)
	ada.says(".room .empty", "Nothing has been written yet")
	bob.visit("#/")
	bob.says("nav", "Chats")
	ada.write("Hello Bob")
	ada.hears("Hello Bob")
	ada.ticks(1, "delivered")

	// The message is received wherever Bob is, and read when he opens the chat.
	bob.says("[data-unread-chats]", "1")
	bob.until("the title", `document.title.startsWith("(1) ")`)
	bob.visit("#/chats")
	bob.says(".chat-line", "Hello Bob")
	bob.says("[data-unread-chat]", "1")
	bob.click(".chat-row")
	bob.hears("Hello Bob")
	bob.says(".newline", "New messages")
	bob.says(".day", "Today")
	bob.on("Write a message")
	ada.ticks(1, "read")
	bob.lacks("[data-unread-chats]")
	bob.until("the title without a number", `!document.title.startsWith("(")`)

	// Presence and typing.
	ada.says(".room-who .muted", "on line")
	ada.visit("#/chats")
	ada.lacks(".room-who")
	ada.visit("#/chats/" + bob.id())
	ada.says(".room-who .muted", "on line")
	bob.typ("[name=message]", "Hi")
	ada.says(".room-who .typing", "is writing")
	ada.says(".chat-row.typing .chat-line", "is writing")
	bob.enter()
	ada.hears("Hello Bob", "Hi")
	ada.lacks(".typing")
	bob.ticks(2, "read")

	// A reply links to the message it answers.
	ada.does(2, "Reply")
	ada.on("Write a message")
	ada.says(".answering", "Reply to Bob")
	ada.write("How are you?")
	bob.hears("Hello Bob", "Hi", "How are you?")
	bob.says(`[data-seq="3"] .quoted`, "Hi")
	bob.click(`[data-seq="3"] .quoted`)
	bob.until("the quoted message", `document.activeElement.dataset.seq === "2"`)

	// An edit, cancelled with Escape first; reactions; a recall.
	ada.does(3, "Edit")
	ada.until("the text to edit", `document.querySelector("[name=message]").value === "How are you?"`)
	ada.key(kb.Escape)
	ada.until("an empty field", `document.querySelector("[name=message]").value === ""`)
	ada.does(3, "Edit")
	ada.fill("[name=message]", "How are you today?")
	ada.do(chromedp.Focus(chromedp.CSS("[name=message]")))
	ada.enter()
	bob.hears("Hello Bob", "Hi", "How are you today?")
	bob.says(`[data-seq="3"] .meta`, "edited")
	bob.does(3, "React with 👍")
	ada.says(`[data-seq="3"] .reaction`, "👍")
	ada.click(`[data-seq="3"] .reaction`)
	bob.says(`[data-seq="3"] .reaction`, "👍2")
	bob.does(3, "Take 👍 back")
	ada.until("one reaction", `document.querySelector('[data-seq="3"] .reaction').textContent === "👍"`)
	ada.does(1, "Recall for everybody", "Yes, recall it")
	bob.hears("This message was recalled.", "Hi", "How are you today?")
	bob.does(2, "Delete for me", "Yes, delete it for me")
	bob.hears("This message was recalled.", "How are you today?")
	bob.says(`[data-seq="3"] .quoted`, "no longer exists")
	ada.hears("This message was recalled.", "Hi", "How are you today?")

	// The page shows a message as text, even if it contains markup.
	const markup = `<img src=x onerror="document.title='owned'"><b>bold</b> https://example.com/?q=<i>`
	bob.write(markup)
	ada.hears("This message was recalled.", "Hi", "How are you today?", markup)
	ada.until("a link and no markup", `document.querySelector('.messages :is(img, b, i)') === null && document.querySelector('[data-seq="4"] a').href === "https://example.com/?q="`)
	ada.says(".chat-line", "<img src=x")
	ada.until("no markup in the list", `document.querySelector('.chat-list :is(b, i)') === null`)

	// The page shows a picture of this server. It loads a picture of another server only after a click.
	bob.button("Options of this chat")
	bob.button("Send a picture by its address")
	bob.typ("[name=url]", "https://pictures.example.com/harbour.jpg")
	bob.typ("[name=alt]", "The harbour at dusk")
	bob.enter()
	ada.says(`[data-seq="5"] .attached`, "The harbour at dusk")
	ada.says(`[data-seq="5"] .attached`, "pictures.example.com")
	ada.until("a link that tells nothing", `(({ rel, target }) => rel === "noopener noreferrer" && target === "_blank")(document.querySelector('[data-seq="5"] a'))`)

	// Settings: pinned, muted; the other device gets the draft.
	ada.button("Options of this chat")
	ada.button("Pin")
	ada.says(".chat-row", "pinned")
	ada.button("Options of this chat")
	ada.button("Mute")
	ada.says(".chat-row", "muted")
	ada.visit("#/")
	bob.write("Are you there?")
	phone := ada.open(strings.SplitN(ada.location(), "#", 2)[0] + "#/chats")
	phone.says("[data-unread-chat]", "1")
	phone.lacks("[data-unread-chats]") // the chat is muted
	phone.press(".chat-row")
	phone.says(".newline", "New messages")
	phone.typ("[name=message]", "Half a thou")
	phone.visit("#/chats")
	phone.says(".chat-row .draft", "Draft")
	ada.visit("#/chats")
	ada.says(".chat-row", "Half a thou")

	// A user who no longer accepts messages gets none, and the sender sees that.
	ada.visit("#/profile")
	ada.until("the settings", `document.querySelector("[name=messages_from]")?.disabled === false`)
	ada.do(chromedp.Evaluate[chromedp.Void](`(() => {
		const from = document.querySelector("[name=messages_from]");
		from.value = "nobody";
		from.dispatchEvent(new Event("change"));
	})()`))
	ada.says("[data-part=chats] .saved", "Saved")

	// The same holds for her status while she is connected.
	ada.until("the status", `document.querySelector("[name=wish]")?.disabled === false`)
	ada.do(chromedp.Evaluate[chromedp.Void](`(() => {
		const wish = document.querySelector("[name=wish]");
		wish.value = "busy";
		wish.dispatchEvent(new Event("change"));
	})()`))
	bob.says(".room-who .muted", "busy")
	bob.write("Hello?")
	bob.says(".failure", "They take no messages from you.")
	bob.button("Discard")
	bob.lacks(".failure")
	ada.visit("#/chats/" + bob.id())
	ada.button("Options of this chat")
	ada.button("Clear the chat")
	ada.button("Yes, delete all of it for me")
	ada.hears()
}

// location returns the address of the page.
func (p *tab) location() string {
	p.t.Helper()
	at, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("location.href"))
	if err != nil {
		p.t.Fatal(err)
	}
	return at
}

// drafts waits until the server has this draft of the user's chat with another user; "" means no draft.
func (p *tab) drafts(with *tab, want string) {
	p.t.Helper()
	p.until("the draft "+want, fmt.Sprintf(`window.draft === %q || void (window.asks ??= setInterval(() => {
		const headers = { Authorization: "Bearer " + JSON.parse(localStorage.getItem("stoa.session")).access };
		fetch("/v1/chats/u:%s", { headers }).then((res) => res.json()).then((chat) => (window.draft = chat.draft ?? ""), () => {});
	}, 100))`, want, with.id()))
}

// While a line is cut, both users continue to write. Afterwards both have all messages once, in the same order.
func TestAChatIsWholeAfterABrokenLineInTheBrowser(t *testing.T) {
	t.Parallel()
	ada, bob, l := twoFriends(t)
	second := bob.open(bob.location()) // a second tab of Bob's
	ada.write("one")
	for _, p := range []*tab{ada, bob, second} {
		p.hears("one")
	}
	for range 2 {
		l.cut()
		bob.says(".room-note", "There is no connection")
		second.says(".room-note", "There is no connection")
		n := len(bob.messages())
		for i := range 3 {
			ada.write(fmt.Sprintf("from Ada %d.%d", n, i))
			bob.write(fmt.Sprintf("from Bob %d.%d", n, i))
		}
		second.write(fmt.Sprintf("from the second %d", n))
		bob.until("what waits", `document.querySelectorAll(".message.sending").length === 4`)
		second.until("what waits", `document.querySelectorAll(".message.sending").length === 4`)
		ada.until("what was sent", fmt.Sprintf(`document.querySelectorAll(".message").length === %d`, n+3))
		l.mend()
		ada.until("all of it", fmt.Sprintf(`document.querySelectorAll(".message").length === %d`, n+7))
		all := ada.messages()
		for _, p := range []*tab{bob, second} {
			p.lacks(".room-note")
			p.hears(all...)
			p.lacks(".message.sending")
		}
		for _, who := range []string{"from Ada", "from Bob"} {
			var own []string
			for _, s := range all {
				if strings.HasPrefix(s, fmt.Sprintf("%s %d", who, n)) {
					own = append(own, s)
				}
			}
			if got, want := strings.Join(own, ", "), fmt.Sprintf("%[1]s %[2]d.0, %[1]s %[2]d.1, %[1]s %[2]d.2", who, n); got != want {
				t.Errorf("the messages %s are %q, want %q", who, got, want)
			}
		}
	}

	// A group that is opened without a line is whole later: its pinned message and its members appear.
	group := ada.group("Rowing", bob)
	ada.ask("POST", "/v1/chats/g:"+group+"/messages", `{"client_id":"a","kind":"text","text":"At eight."}`)
	ada.ask("PUT", "/v1/chats/g:"+group+"/pins/2", "")
	second.says(".chats-side", "Rowing")
	l.cut()
	second.visit("#/chats/g:" + group)
	second.until("the end of the first questions", `document.querySelector(".room .empty")?.checkVisibility()`)
	l.mend()
	second.says(".strip.pins", "At eight.")
	second.typ("[name=message]", "@")
	// The list appears when the user types, and the members may be loaded later.
	second.until("Ada among the members", `document.querySelector("[name=message]").dispatchEvent(new Event("input")) &&
		document.querySelector(".mention-list").textContent.includes("Ada")`)
	second.do(chromedp.Navigate("about:blank"))

	// A message that waits survives the end of the page, and ends its stored draft.
	bob.typ("[name=message]", "from a page that was closed")
	bob.drafts(ada, "from a page that was closed")
	l.cut()
	bob.says(".room-note", "There is no connection")
	bob.enter()
	bob.until("what waits", `document.querySelectorAll(".message.sending").length === 1`)
	bob.do(chromedp.Navigate("about:blank"))
	l.mend()
	bob.do(chromedp.Navigate(l.url() + "/#/chats"))
	ada.until("the message", `document.querySelector(".message:last-of-type .said").textContent === "from a page that was closed"`)
	bob.drafts(ada, "")
	bob.visit("#/chats/" + ada.id())
	bob.hears(ada.messages()...)
	bob.until("an empty field", `document.querySelector("[name=message]").value === ""`)
}

// messages returns the texts of the messages in the open chat.
func (p *tab) messages() []string {
	p.t.Helper()
	all, err := chromedp.Run(p.ctx, chromedp.Evaluate[[]string](said))
	if err != nil {
		p.t.Fatal(err)
	}
	return all
}
