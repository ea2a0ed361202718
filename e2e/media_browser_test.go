package e2e

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// drawing writes a picture of that size into a file, and returns its path.
func drawing(t *testing.T, width, height int) string {
	t.Helper()
	var drawn bytes.Buffer
	if err := png.Encode(&drawn, image.NewRGBA(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "picture.png")
	if err := os.WriteFile(file, drawn.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A picture and a file are sent to a group's chat from its field. A system message reports a new member of the group. An
// app of another origin shows the picture by the example in the client's README.
func TestPicturesFilesAndNoticesInTheBrowser(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>An app</title>")
	}))
	defer app.Close()
	ada, bob, _ := twoFriends(t, "--origins", app.URL, "--limits=false")
	bob.visit("#/")
	place := `document.querySelector(".top").getBoundingClientRect().right - document.querySelector(".bell").getBoundingClientRect().left`
	before := evaluated[float64](bob, place)
	group := ada.group("Rowing", bob)
	bob.says("[data-unread-notices]", "1")
	bob.lacks("[data-unread-chats]") // a system message needs no reading
	ada.ask("POST", "/v1/chats/u:"+bob.id()+"/messages", `{"client_id":"a","kind":"text","text":"Look"}`)
	bob.says("[data-unread-chats]", "1")
	if after := evaluated[float64](bob, place); after != before {
		t.Errorf("what is unread has moved the bell by %v pixels", after-before)
	}
	bob.click(".bell")
	bob.says(".notices", "Ada has added you to Rowing.")
	bob.lacks("[data-unread-notices]")
	bob.fits("the notices")
	bob.legible("the notices")
	// The responses to two requests for the notices arrive in the other order.
	bob.do(chromedp.Evaluate[chromedp.Void](slowsAnswers + `; slow = "/notices"; window.late = undefined`))
	ada.group("First group", bob)
	bob.until("an answer that is late", "late")
	ada.group("Second group", bob)
	bob.says(".notices", "Second group")
	bob.do(chromedp.Evaluate[chromedp.Void](`late()`))
	bob.settles()
	bob.until("both", `["First group", "Second group"].every((name) => document.querySelector(".notices").textContent.includes(name))`)
	bob.click(".notices a")
	bob.happens("Ada made the group Second group with you.")
	bob.visit("#/chats/g:" + group)
	bob.happens("Ada made the group Rowing with you.")

	dir := t.TempDir()
	for name, content := range map[string][]byte{"plan.txt": []byte("We begin at eight."), "empty": nil} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ada.visit("#/chats/g:" + group)
	ada.chooses(".writing input[type=file]", drawing(t, 900, 600))
	bob.until("the thumbnail", `document.querySelector("img.shot")?.naturalWidth > 0 && document.querySelector("img.shot").alt === "picture.png"`)
	readme, err := os.ReadFile(filepath.Join(jsClient, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^img\..*$`).FindAllString(string(readme), -1)
	elsewhere := ada.stranger(app.URL)
	script := fmt.Sprintf("globalThis.img = new Image(); (() => { const client = { at: (url) => url }, url = %q;\n%s\n})()",
		evaluated[string](bob, `document.querySelector("img.shot").src`), strings.Join(lines, "\n"))
	elsewhere.do(chromedp.Evaluate[chromedp.Void](script))
	elsewhere.until("the thumbnail in the app", "img.naturalWidth > 0")
	bob.click(".shot-link")
	bob.until("the picture in a dialog", `document.querySelector("dialog .viewed")?.naturalWidth > 320`)
	bob.button("Close")
	bob.lacks("dialog")
	ada.lacks("[data-sending]")

	// The token expires in the middle of an upload, while the server cannot be reached.
	ada.do(chromedp.Evaluate[chromedp.Void](`(() => {
		const real = window.fetch;
		window.did = [];
		window.fetch = async (url, init) => {
			const { pathname } = new URL(url, location);
			if (pathname === "/v1/transfers" && did.length === 0) {
				did.push("expired");
				return new Response(JSON.stringify({ code: "auth.token_invalid" }), { status: 401, headers: { "Content-Type": "application/problem+json" } });
			}
			if (pathname === "/v1/auth/refresh" && did.length === 1) {
				did.push("cut");
				throw new TypeError("The line is cut.");
			}
			return real(url, init);
		};
	})()`))
	ada.chooses(".writing input[type=file]", filepath.Join(dir, "plan.txt"))
	bob.says(".stored", "plan.txt")
	if got := evaluated[string](ada, "did.join()"); got != "expired,cut" {
		t.Errorf("what happened on the way is %q", got)
	}
	bob.button("Save the file")
	ada.chooses(".writing input[type=file]", filepath.Join(dir, "empty"))
	ada.says(".composer .fault", "The file is empty")
	bob.fits("a chat with pictures")
	bob.legible("a chat with pictures")
}

// A voice message is recorded from the browser's fake microphone, and its receiver plays it.
func TestAVoiceMessageIsSentInTheBrowser(t *testing.T) {
	t.Parallel()
	ada, bob, _ := twoFriends(t)
	ada.button("Record a voice message")
	ada.says(".recorder", "Recording")
	ada.until("a second of it", `document.querySelector(".record-time").textContent !== "0:00"`)
	ada.fits("a recording")
	ada.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll(".recorder button")].at(-1).click()`))
	ada.lacks(".recorder")
	ada.lacks("[data-sending]")
	bob.until("the message, with how loud it is", `document.querySelectorAll(".theirs .recording").length === 1 && document.querySelectorAll(".theirs .recording button").length === 1`)
	bob.legible("a voice message")
	// The link could not be loaded, or has expired: the next tap plays the message.
	bob.do(chromedp.Evaluate[chromedp.Void](`(() => {
		window.heard = window.times = 0;
		const { set } = Object.getOwnPropertyDescriptor(HTMLMediaElement.prototype, "src");
		Object.defineProperty(HTMLMediaElement.prototype, "src", { set(url) { set.call(this, times++ ? url : "/gone"); } });
		const play = HTMLMediaElement.prototype.play;
		HTMLMediaElement.prototype.play = function () { this.addEventListener("timeupdate", () => (heard = this.currentTime)); return play.call(this); };
	})()`))
	bob.click(".theirs .recording button")
	bob.says(".theirs .fault", "cannot be played")
	bob.click(".theirs .recording button")
	bob.until("the sound", `heard > 0 && document.querySelector(".theirs .fault").textContent === ""`)

	// The microphone is ready only after the user has left the chat: the page records nothing in the background. A second
	// tap while the browser asks starts no second recording.
	ada.do(chromedp.Evaluate[chromedp.Void](`(() => {
		const real = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
		window.streams = [];
		navigator.mediaDevices.getUserMedia = async (wants) => {
			await new Promise((go) => (window.allow = go));
			streams.push(await real(wants));
			return streams.at(-1);
		};
	})()`))
	ada.button("Record a voice message")
	ada.button("Record a voice message")
	ada.do(chromedp.Evaluate[chromedp.Void](`allow()`))
	ada.says(".recorder", "Recording")
	ada.until("one recording", `streams.length === 1 && document.querySelectorAll(".recorder").length === 1`)
	ada.button("Cancel")
	ada.lacks(".recorder")

	ada.button("Record a voice message")
	ada.visit("#/chats")
	ada.lacks(".room-who")
	ada.do(chromedp.Evaluate[chromedp.Void](`allow()`))
	ada.until("the end of the recording", `streams.length === 2 && streams.every((s) => s.getTracks().every((track) => track.readyState === "ended"))`)
	ada.visit("#/chats/" + bob.id())
	ada.button("Record a voice message")
	ada.do(chromedp.Evaluate[chromedp.Void](`allow()`))
	ada.says(".recorder", "Recording")
}
