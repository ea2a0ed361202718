package e2e

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
)

// group creates a group of the user and friends, and returns its id.
func (p *tab) group(name string, members ...*tab) string {
	p.t.Helper()
	ids := make([]string, len(members))
	for i, m := range members {
		ids[i] = m.id()
	}
	id, err := chromedp.Run(p.ctx, chromedp.Evaluate[string](fmt.Sprintf(`fetch("/v1/groups", {
		method: "POST", body: JSON.stringify({ name: %q, members: %q.split(",").filter(Boolean) }),
		headers: { "Content-Type": "application/json", Authorization: "Bearer " + JSON.parse(localStorage.getItem("stoa.session")).access },
	}).then((res) => res.json()).then((made) => made.group.id)`, name, strings.Join(ids, ",")), chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

// happens waits until the last system message of the open chat has this text.
func (p *tab) happens(sentence string) {
	p.t.Helper()
	p.until(sentence, fmt.Sprintf(`[...document.querySelectorAll(".happening")].at(-1)?.textContent.startsWith(%q)`, sentence))
}

// doesTo opens the menu of a member in the panel of the open group and presses the named entries.
func (p *tab) doesTo(name string, doings ...string) {
	p.t.Helper()
	p.button("What to do with " + name)
	for _, doing := range doings {
		p.button(doing)
	}
}

// Three users use all functions of a group, in three browsers. The clock of the owner's device is three hours slow.
func TestThreePeopleHaveAGroupInTheBrowser(t *testing.T) {
	t.Parallel()
	url := serve(t)
	ada := browse(t, "about:blank")
	ada.runs(`((real) => (Date.now = () => real() - 3 * 3600_000))(Date.now)`)
	ada.do(chromedp.Navigate(url + "/"))
	ada.signUp("ada@example.com", "Ada", "correct horse")
	bob := ada.stranger(url + "/")
	bob.signUp("bob@example.com", "Bob", "battery staple")
	ada.befriends(bob)

	// A group of friends, whose first name is refused.
	ada.visit("#/chats")
	ada.button("New group")
	ada.typ("[name=group_name]", "   ")
	ada.click("dialog [name=friend]")
	ada.button("Make the group")
	ada.until("a refusal", `document.querySelector("dialog .form-fault").textContent !== ""`)
	ada.fill("[name=group_name]", "Rowing")
	ada.button("Make the group")
	ada.says(".room-who h2", "Rowing")
	ada.happens("You made the group Rowing with Bob.")
	bob.visit("#/chats")
	bob.says(".chat-line", "Ada made the group Rowing with you.")
	bob.click(".chat-row")
	bob.happens("Ada made the group Rowing with you.")

	// Eve joins by a link that she opened before she had an account.
	ada.button("About this group")
	ada.until("the composer beside the panel", `(({ x, y, width, height }) => document.elementFromPoint(x + width / 2, y + height / 2))(document.querySelector(".composer .send").getBoundingClientRect())?.closest(".send") != null`)
	ada.button("Links into the group")
	ada.button("Make a link")
	ada.until("the link", `document.querySelector(".group-links .link-text")?.value.includes("/#/join/")`)
	link, err := chromedp.Run(ada.ctx, chromedp.Evaluate[string](`document.querySelector(".group-links .link-text").value`))
	if err != nil {
		t.Fatal(err)
	}
	ada.button("Close")
	eve := ada.stranger(link)
	eve.says("main", "an invitation to a group")
	eve.signUp("eve@example.com", "Eve", "tr0ub4dor")
	eve.says(".door h2", "Rowing")
	eve.says(".door", "2 members")
	eve.button("Join")
	eve.happens("You joined.")
	ada.happens("Eve joined.")
	ada.until("three members", `document.querySelectorAll(".members li").length === 3`)
	bob.says(".room-who .muted", "3 members")

	// The page offers only actions that the user's role allows.
	eve.button("About this group")
	eve.until("her own doings", `[...document.querySelectorAll(".doing > span")].map((s) => s.textContent).join() === "Invite friends,Links into the group,Card of the group,For me"`)
	eve.button("What to do with Bob")
	eve.until("no verbs over others", `[...document.querySelectorAll("[role=menuitem]")].map((s) => s.textContent).join() === "Write to them"`)
	eve.key(kb.Escape)

	// A mention is chosen from a list by keys. It is highlighted for the mentioned user, and marks the chat in the user's
	// list.
	eve.visit("#/chats")
	ada.button("Back to the chat")
	ada.typ("[name=message]", "Are you there, @")
	ada.says(".mention-list [aria-selected=true]", "all members")
	ada.typ("[name=message]", "ev")
	ada.says(".mention-list [aria-selected=true]", "Eve")
	ada.enter()
	ada.until("the name", `document.querySelector("[name=message]").value === "Are you there, @Eve "`)
	ada.enter()
	ada.hears("Are you there, @Eve")
	ada.says(".own .mention", "@Eve")
	eve.until("the mark in the list", `document.querySelector("[data-mentioned]")?.checkVisibility()`)
	eve.says(".chat-line", "Ada: Are you there, @Eve")
	eve.says("[data-unread-chats]", "1")
	eve.click(".chat-row")
	eve.says(".for-me .mention", "@Eve")
	eve.says(".for-me .author", "Ada")
	eve.lacks("[data-mentioned]")
	bob.hears("Are you there, @Eve")
	bob.until("no mark for others", `document.querySelector(".for-me") === null`)
	ada.until("both to have read it", `(window.readers === 2 && (clearInterval(asks), true)) || void (window.asks ??= setInterval(() => {
		const headers = { Authorization: "Bearer " + JSON.parse(localStorage.getItem("stoa.session")).access };
		fetch("/v1/chats/" + location.hash.slice("#/chats/".length) + "/messages/3/readers", { headers })
			.then((res) => res.json()).then(({ users }) => (window.readers = users.length), () => {});
	}, 300))`)
	ada.does(3, "Who has read it")
	ada.says("dialog h2", "Who has read it")
	ada.says("dialog", "2 members have read this message.")
	ada.key(kb.Escape)
	ada.lacks("dialog")

	// The composer of a muted member shows the reason and the end at once.
	eve.write("I am")
	bob.hears("Are you there, @Eve", "I am")
	ada.button("About this group")
	ada.doesTo("Eve", "Mute for an hour")
	eve.says(".silence", "An admin has muted you until ")
	eve.until("no field", `!document.querySelector("[name=message]").checkVisibility()`)
	ada.says(`.members`, "muted until ")
	ada.doesTo("Eve", "Let them write again")
	eve.lacks(".silence")
	ada.press("[name=mute_all]")
	eve.says(".silence", "Only admins may write until further notice.")
	bob.says(".silence", "Only admins may write until further notice.")
	ada.until("her own field", `document.querySelector("[name=message]").checkVisibility()`)
	ada.until("the switch that is on", `document.querySelector("[name=mute_all]").checked`)
	ada.press("[name=mute_all]")
	bob.lacks(".silence")

	// An announcement is shown above the chat until it is read.
	ada.button("Announce something")
	ada.typ("[name=announcement]", "We begin at eight.")
	ada.button("Publish")
	for _, p := range []*tab{bob, eve} {
		p.says(".strip.announced", "We begin at eight.")
		p.happens("Ada announced: We begin at eight.")
	}
	eve.button("I have read it")
	eve.lacks(".strips .announced")
	ada.button("Back to the chat")
	ada.button("About this group")
	ada.says(".panel", "Read by 2 of 3.")

	// An admin pins, and recalls a message of a member but not of the owner.
	ada.doesTo("Bob", "Make admin")
	bob.happens("Ada made you admin.")
	bob.until("the verb of an admin", `(document.querySelector('[data-seq="3"] .more').click(), [...document.querySelectorAll("[role=menuitem]")].some((i) => i.textContent === "Pin for all"))`)
	bob.button("Pin for all")
	eve.says(".strip.pins", "Are you there, @Eve")
	eve.happens("Bob pinned a message.")
	bob.until("no verb over the owner", `(document.querySelector('[data-seq="3"] .more').click(), ![...document.querySelectorAll("[role=menuitem]")].some((i) => i.textContent === "Take back for everybody"))`)
	bob.key(kb.Escape)
	bob.does(4, "Take back for everybody", "Yes, recall it")
	eve.says(`[data-seq="4"] .said`, "This message was recalled.")

	// After the removal, Eve sees that the chat is gone and requests to join again.
	ada.button("Settings of the group")
	ada.do(chromedp.Evaluate[chromedp.Void](`(() => {
		const joins = document.querySelector("[name=joins]");
		joins.value = "asking";
		joins.dispatchEvent(new Event("change"));
	})()`))
	ada.typ("[name=question]", "Can you swim?")
	address, err := chromedp.Run(ada.ctx, chromedp.Evaluate[string](`document.querySelector("[name=address]").value`))
	if err != nil {
		t.Fatal(err)
	}
	ada.button("Save")
	ada.lacks("dialog")
	ada.doesTo("Eve", "Remove from the group", "Yes, remove them")
	eve.says(".banner", "You were removed from Rowing.")
	eve.lacks(".chat-row")
	eve.lacks(".room-who")
	_, hash, _ := strings.Cut(address, "#")
	eve.visit("#" + hash)
	eve.says(".door label", "Can you swim?")
	eve.typ("[name=answer]", "Like a fish")
	eve.button("Ask to join")
	eve.says(".door", "You have asked to join.")
	ada.says("[data-requests]", "1")
	bob.says("[data-requests]", "1")
	ada.button("Requests to join1")
	ada.says("dialog .quote", "Like a fish")
	ada.button("Accept Eve")
	ada.says("dialog", "Nobody waits for an answer.")
	ada.button("Close")
	eve.says(".door", "You are in this group.")
	eve.click(".door a")
	eve.happens("Ada added you.")

	// After the ban, she cannot join by the link, and the page explains it.
	ada.doesTo("Eve", "Remove and ban", "Yes, ban them")
	eve.says(".banner", "cannot join it again")
	_, hash, _ = strings.Cut(link, "#")
	eve.visit("#" + hash)
	eve.button("Join")
	eve.says(".banner", "You cannot join this group.")
	ada.button("Banned users")
	ada.button("Lift the ban on Eve")
	ada.says("dialog", "Nobody is banned.")
	ada.button("Close")

	// The owner transfers the group and leaves; the new owner dissolves it.
	ada.doesTo("Bob", "Hand the group over", "Yes, Bob is the owner then")
	bob.happens("Ada handed the group over to you.")
	ada.button("Leave the group")
	ada.button("Yes, leave it")
	ada.says(".banner", "You have left Rowing.")
	bob.happens("Ada left.")
	bob.button("About this group")
	bob.button("Dissolve the group")
	bob.button("Yes, dissolve it for all")
	bob.says(".banner", "Rowing was dissolved.")
	bob.lacks(".chat-row")
}

// A group has a picture, a card, and more members than the page loads. Its chat, its panel and its dialogs are legible
// in light and in dark, and fit a phone and a desktop.
func TestGroupsAreLegibleInLightAndDark(t *testing.T) {
	t.Parallel()
	file := "sqlite:" + filepath.Join(t.TempDir(), "stoa.db")
	db := sqldbtest.Open(t, sqldb.Config{URL: file})
	persons := enrol(t, db, rand.New(rand.NewPCG(1, 1)), 260)
	url := serve(t, "--sql", file)
	ada := browse(t, url+"/")
	ada.signUp("ada@example.com", "Ada", "correct horse")
	bob := ada.stranger(url + "/")
	bob.signUp("bob@example.com", "Bob of the very long name that goes on", "battery staple")
	ada.befriends(bob)
	group := ada.group("Donaudampfschifffahrtsgesellschaft and friends", bob)
	say := func(p *tab, message string) {
		p.ask("POST", "/v1/chats/g:"+group+"/messages", `{"client_id":"`+nanoid()+`",`+message+`}`)
	}
	say(bob, `"kind":"text","text":"@Ada, see https://example.com/`+strings.Repeat("a-long-address-", 10)+`","mentions":["`+ada.id()+`"]`)
	say(ada, `"kind":"text","text":"I see","reply_to":2`)
	say(bob, `"kind":"text","text":"`+strings.Repeat("Long ", 40)+`"`)
	ada.ask("PATCH", "/v1/groups/"+group, `{"announcement":"`+strings.Repeat("We begin at eight. ", 20)+`"}`)
	ada.ask("PUT", "/v1/chats/g:"+group+"/pins/4", "")
	ada.ask("PUT", "/v1/chats/g:"+group+"/pins/3", "")
	bob.visit("#/chats/g:" + group)
	bob.says(".strip.pins", "2 pinned")
	for _, width := range []int64{360, 1280} {
		bob.do(chromedp.EmulateViewport(width, 800))
		bob.legible(fmt.Sprintf("a group in %d pixels", width))
	}
	bob.fits("a group")
	bob.click(".strip.pins")
	bob.fits("the pinned messages")
	bob.key(kb.Escape)
	bob.lacks("dialog")
	ada.visit("#/chats/g:" + group)
	ada.says(".for-me .mention", "@Ada")
	ada.legible("a mention")
	ada.button("About this group")
	ada.until("the members", `document.querySelectorAll(".members li").length === 2`)
	ada.fits("the panel")
	ada.legible("the panel")
	for _, name := range []string{"Invite friends", "Links into the group", "Requests to join", "For me", "Settings of the group",
		"Banned users", "Announce something"} {
		ada.button(name)
		ada.says("dialog h2", name)
		ada.fits(name)
		ada.legible(name)
		ada.key(kb.Escape)
		ada.lacks("dialog")
	}

	// A picture and a card.
	ada.button("Settings of the group")
	ada.chooses("dialog input[type=file]", drawing(t, 400, 300))
	ada.legible("the chosen picture of a group")
	ada.button("Use this picture")
	ada.says("dialog .saved", "Your picture is changed.")
	bob.until("the picture", `document.querySelector(".room-head img.group")?.naturalWidth > 0`)
	ada.button("Remove the group's picture")
	bob.until("no picture", `document.querySelector(".room-head img.group") === null`)
	ada.key(kb.Escape)
	ada.lacks("dialog")

	bob.button("About this group")
	bob.button("Card of the group")
	bob.until("the code", `document.querySelector("dialog .qr path:last-child")?.getAttribute("d").length > 100`)
	bob.until("the link", `document.querySelector("dialog .link-text").value.includes("/#/join/")`)
	bob.fits("the card of a group")
	bob.legible("the card of a group")
	link := evaluated[string](bob, `document.querySelector("dialog .link-text").value`)
	ada.stranger(link).says("main", "an invitation to a group")

	// Escape leaves the panel and returns to its button. On a window of the size of a phone, the panel is the only view.
	ada.do(chromedp.EmulateViewport(360, 800))
	ada.do(chromedp.Focus(chromedp.CSS(".panel h2")))
	ada.key(kb.Escape)
	ada.lacks(".panel")
	ada.on("About this group")
	ada.typ("[name=message]", "@")
	ada.says(".mention-list", "all members")
	ada.fits("a list of members")
	ada.legible("a list of members")
	ada.key(kb.Escape)
	ada.lacks(".mention-list")
	ada.visit("#/group/" + group)
	ada.says(".door", "You are in this group.")
	ada.fits("the door")
	ada.legible("the door")

	// The server finds members of a group that is too large for the page to load all of them.
	chorus := ada.group("Chorus")
	now := time.Now().UnixMilli()
	var members []any
	for i, who := range persons {
		members = append(members, chorus, who.id, 0, "", 0, now+int64(i), ada.id(), "", 0, 0, 0, 1000+i, 0)
	}
	insert(t, db, "INSERT INTO group_members (group_id, user_id, role, nickname, muted, joined, inviter, remark, notify, seen, "+
		"own_version, version, gone) VALUES ", 13, members)
	if _, err := db.Writer().ExecContext(t.Context(), "UPDATE chat_groups SET members = ?, version = ? WHERE id = ?", len(persons)+1, 2000,
		chorus); err != nil {
		t.Fatal(err)
	}
	ada.do(chromedp.Navigate(url + "/#/chats/g:" + chorus))
	ada.button("About this group")
	last := persons[len(persons)-1].id
	ada.until("a page of members, and no more", `document.querySelectorAll(".members li").length === 200`)
	ada.lacks(".members [data-user='" + last + "']")
	ada.typ(".panel [type=search]", last)
	ada.until("the member whom the server has found", fmt.Sprintf(`[...document.querySelectorAll(".members li")].map((li) => li.dataset.user).join() === %q`, last))
	ada.fill(".panel [type=search]", "nobody is called so")
	ada.do(chromedp.Evaluate[chromedp.Void](`document.querySelector(".panel [type=search]").dispatchEvent(new Event("input"))`))
	ada.says(".panel [role=status]:not([hidden])", "No member")
}

// If the user wants it, the page shows notifications of messages and requests while it is hidden.
func TestTheBrowserNotifiesWhileNobodyLooks(t *testing.T) {
	t.Parallel()
	ada, bob, _ := twoFriends(t)
	// A headless browser shows no notifications: the test records the page's calls.
	bob.do(chromedp.Evaluate[chromedp.Void](`(() => {
		window.notified = [];
		window.Notification = class {
			static permission = "default";
			static requestPermission = async () => (this.permission = "granted");
			constructor(title, { body, tag }) { notified.push({ title, body, tag, at: this }); }
			close() {}
		};
	})()`))
	bob.visit("#/profile")
	bob.says("[data-part=push]", "Notify me in this browser")
	ada.write("not yet")
	bob.says("[data-unread-chats]", "1")
	bob.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("[name=alerts]").click()`))
	bob.until("the switch", `document.querySelector("[name=alerts]").checked && localStorage.getItem("stoa.alerts") === "on"`)
	ada.write("he looks")
	bob.says("[data-unread-chats]", "2")
	bob.do(chromedp.Evaluate[chromedp.Void](`Object.defineProperty(document, "visibilityState", { value: "hidden", configurable: true })`))
	ada.write("now")
	bob.until("one notification", `notified.map((n) => n.title + ": " + n.body).join() === "Ada: now"`)
	group := ada.group("Rowing", bob)
	ada.ask("POST", "/v1/chats/g:"+group+"/messages", `{"client_id":"a","kind":"text","text":"to all"}`)
	bob.until("one of the group", `notified.map((n) => n.title + ": " + n.body).join() === "Ada: now,Rowing: Ada: to all"`)
	bob.ask("PATCH", "/v1/groups/"+group+"/me", `{"notify":"mentions"}`)
	ada.ask("POST", "/v1/chats/g:"+group+"/messages", `{"client_id":"b","kind":"text","text":"to nobody"}`)
	ada.ask("POST", "/v1/chats/g:"+group+"/messages", `{"client_id":"c","kind":"text","text":"to @Bob","mentions":["`+bob.id()+`"]}`)
	bob.until("the mention alone", `notified.slice(2).map((n) => n.body).join() === "Ada: to @Bob"`)
	bob.do(chromedp.Evaluate[chromedp.Void](`notified[0].at.onclick()`))
	bob.says(".room-who h2", "Ada")

	// A log-out does not reach the server, which would continue to send pushes to the device.
	bob.do(chromedp.Evaluate[chromedp.Void](`(() => {
		Object.defineProperty(navigator, "serviceWorker", { value: { getRegistration: async () => ({ pushManager: { getSubscription: async () => ({ unsubscribe: async () => (window.unsubscribed = true) }) } }) } });
		window.fetch = () => Promise.reject(new TypeError("away"));
	})()`))
	bob.button("Log out")
	bob.says(".banner", "logged out here")
	bob.until("the end of the subscription", `window.unsubscribed === true`)
}
