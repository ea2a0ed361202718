package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// fits fails if the page is wider than the window, on a phone or on a desktop.
func (p *tab) fits(view string) {
	p.t.Helper()
	for _, width := range []int64{390, 1280} {
		p.do(chromedp.EmulateViewport(width, 900))
		p.until(fmt.Sprintf("%s in %d pixels", view, width), "document.documentElement.scrollWidth <= innerWidth")
	}
}

func TestThePageSpeaksChinese(t *testing.T) {
	t.Parallel()
	url := serve(t)
	p := browse(t, url+"/")
	p.says(".pitch h1", "A social backend")
	// The texts of a language are in a separate file; the page works without it.
	bare := p.stranger(url + "/")
	bare.says(".pitch h1", "A social backend")
	if _, err := chromedp.Call(bare.ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(bare.ctx, network.SetBlockedURLs,
		network.SetBlockedURLsParams{URLPatterns: []*network.BlockPattern{{URLPattern: "*://*:*/assets/zh-*", Block: true}}}); err != nil {
		t.Fatal(err)
	}
	bare.button("中文")
	bare.until("the other language", `localStorage.getItem("stoa.language") === "zh"`)
	bare.says(".pitch h1", "A social backend")

	p.fits("the start in English")
	p.tabTo("中文")
	p.key(kb.Enter)
	p.says(".pitch h1", "社交后端")
	p.until("the language of the document", `document.documentElement.lang === "zh-CN"`)
	p.fits("the start")

	// The server's texts are also Chinese.
	p.typ("[name=email]", "ada@example.com")
	p.click("form .primary")
	p.useCode()
	code, err := chromedp.Run(p.ctx, chromedp.Value(chromedp.CSS("[name=code]")))
	if err != nil {
		t.Fatal(err)
	}
	p.fill("[name=code]", code[:5]+string('0'+(code[5]-'0'+1)%10))
	p.typ("[name=name]", "小爱")
	p.click("form .primary")
	p.says(".form-fault", "验证码错误、已使用或已过期")
	p.says(".fault", "验证码：错误")
	p.fill("[name=code]", code)

	// The user types a zone by its city only.
	p.fill("[name=zone]", "nowhere")
	p.until("a zone that is none", `!document.querySelector("[name=zone]").dispatchEvent(new Event("input")) || !document.querySelector("[name=zone]").checkValidity()`)
	p.fill("[name=zone]", "kolkata")
	p.until("its offset", `document.querySelector("[name=zone]").dispatchEvent(new Event("input")) && document.querySelector("[name=zone]").checkValidity() &&
		document.querySelector("[name=zone]").closest(".field").textContent.includes("+05:30")`)
	p.do(chromedp.Focus(chromedp.CSS("[name=zone]")))
	p.until("present names", `[...document.querySelectorAll("#zones option")].some((o) => o.value === "Asia/Kolkata" && o.textContent.includes("印度")) &&
		![...document.querySelectorAll("#zones option")].some((o) => o.value === "Asia/Calcutta")`)
	p.click("form .primary")

	p.says("nav", "退出")
	p.says(".home h1", "小爱")
	p.says(".left", "Kolkata")
	p.says("#checkin", "签到")
	p.click("#checkin")
	p.says("#checkin", "今天已签到")
	p.says(".sentence", "第一天已计入")
	p.says("[data-board=streak] li.mine", "1 天")
	p.says(".heat", "已签到 1 天")
	p.fits("the home")
	for hash, text := range map[string]string{"#/friends": "还没有好友", "#/profile": "已登录的设备"} {
		p.visit(hash)
		p.says("main", text)
		p.fits(hash)
	}
	p.visit("#/")

	// The way back.
	p.tabTo("English")
	p.key(kb.Enter)
	p.says("nav", "Log out")
}

func TestPage_FollowsSignInByTheApp(t *testing.T) {
	t.Parallel()
	url := serve(t, "--accounts-sign-in", "jwt", "--jwt-secret", strings.Repeat("s", 32), "--jwt-issuer", "https://app.example.org",
		"--jwt-audience", "stoa", "--jwt-algorithms", "HS256")
	p := browse(t, url+"/")
	p.says(".auth", "Sign in with the app that uses this server.")
	p.lacks("[name=email]")
	p.stranger(url+"/welcome").says("h1", "There is nothing at this path.")
}

var pictures = flag.String("pictures", "", "write what the README shows into this folder, which needs fonts for Chinese and emoji")

func TestADemoIsAliveAtFirstSight(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if out, err := exec.Command(stoaBinary(t), "demo", "--data", data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	url := serve(t, "--data", data)
	p := browse(t, url+"/")
	p.click("[name=purpose][value=login]")
	p.typ("[name=email]", "ada@demo.example")
	p.click("form .primary")
	p.useCode()
	p.click("form .primary")
	p.says("[data-streak]", "11")
	p.until("ten on the board", `document.querySelectorAll("[data-board=streak] li[data-user]").length >= 10`)

	// A board without names is requested again soon. While the page is hidden, it sends none of the requests that it
	// otherwise repeats every minute.
	p.do(chromedp.Evaluate[chromedp.Void](`((real) => {
		Object.defineProperty(document, "visibilityState", { value: "hidden", configurable: true });
		window.fetch = async (url, init) => {
			const res = await real(url, init);
			if (!String(url).includes("scope=friends")) return res;
			window.fetch = real;
			return new Response(JSON.stringify(await res.json(), (key, value) => (key === "user" ? undefined : value)), res);
		};
	})(fetch)`))
	p.click("[name=scope][value=friends]")
	p.until("Ada among her friends", `document.querySelector("[data-board=streak] li.mine") !== null && document.querySelectorAll("[data-board=streak] li").length > 5`)
	p.do(chromedp.Evaluate[chromedp.Void](`void delete document.visibilityState`))

	p.visit("#/friends")
	p.says("[data-list=friends]", "days in a row")

	// Some users of the demo have written, in two languages, and the page shows the messages as if they had been sent.
	p.says("[data-unread-chats]", "5")
	p.visit("#/chats")
	p.until("the chats, the pinned one first", `((rows) => rows.length === 7 && rows[0].querySelector(".chat-name").textContent === "明远")([...document.querySelectorAll(".chat-list .chat-row")].filter((row) => !row.textContent.includes("offers you")))`)
	p.says(".chat-scroll", "Will you come?")
	p.click(".chat-scroll li:nth-child(2) a")
	p.says(".newline + .message", "along the canal")
	p.says(`[data-seq="4"] .quoted`, "Thirty is not far")
	p.says(`[data-seq="2"] .reaction`, "🎉")
	p.until("the ticks", `document.querySelector('[data-seq="4"]').dataset.tick === "read"`)
	p.write("I will")
	p.until("the answer", `document.querySelector('[data-seq="7"]')?.dataset.tick === "sent"`)
	p.visit("#/chats")
	p.typ("[name=search]", "画家")
	p.says(".search-found", "1 message found")
	if *pictures != "" {
		p.do(chromedp.EmulateViewport(1100, 760))
		p.visit("#/")
		p.until("ten on the board", `document.querySelectorAll("[data-board=streak] li[data-user]").length >= 10`)
		p.picture("home")
		p.visit("#/chats")
		p.click(".chat-scroll li:nth-child(2) a")
		p.says(".stream", "along the canal")
		p.picture("chats")
	}
}

// picture stores a screenshot of the window.
func (p *tab) picture(name string) {
	p.t.Helper()
	png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(*pictures, name+".png"), png, 0o644)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}
