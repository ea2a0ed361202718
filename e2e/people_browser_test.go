package e2e

import (
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func TestTwoPeopleMeetInTheBrowser(t *testing.T) {
	t.Parallel()
	url := serve(t, "--social-cooldown-refused", "0s", "--social-cooldown-withdrawn", "0s")
	ada := browse(t, url+"/")
	ada.signUp("ada@example.com", "Ada", "correct horse")

	// A card is shown, and a user without an account scans it.
	ada.visit("#/friends")
	ada.until("the card", `document.querySelector(".qr path:last-child")?.getAttribute("d").length > 100`)
	card, err := chromedp.Run(ada.ctx, chromedp.Value(chromedp.CSS(".link-text")))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(card, url+"/#/card/") {
		t.Fatalf("the card's link is %q, want one to this server", card)
	}
	ada.visit("#/")
	bob := ada.stranger(card)
	bob.says(".note", "shown you their card")
	bob.signUp("bob@example.com", "Bob", "battery staple")
	bob.says(".found h2", "Ada")
	bob.typ("[name=message]", "From the lecture")
	bob.button("Ask for friendship")
	bob.says(".found", "They have not answered yet")

	// The red dot appears by itself, and disappears when the requests are seen.
	ada.says("[data-unread]", "1")
	ada.visit("#/friends")
	ada.says("[data-box=in]", "From the lecture")
	ada.lacks("[data-unread]")
	bob.visit("#/friends")
	bob.says("[data-box=out]", "Ada")
	ada.button("Accept Bob")
	ada.says("[data-list=friends]", "Bob")
	ada.lacks("[data-box=in] li")
	bob.says("[data-list=friends]", "Ada")
	bob.says("[data-list=friends]", "met through a card")
	bob.lacks("[data-box=out] li")

	// Ada's remark about him appears on her other device as well, when it changes.
	phone := ada.stranger(url + "/")
	phone.logInBy("ada@example.com", "correct horse")
	phone.says("nav", "Log out")
	phone.visit("#/friends")
	phone.says("[data-list=friends]", "Bob")
	ada.tabTo("Edit Bob")
	ada.key(kb.Enter)
	ada.on("Bob") // the dialog's heading
	ada.tabTo("Remove from friends")
	ada.key(kb.Enter)
	ada.on("Cancel")
	ada.key(kb.Escape) // cancels the question
	ada.on("Remove from friends")
	ada.key(kb.Escape) // closes the dialog
	ada.on("Edit Bob")
	ada.lacks("dialog")
	ada.key(kb.Enter)
	ada.tabTo("What you call them")
	ada.key("Bobby")
	ada.tabTo("Tag")
	ada.key("work")
	ada.fill("dialog [name=order]", "-3")
	ada.key(kb.Enter)
	ada.on("Edit Bobby")
	for _, p := range []*tab{ada, phone} {
		p.says("[data-list=friends] .person-name", "Bobby")
		p.says("[data-list=friends] .tag", "work")
		p.says(".chips", "work")
	}

	// A device is logged out from another one.
	ada.visit("#/profile")
	ada.until("two devices", `document.querySelectorAll(".devices [data-device]").length === 2`)
	ada.says(".devices", "this device")
	ada.says(".devices", "127.0.0.1")
	ada.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll(".devices li")].find((d) => !d.textContent.includes("this device")).querySelector("button").click()`))
	phone.says(".banner", "logged out")
	phone.until("the form", `document.querySelector("[name=email]") !== null`)
	ada.until("one device", `document.querySelectorAll(".devices [data-device]").length === 1`)

	// All others follow, as soon as they are logged in, by the keyboard alone.
	phone.logInBy("ada@example.com", "correct horse")
	ada.until("two devices", `document.querySelectorAll(".devices [data-device]").length === 2`)
	ada.tabTo("Log out all other devices")
	ada.key(kb.Enter)
	ada.on("Cancel")
	ada.key(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift))
	ada.on("Yes, log out the others")
	ada.key(kb.Enter)
	phone.says(".banner", "logged out")
	ada.says("[data-part=devices] .saved", "All other devices are logged out")
	ada.on("Logged-in devices")

	// A block ends the friendship on both sides, and the other user gets no event.
	ada.visit("#/friends")
	ada.button("Edit Bobby")
	ada.button("Block")
	ada.button("Yes, block them")
	ada.says("[data-list=blocks]", "Bob")
	ada.lacks("[data-list=friends] li")
	bob.lacks("[data-list=friends] li")
	id, err := chromedp.Run(ada.ctx, chromedp.Evaluate[string](`JSON.parse(localStorage.getItem("stoa.session")).user.id`))
	if err != nil {
		t.Fatal(err)
	}
	bob.typ("[name=who]", "ada@example.com") // she has not allowed that
	bob.button("Find")
	bob.says(".none", "Nobody can be found")
	bob.fill("[name=who]", id)
	bob.key(kb.Enter)
	bob.on("Ada")
	bob.until("the form", `document.querySelector(".found [name=message]") !== null`)
	bob.tabTo("Message (optional)")
	bob.key(kb.Enter)
	bob.until("a refusal", `document.querySelector(".found .form-fault").textContent !== ""`)
	ada.tabTo("Unblock Bob")
	ada.key(kb.Enter)
	ada.lacks("[data-list=blocks] li")
	ada.on("Friends")

	// One request is withdrawn, another refused, and the third accepted. The keyboard focus stays near the changed
	// element.
	bob.key(kb.Enter)
	bob.on("Ada")
	ada.says("[data-box=in]", "Bob")
	bob.tabTo("Withdraw")
	bob.key(kb.Enter)
	bob.on("Ada")
	ada.lacks("[data-box=in] li")
	bob.tabTo("Message (optional)")
	bob.key(kb.Enter)
	ada.says("[data-box=in]", "Bob")
	bob.on("Ada")
	ada.tabTo("Refuse Bob")
	ada.key(kb.Enter)
	ada.lacks("[data-box=in] li")
	ada.on("Friends")
	bob.lacks("[data-box=out] li")
	bob.until("the form", `document.querySelector(".found [name=message]") !== null`)
	bob.tabTo("Message (optional)")
	bob.key(kb.Enter)
	ada.says("[data-box=in]", "Bob")
	ada.tabTo("Accept Bob")
	ada.key(kb.Enter)
	ada.on("1 friend")
	bob.says("[data-list=friends]", "met through search")

	// A card is renewed after too many users have seen it.
	ada.tabTo("Renew")
	ada.key(kb.Enter)
	ada.on("Cancel")
	ada.key(kb.Escape)
	ada.on("Renew")
	ada.key(kb.Enter)
	ada.on("Cancel")
	ada.key(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift))
	ada.key(kb.Enter)
	ada.says("[data-part=card]", "The old one is worthless")
	ada.on("Renew")
	bob.visit("#" + strings.SplitN(card, "#", 2)[1])
	bob.says(".none", "worth nothing any more")
	renewed, err := chromedp.Run(ada.ctx, chromedp.Value(chromedp.CSS(".link-text")))
	if err != nil {
		t.Fatal(err)
	}
	bob.visit("#" + strings.SplitN(renewed, "#", 2)[1])
	bob.says(".found h2", "Ada")

	// Other users see a deleted account as a deleted user until its owner logs in again.
	ada.visit("#/profile")
	ada.button("Delete my account")
	ada.typ("[data-part=deletion] [name=password]", "wrong horse")
	ada.button("Yes, delete my account")
	ada.says("[data-part=deletion] .form-fault", "wrong")
	ada.fill("[data-part=deletion] [name=password]", "correct horse")
	ada.button("Yes, delete my account")
	ada.says(".banner", "Your account is deleted")
	bob.visit("#/")
	bob.visit("#/friends")
	bob.says("[data-list=friends]", "Deleted user")
	ada.logInBy("ada@example.com", "correct horse")
	ada.says(".banner", "Your account is restored")
	bob.visit("#/")
	bob.visit("#/friends")
	bob.says("[data-list=friends]", "Ada")
}

func TestAProfileIsChangedInTheBrowser(t *testing.T) {
	t.Parallel()
	url := serve(t, "--accounts-limits-codes-per-minute", "5")
	p := browse(t, url+"/")
	p.signUp("ada@example.com", "Ada", "correct horse")
	p.visit("#/profile")
	other := p.open(url + "/#/profile")
	other.says(".live", "Live")

	// A picture: previewed, stored, shown in the other tab, removed.
	img := image.NewRGBA(image.Rect(0, 0, 300, 200))
	for i := range img.Pix {
		img.Pix[i] = 0xff
	}
	img.Set(1, 1, color.RGBA{200, 60, 30, 255})
	name := filepath.Join(t.TempDir(), "me.png")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := png.Encode(f, img); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	p.do(chromedp.SetUploadFiles(chromedp.CSS("#picture"), []string{name}))
	p.until("the preview", `document.querySelector("canvas.face") !== null`)
	p.button("Use this picture")
	for _, p := range []*tab{p, other} {
		p.until("the picture", `document.querySelector("img.face")?.naturalWidth > 0`)
	}
	p.button("Remove my picture")
	for _, p := range []*tab{p, other} {
		p.until("no picture", `document.querySelector("img.face") === null`)
	}

	// The bio, and who may find Ada.
	p.fill("[name=bio]", "Engines,\nand what they weave.")
	p.click("form .primary")
	p.says("form .saved", "Saved")
	other.until("the words", `document.querySelector("[name=bio]").value.startsWith("Engines")`)
	p.click("[name=find_by_email]")
	other.until("the switch", `document.querySelector("[name=find_by_email]").checked`)

	// The password: a wrong one is refused, and the session continues.
	p.typ("[data-part=password] [name=current]", "wrong horse")
	p.typ("[data-part=password] [name=password]", "a new horse")
	p.click("[data-part=password] .primary")
	p.says("[data-part=password] .form-fault", "wrong")
	p.fill("[data-part=password] [name=current]", "correct horse")
	p.click("[data-part=password] .primary")
	p.says("[data-part=password] .saved", "Your password is set")

	// The address: a code is mailed to the new one.
	p.typ("[data-part=email] [name=email]", "lovelace@example.com")
	p.click("[data-part=email] .primary")
	p.useCode()
	p.typ("[data-part=email] [name=password]", "a new horse")
	p.click("[data-part=email] .primary")
	for _, p := range []*tab{p, other} {
		p.says("[data-part=email] strong", "lovelace@example.com")
	}

	// A forgotten password is reset by a code.
	p.click("nav button")
	p.says(".banner", "logged out")
	p.click("[name=purpose][value=login]")
	p.button("Use my password")
	p.typ("[name=email]", "lovelace@example.com")
	p.button("Forgot your password?")
	p.click("form .primary")
	p.useCode()
	p.typ("[name=password]", "third horse")
	p.click("form .primary")
	p.says(".banner", "Your password is changed")
	p.says("nav", "Log out")
}
