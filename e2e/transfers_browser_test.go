package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// chooses selects a file in the page's file field.
func (p *tab) chooses(css, file string) {
	p.t.Helper()
	p.until("the field for a file", fmt.Sprintf("document.querySelector(%q) !== null", css))
	p.do(chromedp.SetUploadFiles(chromedp.CSS(css), []string{file}))
}

// A file is sent from one user to another. The line is cut in the middle, and the received file is complete.
func TestAFileIsWholeAfterABrokenLineInTheBrowser(t *testing.T) {
	t.Parallel()
	ada, bob, l := twoFriends(t)
	content := make([]byte, 12<<20)
	chacha := rand.NewChaCha8([32]byte{1})
	_, _ = chacha.Read(content)
	name := filepath.Join(t.TempDir(), "plan of the boathouse.pdf")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}

	// Bob offers a file; Ada, on another page, finds the offer and accepts.
	ada.visit("#/chats")
	bob.chooses("input[name=offer]", name)
	bob.says(".transfer", "Waits for Ada to accept it.")
	ada.says(".offers", "offers you plan of the boathouse.pdf")
	ada.click(".offers a")
	ada.says(".transfer", "Offered to you.")

	l.cutAfter(len(content) / 2)
	ada.button("Accept")
	bob.says(".room-note", "There is no connection")
	ada.until("a part of it", `document.querySelector(".transfer progress")?.value > 0`)
	if got := ada.text("[data-status=done]"); got != "" {
		t.Fatalf("the file has arrived before the line was cut: %s", got)
	}
	l.mend()
	for _, p := range []*tab{ada, bob} {
		p.until("the end", `document.querySelector(".transfer")?.dataset.status === "done"`)
	}
	bob.says(".transfer", "Delivered.")
	sum, err := chromedp.Run(ada.ctx, chromedp.Evaluate[string](`(async () => {
		const headers = { Authorization: "Bearer " + JSON.parse(localStorage.getItem("stoa.session")).access };
		const { url } = await (await fetch("/v1/transfers/" + document.querySelector(".transfer").dataset.transfer + "/link", { method: "POST", headers })).json();
		const hash = await crypto.subtle.digest("SHA-256", await (await fetch(url)).arrayBuffer());
		return [...new Uint8Array(hash)].map((b) => b.toString(16).padStart(2, "0")).join("");
	})()`, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	want := sha256.Sum256(content)
	if sum != hex.EncodeToString(want[:]) {
		t.Errorf("the file that arrived has SHA-256 %s, want %x", sum, want)
	}

	// The button of the page downloads the same file.
	ada.do(chromedp.Evaluate[chromedp.Void](`HTMLAnchorElement.prototype.click = function () { document.body.dataset.saved = this.download + " " + this.pathname; }`))
	ada.button("Save the file")
	ada.until("the download", `/^plan of the boathouse.pdf \/v1\/files\/./.test(document.body.dataset.saved)`)
	ada.button("Remove it")
	bob.says(".transfer", "Not here any more.")

	// A page that was closed resumes with the same file after the user has selected it again, and with no other file.
	bob.chooses("input[name=offer]", name)
	ada.until("another one", `document.querySelectorAll(".transfer").length === 2`)
	bob.do(chromedp.Reload())
	ada.button("Accept")
	bob.says(".transfer:last-of-type", "Choose the file again to go on")
	other := filepath.Join(t.TempDir(), "other.pdf")
	if err := os.WriteFile(other, bytes.Repeat([]byte("x"), 99), 0o600); err != nil {
		t.Fatal(err)
	}
	bob.chooses(".transfer input[type=file]", other)
	bob.says(".transfer:last-of-type", "That is another file than plan of the boathouse.pdf.")
	bob.chooses(".transfer input[type=file]", name)
	ada.until("the second", `document.querySelector(".transfer:last-of-type").dataset.status === "done"`)

	// Both users see a rejection; the page shows the server's refusal.
	bob.chooses("input[name=offer]", other)
	ada.button("Reject")
	ada.says(".transfer:last-of-type", "You did not want it.")
	bob.says(".transfer:last-of-type", "Ada did not want it.")
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	bob.chooses("input[name=offer]", empty)
	bob.says(".banner", "The file is empty")
	ada.legible("a chat with files")
	ada.fits("a chat with files")
}
