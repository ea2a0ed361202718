package wholeserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

func someBytes(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// tus sends a request as a client of tus does; headers are pairs of name and value.
func (p *deployment) tus(node int, who *client.Client, method, path string, body io.Reader, headers ...string) *http.Response {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.nodes[node].URL+path, body)
	must(p.t, err)
	if who != nil {
		req.Header.Set("Authorization", "Bearer "+who.Tokens().AccessToken)
	}
	req.Header.Set("Tus-Resumable", "1.0.0")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := p.nodes[node].HTTP.Do(req)
	must(p.t, err)
	b, err := io.ReadAll(resp.Body)
	must(p.t, err)
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(b))
	return resp
}

const offsetOctets = "application/offset+octet-stream"

// A client of tus resumes from the response headers, also those of a replayed response.
func TestARetriedCreationSaysWhereTheUploadGoesOn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 2)
		bob := p.join(0, "Bob")
		create := func(node int) *http.Response {
			return p.tus(node, bob.c, "POST", "/v1/uploads", nil, "Idempotency-Key", "k", "Upload-Length", "3", "Upload-Metadata", "filename eA==")
		}
		first, again := create(0), create(1)
		if first.StatusCode != 201 || again.StatusCode != 201 || again.Header.Get("Idempotency-Replayed") != "true" {
			t.Fatalf("got %d, then %d %v", first.StatusCode, again.StatusCode, again.Header)
		}
		for _, name := range []string{"Tus-Resumable", "Location", "Upload-Offset", "Upload-Length", "Upload-Expires"} {
			if got, want := again.Header.Get(name), first.Header.Get(name); got != want || want == "" {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	})
}

func TestAFileIsSentByTusAndFetchedByALink(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 2)
		bob, eve := p.join(0, "Bob"), p.join(1, "Eve")
		befriend(t, bob.c, eve.c)
		data := someBytes(9<<20 + 123) // three chunks
		meta := func(pairs ...string) string {
			var all []string
			for i := 0; i < len(pairs); i += 2 {
				all = append(all, pairs[i]+" "+base64.StdEncoding.EncodeToString([]byte(pairs[i+1])))
			}
			return strings.Join(all, ",")
		}
		wants := func(what string, r *http.Response, status int, code string) {
			t.Helper()
			b, _ := io.ReadAll(r.Body)
			if r.StatusCode != status || code != "" && !strings.Contains(string(b), `"`+code+`"`) || r.Header.Get("Tus-Resumable") != "1.0.0" {
				t.Errorf("%s: got %d %v %s", what, r.StatusCode, r.Header, b)
			}
		}
		r := p.tus(0, nil, "OPTIONS", "/v1/uploads", nil)
		if r.StatusCode != 204 || r.Header.Get("Tus-Version") != "1.0.0" ||
			r.Header.Get("Tus-Extension") != "creation,checksum,expiration,termination" || r.Header.Get("Tus-Max-Size") != "2147483648" {
			t.Errorf("got %d %v", r.StatusCode, r.Header)
		}
		wants("another version", p.tus(0, bob.c, "POST", "/v1/uploads", nil, "Tus-Resumable", "0.2.2"), 412, "transfer.tus_version")
		wants("no length", p.tus(0, bob.c, "POST", "/v1/uploads", nil, "Upload-Metadata", meta("to", eve.id, "filename", "x")), 400,
			"transfer.tus")
		wants("no user", p.tus(0, bob.c, "POST", "/v1/uploads", nil, "Upload-Length", "3", "Upload-Metadata", meta("to", "x", "filename", "x")),
			400, "transfer.tus")
		for _, kind := range []string{"partial", "final;/v1/transfers/a/upload /v1/transfers/b/upload"} {
			wants("Upload-Concat: "+kind, p.tus(0, bob.c, "POST", "/v1/uploads", nil, "Upload-Length", "3", "Upload-Concat", kind, "Upload-Metadata",
				meta("filename", "x")), 400, "transfer.tus")
		}
		wants("too large", p.tus(0, bob.c, "POST", "/v1/uploads", nil, "Upload-Length", "2147483649", "Upload-Metadata", meta("filename", "x")),
			413, "transfer.size")
		created := p.tus(0, bob.c, "POST", "/v1/uploads", nil, "Upload-Length", strconv.Itoa(len(data)),
			"Upload-Metadata", meta("to", eve.id, "filename", `../Ferien "Süd"; x.html`, "filetype", "text/html", "sha256", sum(data)))
		wants("creation", created, 201, "")
		upload := created.Header.Get("Location")
		id := strings.TrimSuffix(strings.TrimPrefix(upload, "/v1/transfers/"), "/upload")
		if created.Header.Get("Upload-Expires") == "" || len(id) != 12 {
			t.Fatalf("got %v", created.Header)
		}
		patch := func(node, from, to int, headers ...string) *http.Response {
			return p.tus(node, bob.c, "PATCH", upload, bytes.NewReader(data[from:to]),
				append([]string{"Content-Type", offsetOctets, "Upload-Offset", strconv.Itoa(from)}, headers...)...)
		}
		wants("a piece before the acceptance", patch(0, 0, 10), 409, "transfer.not_accepted")
		if _, err := bob.c.AcceptTransfer(t.Context(), id); client.CodeOf(err) != "transfer.not_yours" {
			t.Errorf("the sender accepts: %v", err)
		}
		if got, err := eve.c.AcceptTransfer(t.Context(), id); err != nil || got.Status != api.TransferTransferring ||
			got.Name != `Ferien _Süd_; x.html` {
			t.Fatalf("got %+v, %v", got, err)
		}
		if r := p.tus(0, bob.c, "PATCH", upload, bytes.NewReader(data[:10]), "Content-Type", "application/json", "Upload-Offset",
			"0"); r.StatusCode != 415 {
			t.Errorf("JSON is taken: %d", r.StatusCode)
		}
		wants("an offset that is none", patch(0, 0, 10, "Upload-Offset", "x"), 400, "transfer.tus")
		wants("another offset", patch(0, 5, 10), 409, "transfer.offset")
		wants("too much", p.tus(0, bob.c, "PATCH", upload, bytes.NewReader(make([]byte, len(data)+1)), "Content-Type", offsetOctets,
			"Upload-Offset", "0"), 422, "transfer.too_long")
		wants("a bad checksum", patch(0, 0, 1000, "Upload-Checksum", "sha256 "+base64.StdEncoding.EncodeToString(make([]byte, 32))), 460,
			"transfer.piece_checksum")
		wants("a checksum of no kind", patch(0, 0, 1000, "Upload-Checksum", "crc32 AAAA"), 400, "transfer.tus")
		good := sha256.Sum256(data[500:1000])
		post := func(method string, headers ...string) *http.Response {
			return p.tus(0, bob.c, "POST", upload, bytes.NewReader(data[:500]),
				append([]string{"X-HTTP-Method-Override", method, "Content-Type", offsetOctets}, headers...)...)
		}
		wants("a PATCH sent by POST", post("PATCH", "Upload-Offset", "0"), 204, "")
		if r := post("PUT"); r.StatusCode != 405 || r.Header.Get("Allow") == "" {
			t.Errorf("a PUT sent by POST: got %d %v", r.StatusCode, r.Header)
		}
		wants("a good checksum", patch(0, 500, 1000, "Upload-Checksum", "sha256 "+base64.StdEncoding.EncodeToString(good[:])), 204, "")
		stands := func(node int) string {
			return p.tus(node, bob.c, "HEAD", upload, nil).Header.Get("Upload-Offset")
		}
		if got := stands(1); got != "1000" {
			t.Errorf("it stands at %s", got)
		}

		// The connection breaks in the middle of a request.
		line, end := io.Pipe()
		broken := make(chan error, 1)
		go func() {
			req, err := http.NewRequestWithContext(t.Context(), "PATCH", p.nodes[0].URL+upload, line)
			if err != nil {
				broken <- err
				return
			}
			req.Header.Set("Authorization", "Bearer "+bob.c.Tokens().AccessToken)
			req.Header.Set("Content-Type", offsetOctets)
			req.Header.Set("Upload-Offset", "1000")
			resp, err := p.nodes[0].HTTP.Do(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			broken <- err
		}()
		if _, err := end.Write(data[1000 : 5<<20]); err != nil {
			t.Fatal(err)
		}
		_ = end.CloseWithError(errors.New("the line is cut"))
		if err := <-broken; err == nil {
			t.Error("the line was not cut")
		}
		eventually.Equal(t, "where it stands", strconv.Itoa(5<<20), func() string { return stands(1) })
		// The client uploads the rest through the other node.
		other := p.client(1, client.WithTokens(bob.c.Tokens()))
		must(t, other.Upload(t.Context(), id, bytes.NewReader(data), int64(len(data))))
		got, err := eve.c.Transfer(t.Context(), id)
		if err != nil || got.Status != api.TransferDone || got.Percent != 100 || got.Chunk != 3 || got.Chunks != 3 || !got.Available ||
			got.SHA256 != sum(data) {
			t.Errorf("got %+v, %v", got, err)
		}
		var whole bytes.Buffer
		if n, err := eve.c.Download(t.Context(), id, 0, &whole); err != nil || n != int64(len(data)) || !bytes.Equal(whole.Bytes(), data) {
			t.Errorf("%d bytes came, %v", n, err)
		}
		whole.Reset()
		if _, err := eve.c.Download(t.Context(), id, 4<<20+1, &whole); err != nil || !bytes.Equal(whole.Bytes(), data[4<<20+1:]) {
			t.Errorf("%d bytes came of the rest, %v", whole.Len(), err)
		}
		p.isNoContentOfOurs(eve.c, id, data)
		for _, who := range []*talker{bob, eve} {
			eventually.True(t, "both to hear of the end", func() bool {
				return strings.Count(strings.Join(who.all(), " "), api.EventTransferUpdated) == 3 &&
					slices.Contains(who.all(), api.EventTransferProgress)
			})
		}
		wants("the end", p.tus(0, bob.c, "DELETE", upload, nil), 204, "")
		wants("GET of a removed file", p.tus(1, bob.c, "GET", upload, nil), 410, "transfer.gone")
		if _, err := eve.c.FileLink(t.Context(), id); client.CodeOf(err) != "transfer.gone" {
			t.Errorf("a link to what was removed: %v", err)
		}
	})
}

func TestTus_EndedUploadsAnswer410(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 2)
		bob, eve := p.join(0, "Bob"), p.join(1, "Eve")
		befriend(t, bob.c, eve.c)
		offer := func(to string) string {
			offered, err := bob.c.OfferFile(t.Context(), api.TransferOffer{To: to, Name: "x", Size: 10, SHA256: sum(nil)})
			must(t, err)
			return offered.ID
		}
		cancelled, rejected, failed := offer(""), offer(eve.id), offer("")
		if _, err := bob.c.CancelTransfer(t.Context(), cancelled); err != nil {
			t.Fatal(err)
		}
		if _, err := eve.c.RejectTransfer(t.Context(), rejected); err != nil {
			t.Fatal(err)
		}
		if err := bob.c.Upload(t.Context(), failed, strings.NewReader("0123456789"), 10); client.CodeOf(err) != "transfer.checksum" {
			t.Fatalf("got %v", err)
		}
		for name, id := range map[string]string{"cancelled": cancelled, "rejected": rejected, "failed": failed} {
			upload := "/v1/transfers/" + id + "/upload"
			if r := p.tus(1, bob.c, "HEAD", upload, nil); r.StatusCode != 410 || r.Header.Get("Upload-Offset") != "" {
				t.Errorf("HEAD of a %s upload: got %d %v", name, r.StatusCode, r.Header)
			}
			if r := p.tus(1, bob.c, "PATCH", upload, strings.NewReader("0123456789"), "Content-Type", offsetOctets, "Upload-Offset",
				"0"); r.StatusCode != 410 {
				t.Errorf("PATCH of a %s upload: got %d", name, r.StatusCode)
			}
		}
	})
}

// isNoContentOfOurs checks the headers that prevent a download from being a page of the server. It also checks ranges.
func (p *deployment) isNoContentOfOurs(who *client.Client, id string, data []byte) {
	t := p.t
	t.Helper()
	link, err := who.FileLink(t.Context(), id)
	must(t, err)
	if until := time.Until(link.Expires.Time); until < 4*time.Minute || until > 5*time.Minute {
		t.Errorf("the link is good for %s", until)
	}
	r := p.tus(1, nil, "GET", link.URL, nil)
	for name, want := range map[string]string{
		"Content-Type":                 "application/octet-stream",
		"Content-Disposition":          `attachment; filename="Ferien _S_d_; x.html"; filename*=UTF-8''Ferien%20_S%C3%BCd_%3B%20x.html`,
		"Content-Security-Policy":      "default-src 'none'; frame-ancestors 'none'; sandbox",
		"X-Content-Type-Options":       "nosniff",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Referrer-Policy":              "no-referrer",
		"X-Frame-Options":              "DENY",
		"Cache-Control":                "private, no-store",
		"Etag":                         `"` + sum(data) + `"`,
		"Accept-Ranges":                "bytes",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, tc := range []struct {
		headers []string
		status  int
		want    []byte
	}{
		{[]string{"Range", "bytes=10-19"}, 206, data[10:20]},
		{[]string{"Range", "bytes=-5"}, 206, data[len(data)-5:]},
		{[]string{"Range", fmt.Sprintf("bytes=%d-%d", 4<<20-2, 4<<20+2)}, 206, data[4<<20-2 : 4<<20+3]}, // over two parts
		{[]string{"Range", "bytes=10-19", "If-Range", `"` + sum(data) + `"`}, 206, data[10:20]},
		{[]string{"Range", "bytes=10-19", "If-Range", `"another"`}, 200, data},
		{[]string{"If-None-Match", `"` + sum(data) + `"`}, 304, nil},
		{[]string{"Range", fmt.Sprintf("bytes=%d-", len(data))}, 416, nil},
	} {
		r := p.tus(0, nil, "GET", link.URL, nil, tc.headers...)
		b, _ := io.ReadAll(r.Body)
		if r.StatusCode != tc.status || tc.want != nil && !bytes.Equal(b, tc.want) {
			t.Errorf("%q: got %d and %d bytes", tc.headers, r.StatusCode, len(b))
		}
	}
	if r := p.tus(0, nil, "HEAD", link.URL, nil); r.StatusCode != 200 || r.ContentLength != int64(len(data)) {
		t.Errorf("HEAD: %d, %d bytes", r.StatusCode, r.ContentLength)
	}
	if r := p.tus(0, nil, "GET", link.URL[:len(link.URL)-3]+"AAA", nil); r.StatusCode != 404 ||
		r.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("a forged link: %d %v", r.StatusCode, r.Header)
	}
}

// An upload that hangs releases its slot to a newer one, long before its connection counts as dead.
func TestAnUploadThatHangsGivesWayToANewerOne(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 2)
		bob := p.join(0, "Bob")
		data := someBytes(1000)
		begun, err := bob.c.OfferFile(t.Context(), api.TransferOffer{Name: "x", Size: int64(len(data))})
		must(t, err)
		upload, began := "/v1/transfers/"+begun.ID+"/upload", time.Now()
		answers := make(chan *http.Response, 2)
		var lines []*io.PipeWriter
		for range 2 {
			body, line := io.Pipe()
			lines = append(lines, line)
			go func() {
				answers <- p.tus(0, bob.c, "PATCH", upload, body, "Content-Type", offsetOctets, "Upload-Offset", "0")
			}()
			if _, err := line.Write(data[:100]); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Millisecond) // its bytes have arrived
		}
		says := func(answer *http.Response, want string) {
			t.Helper()
			if b, _ := io.ReadAll(answer.Body); !strings.Contains(string(b), want) || time.Since(began) > time.Second {
				t.Errorf("after %s: %d %s, want %s", time.Since(began), answer.StatusCode, b, want)
			}
		}
		says(p.tus(0, bob.c, "PATCH", upload, bytes.NewReader(data), "Content-Type", offsetOctets, "Upload-Offset", "0"), "transfer.offset")
		says(<-answers, "transfer.cut") // the first one; 100 bytes of it count
		if err := bob.c.Upload(t.Context(), begun.ID, bytes.NewReader(data), int64(len(data))); err != nil {
			t.Error(err)
		}
		if got, err := bob.c.Transfer(t.Context(), begun.ID); err != nil || got.Status != api.TransferDone || time.Since(began) > time.Second {
			t.Errorf("after %s: %+v, %v", time.Since(began), got, err)
		}
		for _, line := range lines {
			_ = line.Close()
		}
		says(<-answers, "transfer.ended")
	})
}

// Redis may be unavailable during a whole upload.
func TestAnUploadNeedsNoRedis(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := deploy(t, 2)
		bob, eve := p.join(0, "Bob"), p.join(1, "Eve")
		befriend(t, bob.c, eve.c)
		data := someBytes(5 << 20)
		offered, err := bob.c.OfferFile(t.Context(), api.TransferOffer{To: eve.id, Name: "x", Size: int64(len(data)), SHA256: sum(data)})
		must(t, err)
		if _, err := eve.c.AcceptTransfer(t.Context(), offered.ID); err != nil {
			t.Fatal(err)
		}
		p.memory.Kill()
		must(t, p.client(0, client.WithTokens(bob.c.Tokens())).Upload(t.Context(), offered.ID, bytes.NewReader(data),
			int64(len(data))))
		var whole bytes.Buffer
		if _, err := p.client(1, client.WithTokens(eve.c.Tokens())).Download(t.Context(), offered.ID, 0, &whole); err != nil ||
			!bytes.Equal(whole.Bytes(), data) {
			t.Errorf("%d bytes came, %v", whole.Len(), err)
		}
		p.memory.RestartEmpty()
		bubble.Sleep(20 * time.Second)
	})
}
