package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// colours sets the colour scheme of the reader's system: "light" or "dark".
func (p *tab) colours(scheme string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
	if err != nil {
		p.t.Fatal(err)
	}
}

// faint is JavaScript that lists visible texts with a contrast of less than 4.5:1 to their background. It skips texts
// on a picture or a gradient, and disabled elements.
const faint = `(() => {
	const pen = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
	const parsed = new Map();
	const rgba = (colour) => {
		if (!parsed.has(colour)) {
			pen.clearRect(0, 0, 1, 1);
			pen.fillStyle = colour;
			pen.fillRect(0, 0, 1, 1);
			const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
			parsed.set(colour, [r, g, b, a / 255]);
		}
		return parsed.get(colour);
	};
	const over = ([r, g, b, a], under) => [r, g, b].map((v, i) => v * a + under[i] * (1 - a));
	const light = (c) => c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const found = [];
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (texts.nextNode()) {
		const at = texts.currentNode.parentElement;
		const { width, height } = at.getBoundingClientRect();
		if (!texts.currentNode.data.trim() || !at.checkVisibility({ visibilityProperty: true, opacityProperty: true }) || width < 2 || height < 2) continue;
		if (at.closest(":disabled, option, datalist, script, noscript")) continue;
		const layers = [];
		let opacity = 1;
		let drawn = false;
		for (let el = at; el; el = el.parentElement) {
			const style = getComputedStyle(el);
			opacity *= style.opacity;
			if (style.backgroundImage !== "none" || getComputedStyle(el, "::before").position === "absolute") drawn = true;
			layers.push(rgba(style.backgroundColor));
			if (layers.at(-1)[3] === 1) break;
		}
		if (drawn) continue;
		const behind = layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]);
		const [r, g, b, a] = rgba(getComputedStyle(at).color);
		if (a === 0) continue; // it is there for screen readers
		const [x, y] = [light(over([r, g, b, a * opacity], behind)), light(behind)].sort((x, y) => y - x);
		const ratio = (x + 0.05) / (y + 0.05);
		if (ratio < 4.5) found.push(at.className + ": " + texts.currentNode.data.trim().slice(0, 30) + " (" + ratio.toFixed(2) + ")");
	}
	return found;
})()`

// legible fails if a text has too little contrast, in light or in dark.
func (p *tab) legible(view string) {
	p.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		p.colours(scheme)
		found, err := chromedp.Run(p.ctx, chromedp.Evaluate[[]string](faint))
		if err != nil {
			p.t.Fatal(err)
		}
		if len(found) > 0 {
			p.t.Errorf("%s in %s has less than 4.5:1 in: %s", view, scheme, strings.Join(found, "; "))
		}
	}
}

// Every view is legible in light and in dark, and fits a phone and a desktop.
func TestThePageIsLegibleInLightAndDark(t *testing.T) {
	t.Parallel()
	url := serve(t)
	ada := browse(t, url+"/")
	ada.says(".pitch h1", "A social backend")
	ada.legible("the start")
	ada.signUp("ada@example.com", "Ada", "correct horse")
	bob := ada.stranger(url + "/")
	bob.do(chromedp.EmulateViewport(390, 844))
	bob.signUp("bob@example.com", "Bob", "battery staple")
	bob.until("the top of the home", `scrollY === 0 && document.activeElement.id === "main"`)
	bob.says(".week .before", "before you signed up")
	ada.befriends(bob)
	ada.click("#checkin")
	ada.says("[data-streak]", "1")
	ada.says("[data-board=streak] li.mine", "Ada you")
	ada.legible("the home")
	ada.visit("#/friends")
	ada.says("[data-list=friends]", "Bob")
	ada.until("the card", `document.querySelector(".qr path") !== null`)
	ada.legible("the friends")
	ada.button("Edit Bob")
	ada.legible("a dialog")
	ada.button("Cancel")
	ada.visit("#/profile")
	ada.until("the devices", `document.querySelectorAll(".devices [data-device]").length === 1`)
	ada.legible("the profile")

	// A chat with every kind of content.
	me, peer := ada.id(), bob.id()
	say := func(p *tab, to, message string) {
		p.ask("POST", "/v1/chats/u:"+to+"/messages", `{"client_id":"`+nanoid()+`",`+message+`}`)
	}
	say(bob, me, `"kind":"text","text":"A long word to begin with: Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"`)
	say(ada, peer, `"kind":"text","text":"See https://example.com/`+strings.Repeat("a-long-address-", 10)+`","reply_to":1`)
	say(ada, peer, `"kind":"image","media":{"url":"https://example.com/a.png","alt":"Two boats","width":640,"height":480,"size":93000}`)
	say(bob, me, `"kind":"voice","media":{"url":"https://example.com/v.ogg","duration_ms":12300}`)
	say(bob, me, `"kind":"file","media":{"url":"https://example.com/plan.pdf","name":"plan.pdf","type":"application/pdf"}`)
	say(bob, me, `"kind":"location","location":{"lat":51.5,"lon":-0.12,"name":"The quay"}`)
	say(bob, me, `"kind":"card","card":{"user":"`+peer+`"}`)
	say(bob, me, `"kind":"custom","custom":{"type":"poll","data":{"options":[1,2]}}`)
	say(ada, peer, `"kind":"text","text":"taken back"`)
	ada.ask("DELETE", "/v1/chats/u:"+peer+"/messages/9?for=everybody", "")
	ada.ask("PUT", "/v1/chats/u:"+peer+"/messages/1/reactions/%F0%9F%91%8D", "")
	bob.visit("#/profile")
	bob.ask("PUT", "/v1/chats/settings", `{"messages_from":"nobody","receipts":true}`)
	ada.visit("#/chats/" + peer)
	ada.until("all of them", `document.querySelectorAll(".message").length === 9`)
	ada.write("this is refused")
	ada.says(".failure", "They take no messages")
	ada.does(2, "Reply")
	for _, width := range []int64{390, 1280} {
		ada.do(chromedp.EmulateViewport(width, 900))
		ada.legible(fmt.Sprintf("a chat in %d pixels", width))
	}
	ada.fits("a chat")
	ada.does(2)
	ada.legible("a menu")
	ada.key(kb.Escape)
	ada.lacks(".menu")
	ada.visit("#/chats")
	ada.legible("the chats")
	ada.fits("the chats")

	// On a phone, the list and the chat are two screens; on a desktop, both are visible.
	ada.do(chromedp.EmulateViewport(390, 844))
	ada.until("the list alone", `document.querySelector(".chats-side").checkVisibility() && !document.querySelector(".room-place").checkVisibility()`)
	ada.click(".chat-row")
	ada.until("the chat alone", `!document.querySelector(".chats-side").checkVisibility() && document.querySelector(".room").checkVisibility()`)
	ada.click(".back")
	ada.until("the list again", `document.querySelector(".chats-side").checkVisibility() && document.activeElement.matches(".chat-row")`)
	ada.do(chromedp.EmulateViewport(1280, 844))
	ada.click(".chat-row")
	ada.until("both", `document.querySelector(".chats-side").checkVisibility() && document.querySelector(".room").checkVisibility()`)
	ada.typ("[name=search]", "boats")
	ada.says(".search-found mark", "boats")
	ada.legible("what was found")
	ada.click("[name=search]")
	ada.key(kb.Escape)
	ada.lacks(".search-found:not([hidden])")
}

// A long chat is read backwards from its end, keeps its position meanwhile, and is searched.
func TestALongChatIsReadBackwardsAndSearchedInTheBrowser(t *testing.T) {
	t.Parallel()
	ada, bob, _ := twoFriends(t)
	const n = 180
	bob.visit("#/")
	ada.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(async () => {
		const { access } = JSON.parse(localStorage.getItem("stoa.session"));
		for (let i = 1; i <= %d; i++) {
			const text = "message " + i + (i === 20 ? ": 码头 and the Lighthouse" : "");
			await fetch("/v1/chats/u:%s/messages", { method: "POST", headers: { "Content-Type": "application/json", Authorization: "Bearer " + access }, body: JSON.stringify({ client_id: "c" + i, kind: "text", text }) });
		}
	})()`, n, bob.id()), chromedp.EvalAwaitPromise))

	// There are more new messages than a page has: the page opens at the read mark.
	bob.says("[data-unread-chats]", "99+")
	bob.visit("#/chats/" + ada.id())
	bob.says(".newline", "New messages")
	bob.until("the first new message", `document.querySelector(".newline + .message")?.dataset.seq === "1"`)
	bob.says(".newest", "new message")
	ada.write("and another one")
	bob.says(".newest", "new messages")
	bob.click(".newest")
	bob.until("the end", `document.querySelector(".message:last-of-type .said").textContent === "and another one"`)
	bob.lacks(".newest")
	bob.lacks("[data-unread-chats]")

	// A reader who scrolls up stays there, even if the page redraws before the browser reports the scrolling.
	bob.do(chromedp.Evaluate[chromedp.Void](`(() => {
		const stream = document.querySelector(".stream");
		window.untold = (e) => e.stopImmediatePropagation();
		stream.addEventListener("scroll", untold, true);
		stream.scrollTop = 1000;
	})()`))
	ada.write("and one more")
	bob.until("one more", `document.querySelector(".message:last-of-type .said").textContent === "and one more"`)
	bob.until("the place", `document.querySelector(".stream").scrollTop === 1000`)
	bob.says(".newest", "new message")
	bob.do(chromedp.Evaluate[chromedp.Void](`document.querySelector(".stream").removeEventListener("scroll", untold, true)`))

	// Older messages are inserted above, and the visible ones keep their position.
	bob.do(chromedp.Evaluate[chromedp.Void](`(() => {
		const stream = document.querySelector(".stream");
		stream.scrollTop = 300;
		const top = stream.getBoundingClientRect().top;
		const seen = [...document.querySelectorAll("[data-seq]")].find((m) => m.getBoundingClientRect().top >= top);
		window.seen = { seq: seen.dataset.seq, top: seen.getBoundingClientRect().top };
	})()`))
	bob.until("older ones", `document.querySelectorAll(".message").length > 60`)
	bob.until("the same place", `Math.abs(document.querySelector('[data-seq="' + seen.seq + '"]').getBoundingClientRect().top - seen.top) < 3`)

	// A search opens a message that is not loaded yet, by the keyboard alone.
	bob.visit("#/chats")
	bob.tabTo("Search the chats")
	bob.key("lighthouse 码头")
	bob.says(".found-count", "1 message found.")
	bob.says(".search-found mark", "Lighthouse")
	bob.key(kb.Tab)
	bob.enter()
	bob.until("the message", `document.activeElement.dataset.seq === "20"`)
	bob.do(chromedp.Evaluate[chromedp.Void](`(() => {
		document.querySelector(".newest").click();
		document.querySelector(".stream").dispatchEvent(new Event("scroll")); // while it is loaded
	})()`))
	bob.until("the end again", `document.querySelector(".message:last-of-type .said").textContent === "and one more"`)
	bob.lacks(".newest")

	// A page that does not fill the screen loads more without scrolling.
	bob.do(chromedp.EmulateViewport(1280, 6000))
	bob.do(chromedp.Evaluate[chromedp.Void](`location.reload()`))
	bob.until("enough", `document.querySelectorAll(".message").length > 100`)
}

// The keyboard reaches every function, and a Chinese reader gets Chinese texts.
func TestAChatByTheKeyboardInChinese(t *testing.T) {
	t.Parallel()
	ada, bob, _ := twoFriends(t)
	ada.write("你好")
	ada.write("second")
	bob.hears("你好", "second")
	bob.do(chromedp.Evaluate[chromedp.Void](`(() => {
		localStorage.setItem("stoa.language", "zh");
		location.hash = "#/friends";
		location.reload();
	})()`))
	bob.until("the page in Chinese", `document.documentElement.lang === "zh-CN"`)
	bob.says("[data-list=friends]", "Ada")
	bob.tabTo("给 Ada 发消息")
	bob.enter()
	bob.on("输入消息")
	bob.hears("你好", "second")
	bob.says(".room-who .muted", "在线")
	bob.says(".day", "今天")

	// From the field to the last message and up; Enter opens the menu.
	bob.key(kb.ArrowUp)
	bob.until("the last message", `document.activeElement.dataset.seq === "2"`)
	bob.key(kb.ArrowUp)
	bob.until("the first message", `document.activeElement.dataset.seq === "1"`)
	bob.enter()
	bob.on("回应 👍")
	bob.key(kb.Escape)
	bob.until("the message again", `document.activeElement.dataset.seq === "1"`)
	bob.enter()
	bob.on("回应 👍")
	bob.key(kb.ArrowDown)
	bob.enter()
	ada.says(`[data-seq="1"] .reaction`, "❤️")
	bob.until("the message once more", `document.activeElement.dataset.seq === "1"`)
	bob.enter()
	bob.on("回应 👍")
	for range 6 {
		bob.key(kb.ArrowDown)
	}
	bob.on("回复")
	bob.enter()
	bob.on("输入消息")
	bob.says(".answering", "回复 Ada")
	bob.key("第一行")
	bob.key(kb.Enter, chromedp.KeyModifiers(chromedp.ModifierShift))
	bob.key("第二行")
	bob.enter()
	ada.hears("你好", "second", "第一行\n第二行")
	ada.says(`[data-seq="3"] .quoted`, "你好")
	bob.says(`[data-seq="3"] .tick`, "已读")

	// The Down key returns to the field, and the arrow keys move in the list.
	bob.key(kb.ArrowUp)
	bob.until("the last message", `document.activeElement.dataset.seq === "3"`)
	bob.key(kb.ArrowDown)
	bob.on("输入消息")
	bob.fits("a chat in Chinese")
	bob.visit("#/chats")
	bob.fits("the chats in Chinese")
	bob.tabTo("发起聊天")
	bob.enter()
	bob.until("the dialog", `document.activeElement.matches("dialog h2")`)
	bob.key(kb.Tab)
	bob.enter()
	bob.on("输入消息")
}
