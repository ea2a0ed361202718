package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// makesRoom creates a room on the page of rooms, and enters it.
func (p *tab) makesRoom(name string) {
	p.t.Helper()
	p.button("New room")
	p.typ("[name=room_name]", name)
	p.button("Make the room")
	p.says(".watch h1", name)
}

// moves sets the page's preference for motion; the headless shell may have another default.
func (p *tab) moves(how string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: how}}})
	if err != nil {
		p.t.Fatal(err)
	}
}

// shows waits until an expression of v, the video of the open room, is true.
func (p *tab) shows(what, expression string) {
	p.t.Helper()
	p.until(what, fmt.Sprintf(`((v) => v && v.readyState >= 1 && !v.error && (%s))(document.querySelector(".stage video"))`, expression))
}

// opens selects a tab of the open room: "chat", "list" or "people".
func (p *tab) opens(tab string) { p.t.Helper(); p.click("[role=tab][data-tab=" + tab + "]") }

// evaluated returns the value of a JavaScript expression.
func evaluated[T any](p *tab, expression string) T {
	p.t.Helper()
	got, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatal(err)
	}
	return got
}

// A camera is published from a room, and the other members see it until it stops.
func TestACameraIsWatchedLiveInARoom(t *testing.T) {
	t.Parallel()
	ada, bob, _ := twoFriends(t, "--live-udp", "127.0.0.1:0")
	ada.visit("#/rooms")
	ada.makesRoom("On air")
	ada.button("Invite")
	ada.button("Make a link")
	ada.until("the link", `document.querySelector(".group-links .link-text")?.value.includes("/#/watch/")`)
	link := evaluated[string](ada, `document.querySelector(".group-links .link-text").value`)
	ada.button("Close")
	bob.visit(link[strings.Index(link, "#"):])
	bob.button("Come in")
	bob.says(".watch h1", "On air")

	// A member without the right to control publishes. The stream is on the playlist, and a member with the right plays
	// it.
	bob.opens("list")
	bob.button("Go live with the camera")
	bob.says(".items", "Live: Bob")
	bob.says(".items-add", "Stop the camera")
	ada.opens("list")
	ada.says(".items li .badge", "Live")
	ada.do(chromedp.Evaluate[chromedp.Void](`
		const Connection = RTCPeerConnection;
		window.states = [];
		window.RTCPeerConnection = class extends Connection {
			constructor(...args) {
				super(...args);
				this.addEventListener("connectionstatechange", () => window.states.push(this.connectionState));
			}
		};`))
	ada.button("Put on Live: Bob")
	for _, p := range []*tab{ada, bob} {
		p.shows("the pictures of the camera", `!v.paused && v.videoWidth > 0 && v.srcObject.getVideoTracks().length === 1`)
		p.says(".controls .badge", "Live")
		p.until("nothing to seek", `document.querySelector(".seek").checkVisibility() === false`)
	}
	bob.shows("no sound of his own", `v.muted`)
	at := evaluated[float64](ada, `document.querySelector(".stage video").currentTime`)
	ada.shows("pictures that go on", fmt.Sprintf(`v.currentTime > %f + 0.5`, at))
	ada.button("Pause")
	bob.shows("the pause", `v.paused`)
	ada.button("Play")
	bob.shows("that it goes on", `!v.paused`)

	// The publisher's session ends. The viewer detects it from the transport, seconds before the state of the connection
	// changes.
	bob.do(chromedp.Evaluate[chromedp.Void](`(async () => {
		const headers = { Authorization: "Bearer " + JSON.parse(localStorage.getItem("stoa.session")).access };
		const { streams } = await (await fetch("/v1/streams", { headers })).json();
		await fetch("/v1/streams/" + streams[0].id + "/stop", { method: "POST", headers });
	})()`, chromedp.EvalAwaitPromise))
	ada.says(".stage", "Waiting for the live picture.")
	if got := evaluated[string](ada, `window.states.join()`); got != "connecting,connected" {
		t.Errorf("the connection's states until then are %s", got)
	}

	// The camera stops: the item and its stream disappear.
	bob.button("Stop the camera")
	for _, p := range []*tab{ada, bob} {
		p.says(".watch-side", "The playlist is empty.")
		p.until("no pictures", `document.querySelector(".stage video").srcObject === null`)
	}
	bob.says(".items-add", "Go live with the camera")
	ada.button("Add the sample video")
	ada.button("Put on Sample: one minute")
	bob.shows("a video again", `v.videoWidth === 480 && v.srcObject === null && document.querySelector(".seek").checkVisibility()`)
}

// Two users watch a video together in two windows, and a guest joins.
func TestTwoPeopleWatchTogetherInTheBrowser(t *testing.T) {
	t.Parallel()
	ada, bob, _ := twoFriends(t)
	for _, p := range []*tab{ada, bob} {
		p.moves("no-preference")
	}

	// A new room is in no other user's list.
	ada.visit("#/rooms")
	ada.says("[aria-label='My rooms']", "You are in no room")
	ada.button("New room")
	ada.typ("[name=room_name]", "Film night")
	ada.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("dialog [name=guests]").click()`))
	ada.button("Make the room")
	ada.says(".watch h1", "Film night")
	ada.says("[data-viewers]", "1 viewer")
	ada.says(".stage-note", "Nothing is on.")

	// Any user with the link may join.
	ada.button("Invite")
	ada.button("Make a link")
	ada.until("the link", `document.querySelector(".group-links .link-text")?.value.includes("/#/watch/")`)
	link := evaluated[string](ada, `document.querySelector(".group-links .link-text").value`)
	ada.until("a way to copy it", `[...document.querySelectorAll(".group-links button")].some((b) => b.textContent === "Copy" && b.checkVisibility())`)
	ada.button("Close")
	bob.visit(link[strings.Index(link, "#"):])
	bob.says(".door h2", "Film night")
	bob.button("Come in")
	bob.says(".watch h1", "Film night")
	for _, p := range []*tab{ada, bob} {
		p.says("[data-viewers]", "2 viewers")
		p.opens("people")
		p.until("both in the list", `document.querySelectorAll(".watch-side .members li").length === 2`)
		p.says(".watch-side .members li:first-child", "owner")
	}
	bob.until("no verbs for a member", `document.querySelector(".watch-side .members [aria-haspopup=menu]") === null`)

	// A member adds to the playlist, and a member with the right to control plays it.
	bob.opens("list")
	bob.button("Add the sample video")
	ada.opens("list")
	ada.says(".items", "Sample: one minute")
	ada.says(".items", "1:00")
	ada.button("Add the sample video")
	ada.until("two items", `document.querySelectorAll(".items li").length === 2`)
	first := evaluated[string](ada, `document.querySelector(".items li").dataset.item`)
	ada.do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll(".items li")[1].querySelector("[aria-label^='Move'][aria-label$='up']").click()`))
	for _, p := range []*tab{ada, bob} {
		p.until("the other order", fmt.Sprintf(`document.querySelectorAll(".items li")[1]?.dataset.item === %q`, first))
	}
	bob.until("what is not his to choose", `document.querySelector(".controls button").disabled && document.querySelector(".seek").disabled && !document.querySelector(".items [aria-label^='Put']")`)
	// The room repeats it, so that a stall of ten seconds does not end the story.
	ada.button("Settings")
	ada.fill("[name=loop]", "item")
	ada.button("Save")
	ada.lacks("dialog")
	ada.button("Put on Sample: one minute")
	for _, p := range []*tab{ada, bob} {
		p.shows("the video, playing", `!v.paused && v.currentTime > 0 && v.videoWidth === 480 && v.duration === 60`)
		p.says(".items [aria-current=true]", "on now")
	}

	// Both see each action.
	ada.button("Pause")
	bob.shows("the pause", `v.paused`)
	bob.says(".controls", "of 1:00")
	ada.do(chromedp.Evaluate[chromedp.Void](`((s) => { s.value = 7000; s.dispatchEvent(new Event("change")); })(document.querySelector(".seek"))`))
	for _, p := range []*tab{ada, bob} {
		p.shows("the seventh second", `v.paused && !v.seeking && Math.abs(v.currentTime - 7) < 0.01`)
		p.says(".controls .time", "0:07 of 1:00")
	}
	ada.do(chromedp.Evaluate[chromedp.Void](`((s) => { s.value = "0.5"; s.dispatchEvent(new Event("change")); })(document.querySelector(".controls select"))`))
	ada.button("Play")
	bob.shows("half the speed", `!v.paused && Math.abs(v.playbackRate - 0.5) < 0.06`)
	ada.button("Pause")
	for _, p := range []*tab{ada, bob} {
		p.shows("the pause", `v.paused && !v.seeking`)
	}
	at := evaluated[float64](ada, `document.querySelector(".stage video").currentTime`)
	bob.shows("the same moment", fmt.Sprintf(`Math.abs(v.currentTime - %f) < 0.05`, at))

	// Danmaku move in separate lanes, and none is faster than the one before it.
	bob.typ("[name=danmaku]", "What a colour!")
	bob.button("Let it fly")
	for _, p := range []*tab{ada, bob} {
		p.until("the comment, flying", `((e) => e?.textContent === "What a colour!" && e.getAnimations().length === 1)(document.querySelector(".flying"))`)
	}
	// Several at once: none may cover another, even if the first was not drawn for seconds.
	ada.do(chromedp.Evaluate[chromedp.Void](`(() => {
		window.flown = window.covered = 0;
		new MutationObserver((changes) => {
			for (const until = performance.now() + 4000; flown === 0 && performance.now() < until; );
			flown += changes.reduce((n, c) => n + [...c.addedNodes].filter((e) => e.isConnected).length, 0);
			const all = [...document.querySelectorAll(".flying")].map((e) => e.getBoundingClientRect());
			all.forEach((p, i) => all.slice(i + 1).forEach((q) => { if (p.bottom > q.top && q.bottom > p.top && p.right > q.left && q.right > p.left) covered++; }));
		}).observe(document.querySelector(".danmaku"), { childList: true });
	})()`))
	room := bob.location()
	for i := range 4 {
		bob.ask("POST", "/v1/rooms/"+room[strings.LastIndex(room, "/")+1:]+"/danmaku",
			fmt.Sprintf(`{"text":"and again, number %d","color":16777215}`, i))
	}
	ada.until("four more", `flown >= 4`)
	if n := evaluated[int](ada, `covered`); n != 0 {
		t.Errorf("comments that fly have covered another %d times", n)
	}
	ada.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("[name=danmaku_on]").click()`))
	ada.until("none of them", `document.querySelectorAll(".flying").length === 0 && document.querySelector(".danmaku").hidden`)
	bob.do(chromedp.Evaluate[chromedp.Void](`((s) => { s.value = "40"; s.dispatchEvent(new Event("input")); })(document.querySelector("[name=opacity]"))`))
	bob.until("fainter ones", `getComputedStyle(document.querySelector(".danmaku")).opacity === "0.4"`)
	ada.do(chromedp.Reload())
	ada.says(".watch h1", "Film night")
	ada.until("what the device remembers", `!document.querySelector("[name=danmaku_on]").checked && document.querySelector("[name=opacity]").disabled`)
	ada.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("[name=danmaku_on]").click()`))
	ada.shows("the video after a reload", fmt.Sprintf(`v.paused && Math.abs(v.currentTime - %f) < 0.05`, at))

	// For a user who prefers reduced motion, a danmaku does not move.
	ada.moves("reduce")
	bob.typ("[name=danmaku]", "Stand still")
	bob.button("Let it fly")
	ada.until("the comment, standing", `[...document.querySelectorAll(".flying.still")].some((e) => e.textContent === "Stand still")`)
	ada.moves("no-preference")

	// Chat, and a guest who joins by the link.
	ada.typ("[name=say]", "Popcorn?")
	ada.key(kb.Enter)
	bob.opens("chat")
	bob.says(".said-list", "Ada Popcorn?")
	line := lineTo(t, link[:strings.Index(link, "/#")])
	guest := ada.stranger(line.url() + link[strings.Index(link, "/#"):])
	guest.says(".door h2", "Film night")
	guest.typ("[name=guest_name]", "Visitor")
	guest.do(chromedp.Evaluate[chromedp.Void](`((real) => void (Date.now = () => real() + 24 * 3600_000))(Date.now)`)) // fast clock
	guest.button("Come in as a guest")
	guest.says(".watch h1", "Film night")
	guest.says(".said-list", "Popcorn?")
	guest.shows("the same moment", fmt.Sprintf(`v.paused && Math.abs(v.currentTime - %f) < 0.05`, at))
	guest.typ("[name=say]", "Hello from outside")
	guest.key(kb.Enter)
	ada.says(".said-list", "Visitor guest Hello from outside")
	guest.do(chromedp.Reload())
	guest.says(".said-list", "Hello from outside")

	// The owner grants a right, and removes a member.
	ada.opens("people")
	ada.doesTo("Bob", "Let them control the player")
	bob.until("a button for him", `!document.querySelector(".controls button").disabled`)
	bob.button("Play")
	ada.shows("what he has begun", `!v.paused`)
	ada.doesTo("Bob", "Mute for an hour")
	bob.says(".watch-side", "You may not write here.")
	// The guest's line is cut at that moment. When it works again, the page reports the removal.
	line.cut()
	guest.until("the end of the line", `document.querySelector(".watch .offline")?.checkVisibility()`)
	ada.doesTo("Visitor", "Take out of the room", "Really take out")
	ada.until("the members alone", `document.querySelectorAll(".watch-side .members li").length === 2`)
	line.mend()
	guest.says(".banner", "You were taken out of Film night.")
	ada.doesTo("Bob", "Take out of the room", "Really take out")
	bob.says(".banner", "You were taken out of Film night.")
	bob.says("[aria-label='My rooms']", "You are in no room")
	ada.until("the owner alone", `document.querySelectorAll(".watch-side .members li").length === 1`)
}

// A room goes on after refusals and broken lines: its chat, its playlist, and a video whose link has expired.
func TestARoomGoesOnAfterRefusalsInTheBrowser(t *testing.T) {
	t.Parallel()
	p := browse(t, serve(t, "--limits=false", "--files-link-for=10s")+"/")
	p.signUp("ada@example.com", "Ada", "correct horse")
	p.visit("#/rooms")
	p.makesRoom("Film night")

	// Text that is typed while a message is in flight stays. A message that could not be sent is inserted before it.
	chat := "/v1/rooms/" + strings.TrimPrefix(p.location()[strings.Index(p.location(), "#"):], "#/rooms/") + "/chat"
	say := func(want string) string {
		return fmt.Sprintf(`document.querySelector("[name=say]").value === %q`, want)
	}
	p.holdsBack("POST", chat)
	p.typ("[name=say]", "Hello")
	p.key(kb.Enter)
	p.until("the line on its way", "window.send !== undefined")
	p.typ("[name=say]", "How are you")
	p.do(chromedp.Evaluate[chromedp.Void]("send()"))
	p.says(".room-chat", "Hello")
	p.until("what was typed meanwhile", say("How are you"))
	p.until("the first line's answer", `!document.querySelector(".room-chat form.say").ariaBusy`)
	p.refusesOnce("POST", chat, http.StatusForbidden, "room.muted")
	p.key(kb.Enter)
	p.until("a refusal", "refused")
	p.until("the line that was refused", say("How are you"))

	// The server refuses the only player that can report the end of an item. The player reports it again, and the next
	// item follows.
	p.opens("list")
	for n := 1; n <= 2; n++ {
		p.button("Add the sample video")
		p.until("the item", fmt.Sprintf(`document.querySelectorAll(".items li").length === %d`, n))
	}
	p.refusesOnce("POST", "/playback/ended", http.StatusServiceUnavailable, "room.state_away")
	p.button("Put on Sample: one minute")
	nearEnd := func() {
		p.shows("the video, playing", `!v.paused && v.currentTime > 0`)
		p.do(chromedp.Evaluate[chromedp.Void](`((s) => { s.value = 58000; s.dispatchEvent(new Event("change")); })(document.querySelector(".seek"))`))
	}
	nearEnd()
	p.until("a refusal", "refused")
	p.until("the second item", `document.querySelectorAll(".items li")[1].matches("[aria-current=true]")`)
	nearEnd()
	p.says(".stage-note", "Nothing is on.")
	p.button("Play") // the playlist restarts
	p.until("the first item", `document.querySelectorAll(".items li")[0].matches("[aria-current=true]")`)

	// A player whose video failed to load, or whose link has expired, loads it as soon as it is available.
	p.visit("#/rooms")
	p.makesRoom("Second night")
	p.opens("list")
	film, err := filepath.Abs("../web/public/sample.webm")
	if err != nil {
		t.Fatal(err)
	}
	p.chooses(".items-add input[type=file]", film)
	p.says(".items", "sample.webm")
	// The room repeats it, so that it does not end before the pause.
	p.button("Settings")
	p.fill("[name=loop]", "item")
	p.button("Save")
	p.lacks("dialog")

	// The node drains when the page requests the video's link.
	p.refusesOnce("GET", "/source", http.StatusServiceUnavailable, "node.draining")
	p.button("Put on sample.webm")
	p.until("a refusal", "refused")
	p.shows("the video all the same", `v.duration === 60`)
	p.button("Pause")
	p.shows("the pause", `v.paused`)

	// The browser has evicted the loaded data and loads it again. A link is valid for less time than a film takes.
	p.do(chromedp.Evaluate[chromedp.Void](`window.over = false; setInterval(async () => (over ||= (await fetch(document.querySelector(".stage video").src, { headers: { Range: "bytes=0-0" } })).status === 404), 500)`))
	p.until("the end of the link", "over")
	if _, err := chromedp.Call(p.ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(p.ctx, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: true}); err != nil {
		t.Fatal(err)
	}
	p.do(chromedp.Evaluate[chromedp.Void](`(() => {
		const video = document.querySelector(".stage video");
		video.addEventListener("emptied", () => (window.emptied = true), { once: true });
		video.load();
	})()`))
	p.until("the beginning of it", "window.emptied")
	p.shows("the video with another link", `v.duration === 60`)
	p.lacks(".stage-note:not(:empty)")

	// From here on, the video breaks each time after its beginning has loaded.
	p.do(chromedp.Evaluate[chromedp.Void](`(() => {
		const video = document.querySelector(".stage video");
		let error = null;
		Object.defineProperty(video, "error", { get: () => error });
		video.addEventListener("emptied", () => (error = null));
		window.breaks = 0;
		const end = () => {
			breaks++;
			error = { code: MediaError.MEDIA_ERR_NETWORK };
			video.dispatchEvent(new Event("error"));
		};
		video.addEventListener("loadedmetadata", end);
		end();
	})()`))
	p.says(".stage-note", "cannot play")
	if got := evaluated[int](p, "breaks"); got < 2 || got > 5 { // it has broken before, perhaps a minute ago
		t.Errorf("it was given up after %d breaks, want up to five", got)
	}
}

// A room with a password is found in the list. All of it is legible on a phone, in light and dark, by the keyboard and
// in Chinese.
func TestRoomsAreFoundAndLegible(t *testing.T) {
	t.Parallel()
	ada, bob, _ := twoFriends(t)
	ada.visit("#/rooms")
	ada.button("New room")
	ada.typ("[name=room_name]", "Open air")
	ada.fill("[name=access]", "open")
	ada.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("dialog [name=access]").dispatchEvent(new Event("change"))`))
	ada.typ("dialog [name=password]", "summer")
	ada.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("dialog [name=listed]").click()`))
	ada.legible("the dialog of a new room")
	ada.button("Make the room")
	ada.says(".watch h1", "Open air")
	ada.opens("list")
	ada.button("Add the sample video")
	ada.says(".items", "Sample: one minute")
	film, err := filepath.Abs("../web/public/sample.webm")
	if err != nil {
		t.Fatal(err)
	}
	ada.chooses(".items-add input[type=file]", film)
	ada.until("the uploaded video with its length", `[...document.querySelectorAll(".items li")].some((li) => /sample\.webm.*1:00/s.test(li.textContent))`)
	ada.typ("[name=source]", "http://example.org/film.mp4")
	ada.click(".items-add form [type=submit]")
	ada.says(".items-add .fault:not(:empty)", "https")
	ada.fill("[name=source]", "https://example.org/%D6%D0%CE%C4.mp4") // in GBK, as on many servers in China
	ada.click(".items-add form [type=submit]")
	ada.says(".items", "%D6%D0%CE%C4.mp4")

	bob.visit("#/rooms")
	bob.typ("[name=q]", "nowhere")
	bob.says(".rooms .card [role=status]:not([hidden])", "There is no such room.")
	bob.do(chromedp.Evaluate[chromedp.Void](`((s) => { s.value = "AIR"; s.dispatchEvent(new Event("input")); })(document.querySelector("[name=q]"))`))
	bob.says("[data-list=public]", "Open air")
	bob.says("[data-list=public]", "asks for a password")
	bob.fits("the list of rooms")
	bob.legible("the list of rooms")
	// A room that cannot be loaded shows an error, and is loaded at the next try.
	bob.do(chromedp.Evaluate[chromedp.Void](`(() => { window.reach = fetch; window.fetch = () => Promise.reject(new TypeError("away")); })()`))
	bob.click("[data-list=public] a")
	bob.says("main", "cannot be reached")
	bob.do(chromedp.Evaluate[chromedp.Void](`void (window.fetch = reach)`))
	bob.button("Try again")
	bob.typ("[name=password]", "winter")
	bob.button("Come in")
	bob.until("the refusal", `(document.querySelector(".form-fault")?.textContent ?? "") !== ""`)
	bob.fits("the door of a room")
	bob.legible("the door of a room")
	bob.fill("[name=password]", "summer")
	bob.button("Come in")
	bob.says(".watch h1", "Open air")

	// The keyboard reaches every tab.
	bob.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("[role=tab][data-tab=chat]").focus()`))
	bob.key(kb.ArrowRight)
	bob.on("Playlist")
	bob.says(".watch-side", "Address of a video")
	for _, list := range []string{"people", "list", "chat"} {
		for _, p := range []*tab{ada, bob} {
			p.opens(list)
			p.do(chromedp.EmulateViewport(360, 780))
			p.until("a phone with "+list, "document.documentElement.scrollWidth <= innerWidth")
			p.legible("the room with " + list)
			p.do(chromedp.EmulateViewport(1280, 900))
		}
	}
	ada.button("Settings")
	ada.legible("the settings of a room")
	ada.key(kb.Escape)
	ada.button("中文")
	ada.says("[data-viewers]", "2 人在看")
	ada.opens("list")
	ada.says(".items-add", "添加示例视频")
	ada.do(chromedp.EmulateViewport(360, 780))
	ada.until("a phone in Chinese", "document.documentElement.scrollWidth <= innerWidth")
}
