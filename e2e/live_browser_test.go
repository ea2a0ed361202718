package e2e

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stoa-dev/stoa/api"
)

// exchange is WHIP and WHEP in a browser: the offer is sent without waiting for candidates.
const exchange = `
	window.exchange = async (pc, path, key) => {
		await pc.setLocalDescription();
		let resp; // 503: the server says to try again
		do resp = await fetch(path, {method: "POST", headers: {"Content-Type": "application/sdp", Authorization: "Bearer " + key}, body: pc.localDescription.sdp});
		while (resp.status === 503);
		if (resp.status !== 201) throw new Error(resp.status + " " + await resp.text());
		await pc.setRemoteDescription({type: "answer", sdp: await resp.text()});
	};`

// A browser publishes the picture of a canvas, and another browser shows it. A late viewer sees it as well.
func TestABrowserPublishesAndBrowsersWatch(t *testing.T) {
	t.Parallel()
	url := serve(t, "--dev=true", "--live-udp", "127.0.0.1:0")
	ann := register(t, url, "ann@example.org")
	made, err := ann.CreateStream(t.Context(), api.StreamNew{Title: "A green canvas"})
	if err != nil {
		t.Fatal(err)
	}
	path := "/v1/streams/" + made.Stream.ID
	run := func(p *tab, script string) {
		t.Helper()
		script = strings.NewReplacer("PATH", path, "PUBLISH", made.Keys.Publish, "PLAY", made.Keys.Play).Replace(script)
		p.do(chromedp.Evaluate[chromedp.Void](exchange + script))
	}
	publisher := browse(t, url)
	run(publisher, `
		const canvas = document.createElement("canvas");
		canvas.width = 320; canvas.height = 240;
		const paint = canvas.getContext("2d");
		let n = 0;
		setInterval(() => { paint.fillStyle = "rgb(0, 200, 0)"; paint.fillRect(0, 0, 320, 240); paint.fillStyle = "white"; paint.fillRect(n++ % 300, 0, 20, 20); }, 50);
		const pc = window.pc = new RTCPeerConnection();
		for (const track of canvas.captureStream(20).getTracks()) pc.addTransceiver(track, {direction: "sendonly"});
		window.exchange(pc, "PATH/whip", "PUBLISH").then(() => { window.published = true; }, (e) => { window.failed = String(e); });
	`)
	publisher.until("the browser to publish", `window.published === true && window.pc.connectionState === "connected"`)
	watch := func(p *tab) {
		t.Helper()
		run(p, `
			const pc = window.pc = new RTCPeerConnection();
			pc.addTransceiver("video", {direction: "recvonly"});
			pc.addTransceiver("audio", {direction: "recvonly"});
			const video = window.video = document.createElement("video");
			video.muted = true; video.autoplay = true;
			document.body.append(video);
			pc.ontrack = (e) => { if (e.track.kind === "video") { video.srcObject = new MediaStream([e.track]); video.play(); } };
			window.green = () => {
				if (!(video.videoWidth > 0)) return false;
				const c = document.createElement("canvas");
				c.width = 320; c.height = 240;
				const g = c.getContext("2d");
				g.drawImage(video, 0, 0, 320, 240);
				const [r, green, b] = g.getImageData(160, 200, 1, 1).data;
				return green > 120 && r < 80 && b < 80;
			};
			window.exchange(pc, "PATH/whep", "PLAY").catch((e) => { window.failed = String(e); });
		`)
		p.until("the canvas to be seen", `window.green() === true`)
	}
	viewer := publisher.stranger(url)
	watch(viewer)
	watch(publisher.stranger(url))
	if err := ann.StopStream(t.Context(), made.Stream.ID); err != nil {
		t.Fatal(err)
	}
	viewer.until("the viewer to be sent away", `["closed", "failed", "disconnected"].includes(window.pc.connectionState)`)
}
