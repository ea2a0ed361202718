package e2e

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/lib/redis/redistest"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// front is a real proxy with the configuration in deploy/proxy, in front of all nodes.
type front struct {
	name, url string
	http      *http.Client

	mu      sync.Mutex
	refused []string // sockets and streams
}

// watched is a transport that records refused sockets and streams, because clients retry them.
type watched struct {
	http.RoundTripper
	front *front
}

// RoundTrip implements http.RoundTripper.
func (w watched) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.RoundTripper.RoundTrip(r)
	if err == nil && resp.StatusCode >= 300 && (r.URL.Path == "/v1/socket" || r.URL.Path == "/v1/events") {
		w.front.mu.Lock()
		defer w.front.mu.Unlock()
		w.front.refused = append(w.front.refused, fmt.Sprintf("%s at %s: %s", r.URL.Path, w.front.name, resp.Status))
	}
	return resp, err
}

// client returns a user's client behind the proxy.
func (f *front) client(t *testing.T, who *person) *client.Client {
	t.Helper()
	c, err := client.New(f.url, client.WithTokens(api.Tokens{AccessToken: who.token}), client.WithHTTPClient(f.http))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// program describes how to start a proxy with a file. An operator makes the same replacements in the file.
type program struct {
	file    string
	command func(file string) []string
	set     func(dir string, port int) []string // old, new, …
}

var proxyPrograms = []program{
	{"nginx.conf", func(file string) []string {
		return []string{"nginx", "-c", file, "-e", "stderr", "-g", "daemon off; master_process off; pid nginx.pid; error_log stderr;", "-p",
			filepath.Dir(file)}
	}, func(dir string, port int) []string {
		temp := "http {\n\taccess_log off;\n"
		for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} { // /var/lib/nginx is root's
			temp += "\t" + kind + "_temp_path " + filepath.Join(dir, kind) + ";\n"
		}
		return []string{"listen 443", fmt.Sprint("listen 127.0.0.1:", port), "http {\n", temp}
	}},
	{"haproxy.cfg", func(file string) []string { return []string{"haproxy", "-db", "-f", file} }, func(_ string, port int) []string {
		return []string{"bind :443", fmt.Sprint("bind 127.0.0.1:", port)}
	}},
	{"Caddyfile", func(file string) []string {
		return []string{"caddy", "run", "--config", file, "--adapter", "caddyfile"}
	}, func(dir string, port int) []string {
		return []string{"(nodes) {", "{\n\tadmin off\n\tauto_https off\n\tdefault_bind 127.0.0.1\n\tservers {\n\t\tprotocols h1 " +
			"h2\n\t}\n}\n\n(nodes) {",
			"stoa.example.org {", fmt.Sprintf("https://127.0.0.1:%d {\n\ttls %[2]s/stoa.crt %[2]s/stoa.key", port, dir)}
	}},
}

// startFronts starts nginx, HAProxy and Caddy with the released files, each on its own port.
func startFronts(t *testing.T, nodes []*node) (fronts []*front) {
	t.Helper()
	dir := t.TempDir()
	server := httptest.NewUnstartedServer(nil) // for its certificate
	server.StartTLS()
	server.Close()
	cert := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	crtPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	for name, text := range map[string][]byte{"stoa.crt": crtPEM, "stoa.key": keyPEM,
		"stoa.pem": append(crtPEM[:len(crtPEM):len(crtPEM)], keyPEM...)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range proxyPrograms {
		text, err := os.ReadFile(filepath.Join("..", "deploy", "proxy", p.file))
		if err != nil {
			t.Fatal(err)
		}
		port := redistest.FreePort(t)
		set := append(p.set(dir, port), "/etc/ssl/stoa", dir)
		for i, n := range nodes {
			set = append(set, fmt.Sprintf("10.0.0.1%d:8080", i+1), strings.TrimPrefix(n.URL(), "http://"))
		}
		for i := 0; i < len(set); i += 2 {
			if !strings.Contains(string(text), set[i]) && set[i] != "/etc/ssl/stoa" {
				t.Fatalf("%s lacks %q", p.file, set[i])
			}
		}
		file := filepath.Join(dir, p.file)
		if err := os.WriteFile(file, []byte(strings.NewReplacer(set...).Replace(string(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		run := p.command(file)
		path, err := exec.LookPath(run[0])
		if err != nil {
			path = "/usr/sbin/" + run[0]
		}
		cmd := exec.Command(path, run[1:]...)
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { defer close(ended); _ = cmd.Wait() }()
		t.Cleanup(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			<-ended
			if t.Failed() {
				t.Logf("%s said:\n%s", p.file, said.Bytes()[max(0, said.Len()-20_000):])
			}
		})
		transport := server.Client().Transport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = 10
		t.Cleanup(transport.CloseIdleConnections)
		f := &front{name: p.file, url: "https://127.0.0.1:" + strconv.Itoa(port)}
		f.http = &http.Client{Transport: watched{transport, f}}
		eventually.NoError(t, p.file+" to pass requests", func() error {
			select {
			case <-ended:
				t.Fatalf("%s has ended", run[0])
			default:
			}
			resp, err := f.http.Get(f.url + "/readyz")
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return fmt.Errorf("status %d", resp.StatusCode)
			}
			return nil
		})
		fronts = append(fronts, f)
	}
	return fronts
}

// The proxies listen on ports other than 443, so links and origins have a port.
func checkAddress(t *testing.T, f *front, ann *person) {
	t.Helper()
	card, err := f.client(t, ann).DrawCard(t.Context())
	if err != nil || !strings.HasPrefix(card.URL, f.url+"/#/card/") {
		t.Errorf("%s: the card has the link %s, %v", f.name, card.URL, err)
	}
	for origin, want := range map[string]int{f.url: http.StatusSwitchingProtocols, "https://127.0.0.1": http.StatusForbidden} {
		conn, resp, err := websocket.Dial(t.Context(), f.url+"/v1/socket",
			&websocket.DialOptions{HTTPClient: f.http, HTTPHeader: http.Header{"Origin": {origin}}})
		if resp == nil || resp.StatusCode != want {
			t.Errorf("%s: a socket from %s: %v", f.name, origin, err)
		}
		if err == nil {
			conn.CloseNow()
		}
	}
}

// checkUpload sends a file. The node stores its beginning before the client sends its end.
func checkUpload(t *testing.T, f *front, ann *person) {
	t.Helper()
	c := f.client(t, ann)
	data := make([]byte, 12<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data)
	begun, err := c.OfferFile(t.Context(), api.TransferOffer{Name: "file", Size: int64(len(data))})
	if err != nil {
		t.Fatalf("%s: %v", f.name, err)
	}
	arrives := func() {
		eventually.True(t, "the first half of a file to pass "+f.name, func() bool {
			got, err := c.Transfer(t.Context(), begun.ID)
			return err == nil && got.Received > 0
		})
	}
	if err := c.Upload(t.Context(), begun.ID, &struck{bytes.NewReader(data), 10 << 20, arrives}, int64(len(data))); err != nil {
		t.Errorf("%s: %v", f.name, err)
	}
}

// receiver is one socket or stream of Bob's, and the messages that it has received.
type receiver struct {
	name string

	mu           sync.Mutex
	messages     map[string]int // by text
	opened, lost int
	closed       time.Time
	down         time.Duration // the longest time without a connection
}

func (r *receiver) open(resumed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.opened++; r.opened == 1 {
		return
	}
	r.down = max(r.down, time.Since(r.closed))
	if !resumed {
		r.lost++
	}
}

func (r *receiver) close(error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = time.Now()
}

func (r *receiver) event(e api.Event) {
	var m api.Message
	if data, ok := e.Data.(json.RawMessage); ok && e.Type == api.EventMessageNew && json.Unmarshal(data, &m) == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.messages[m.Text]++
	}
}

func (r *receiver) count(text string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.messages[text]
}

// struck is a file that calls a function when one of its bytes is sent.
type struck struct {
	*bytes.Reader
	at     int64
	strike func()
}

func (s *struck) ReadAt(b []byte, at int64) (int, error) {
	if at <= s.at && s.at < at+int64(len(b)) && s.strike != nil {
		strike := s.strike
		s.strike = nil
		strike()
	}
	return s.Reader.ReadAt(b, at)
}

// Three nodes restart one after the other. Meanwhile 30 sockets receive 20 messages a second. No request fails, and every
// socket receives every message once.
func TestNodesRestartBehindShippedProxiesWithoutFailures(t *testing.T) {
	t.Parallel()
	cfg, redis := sqldb.Config{URL: sqldbtest.Server(t).URL}, redistest.Server(t).URL
	people := enrol(t, sqldbtest.Open(t, cfg), rand.New(rand.NewPCG(1, 1)), 2)
	ann, bob := people[0], people[1]
	env, folder := []string{"STOA_SECRET=0123456789abcdef0123456789abcdef"}, t.TempDir()
	var nodes []*node
	for range 3 {
		nodes = append(nodes, newNode(t, env, "--addr", fmt.Sprint("127.0.0.1:", redistest.FreePort(t)), "--sql", cfg.URL, "--redis", redis,
			"--dev=true", "--limits=false",
			"--trust-proxy", "127.0.0.0/8", "--chats-messages-from", "everybody", "--files-storage", "folder:"+folder, "--gateway-max-user", "100",
			"--live-udp", "off"))
	}
	t.Cleanup(func() { // each drains cleanly below, which takes seconds
		for _, n := range nodes {
			n.Kill()
		}
	})
	fronts := startFronts(t, nodes)
	for _, f := range fronts {
		checkAddress(t, f, ann)
		checkUpload(t, f, ann)
		f.refused = nil // refused because of the foreign origin
	}

	receiving, hangUp := context.WithCancel(context.WithoutCancel(t.Context()))
	var ended sync.WaitGroup
	defer ended.Wait()
	defer hangUp()
	const each = 10
	var sockets, streams []*receiver
	for i := range each * len(fronts) {
		f := fronts[i%len(fronts)]
		r := &receiver{name: fmt.Sprintf("socket %d at %s", i, f.name), messages: map[string]int{}}
		socket := f.client(t, bob).Socket(client.SocketListener{Open: r.open, Closed: r.close, Event: r.event})
		ended.Go(func() { _ = socket.Run(receiving) })
		sockets = append(sockets, r)
	}
	for _, f := range fronts {
		r := &receiver{name: "stream at " + f.name, messages: map[string]int{}}
		ended.Go(func() {
			_ = f.client(t, bob).Listen(receiving, client.Listener{Open: func() {
				r.open(true)
			}, Event: func(e api.Event) error { r.event(e); return nil }})
		})
		streams = append(streams, r)
	}
	for _, r := range append(sockets[:len(sockets):len(sockets)], streams...) {
		eventually.True(t, r.name+" to open", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return r.opened > 0 })
	}

	// request sends once, like a client that never retries.
	var sent []string
	var failed []string
	request := func(f *front, method, path string, body io.Reader) {
		r, err := http.NewRequestWithContext(t.Context(), method, f.url+path, body)
		if err != nil {
			t.Error(err)
			return
		}
		r.Header.Set("Authorization", "Bearer "+ann.token)
		r.Header.Set("Content-Type", "application/json")
		resp, err := f.http.Do(r)
		if err == nil {
			defer resp.Body.Close()
			var text []byte
			if text, err = io.ReadAll(resp.Body); err == nil && resp.StatusCode >= 300 {
				err = fmt.Errorf("%d %s", resp.StatusCode, text)
			}
		}
		if err != nil {
			failed = append(failed, fmt.Sprintf("%s %s at %s: %v", method, path, f.name, err))
		}
	}
	path := "/v1/chats/" + client.ChatWith(bob.id) + "/messages"
	say := func(f *front, text string) {
		body, err := json.Marshal(api.Send{ClientID: text, Content: api.Content{Kind: api.MessageText, Text: text}})
		if err != nil {
			t.Error(err)
			return
		}
		request(f, http.MethodPost, path, bytes.NewReader(body))
		sent = append(sent, text)
	}
	sending, enough := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	senders.Go(func() {
		pace := time.NewTicker(50 * time.Millisecond)
		defer pace.Stop()
		for n := 0; sending.Err() == nil; n++ {
			f := fronts[n%len(fronts)]
			say(f, fmt.Sprint("m", n))
			request(f, http.MethodGet, path+"?limit=1", nil)
			<-pace.C
		}
	})
	for _, n := range nodes {
		n.Stop()
		n.Start()
		waitReady(t, http.DefaultClient, n)
	}
	enough()
	senders.Wait()
	for _, f := range fronts {
		say(f, "last-at-"+f.name)
	}

	for _, f := range fronts {
		f.mu.Lock()
		failed = append(failed, f.refused...)
		f.mu.Unlock()
	}
	if len(failed) > 0 {
		t.Errorf("%d requests failed: %s", len(failed), strings.Join(failed[:min(len(failed), 10)], "\n"))
	}
	opened, down := 0, time.Duration(0)
	for _, r := range sockets {
		eventually.Equal(t, "messages that "+r.name+" lacks", 0, func() (missing int) {
			for _, text := range sent {
				if r.count(text) == 0 {
					missing++
				}
			}
			return missing
		})
		r.mu.Lock()
		for text, times := range r.messages {
			if times != 1 {
				t.Errorf("%s received %s %d times", r.name, text, times)
			}
		}
		if r.lost > 0 {
			t.Errorf("%s was opened %d times, %d of them without the missed messages", r.name, r.opened, r.lost)
		}
		opened, down = opened+r.opened, max(down, r.down)
		r.mu.Unlock()
	}
	if opened < 2*len(sockets) {
		t.Errorf("%d sockets were opened %d times", len(sockets), opened)
	}
	for _, r := range streams {
		eventually.Equal(t, "the last messages at the "+r.name, len(fronts), func() (n int) {
			for _, f := range fronts {
				n += r.count("last-at-" + f.name)
			}
			return n
		})
	}
	t.Logf("%d messages, %d sockets opened %d times, the longest time without a connection: %s", len(sent), len(sockets), opened, down)
}
