package integration

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/app"
	"github.com/stoa-dev/stoa/internal/storage/sqldb/sqldbtest"
	"github.com/stoa-dev/stoa/internal/testkit"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

// pushService is a browser vendor's push service, with the subscribed browsers. Each host is a separate service; the
// path identifies a browser.
type pushService struct {
	t         testing.TB
	transport *http.Transport

	mu       sync.Mutex
	browsers map[string]*browser         // by endpoint
	answers  map[string]http.HandlerFunc // by host, in place of the default response
	asked    map[string]int              // number of requests, by host
}

// browser is a browser with a subscription.
type browser struct {
	of       *pushService
	endpoint string
	key      *ecdh.PrivateKey
	auth     []byte
	server   []byte // the server's key in its subscription
	got      []api.Push
	headers  []http.Header
}

func newPushService(t testing.TB) *pushService {
	t.Helper()
	s := &pushService{t: t, browsers: map[string]*browser{}, answers: map[string]http.HandlerFunc{}, asked: map[string]int{}}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	about := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"*.push.example"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour * 24 * 365)}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	var ln net.Listener
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
	}
	if bubble.In(t) {
		n := bubble.NewNetwork()
		ln, dial = n, n.Dial
	} else if ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s.transport = &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{RootCAs: roots}}
	server := &http.Server{Handler: s}
	var serving sync.WaitGroup
	serving.Go(func() {
		_ = server.Serve(tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}))
	})
	t.Cleanup(func() {
		s.transport.CloseIdleConnections()
		_ = server.Close()
		serving.Wait()
	})
	return s
}

// answer sets the handler of a host; nil restores the default.
func (s *pushService) answer(host string, h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[host] = h
}

// ServeHTTP accepts a push for a browser, which decrypts it.
func (s *pushService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	b, h := s.browsers["https://"+r.Host+r.URL.Path], s.answers[r.Host]
	s.asked[r.Host]++
	s.mu.Unlock()
	if h != nil {
		h(w, r)
		return
	}
	if b == nil {
		w.WriteHeader(http.StatusGone)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = b.take(r, body)
	}
	if err != nil {
		s.t.Errorf("a push that no browser takes: %v", err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusCreated)
}

// subscribe subscribes a browser at a host with the server's key, and the client's device with it.
func (s *pushService) subscribe(c *client.Client, host string) *browser {
	s.t.Helper()
	key, err := c.PushKey(s.t.Context())
	must(s.t, err)
	b := &browser{of: s, endpoint: "https://" + host + "/send/" + rand.Text(), auth: make([]byte, 16)}
	b.server, err = base64.RawURLEncoding.DecodeString(key.Key)
	if err == nil {
		b.key, err = ecdh.P256().GenerateKey(rand.Reader)
	}
	must(s.t, err)
	_, _ = rand.Read(b.auth)
	s.mu.Lock()
	s.browsers[b.endpoint] = b
	s.mu.Unlock()
	st, err := c.SubscribePush(s.t.Context(), api.PushSubscription{Endpoint: b.endpoint, Keys: api.PushSubscriptionKeys{
		P256DH: base64.RawURLEncoding.EncodeToString(b.key.PublicKey().Bytes()), Auth: base64.RawURLEncoding.EncodeToString(b.auth)}})
	if err != nil || !st.Subscribed {
		s.t.Fatalf("subscribed: %+v, %v", st, err)
	}
	return b
}

// take decrypts a push by RFC 8291, and checks its token by RFC 8292.
func (b *browser) take(r *http.Request, body []byte) error {
	if err := b.signed(r); err != nil {
		return err
	}
	if r.Header.Get("Content-Encoding") != "aes128gcm" || len(body) < 86+17 || len(body) > 4096 || body[20] != 65 {
		return fmt.Errorf("%d bytes of %s", len(body), r.Header.Get("Content-Encoding"))
	}
	salt, size, theirs := body[:16], binary.BigEndian.Uint32(body[16:20]), body[21:86]
	if int(size) < len(body)-86 {
		return fmt.Errorf("a record of %d bytes has %d", size, len(body)-86)
	}
	point, err := ecdh.P256().NewPublicKey(theirs)
	if err != nil {
		return err
	}
	shared, err := b.key.ECDH(point)
	if err != nil {
		return err
	}
	expand := func(secret, salt []byte, info string, n int) []byte {
		out, err := hkdf.Key(sha256.New, secret, salt, info, n)
		if err != nil {
			b.of.t.Error(err)
		}
		return out
	}
	ikm := expand(shared, b.auth, "WebPush: info\x00"+string(b.key.PublicKey().Bytes())+string(theirs), 32)
	block, err := aes.NewCipher(expand(ikm, salt, "Content-Encoding: aes128gcm\x00", 16))
	if err != nil {
		return err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return err
	}
	text, err := gcm.Open(nil, expand(ikm, salt, "Content-Encoding: nonce\x00", 12), body[86:], nil)
	if err != nil {
		return err
	}
	var p api.Push
	if err := json.Unmarshal([]byte(strings.TrimSuffix(strings.TrimRight(string(text), "\x00"), "\x02")), &p); err != nil {
		return err
	}
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	b.got, b.headers = append(b.got, p), append(b.headers, r.Header.Clone())
	return nil
}

// signed checks that the request is signed with the server's key in the subscription.
func (b *browser) signed(r *http.Request) error {
	token, key, ok := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "vapid t="), ", k=")
	parts := strings.Split(token, ".")
	if !ok || len(parts) != 3 || key != base64.RawURLEncoding.EncodeToString(b.server) {
		return fmt.Errorf("authorization %q", r.Header.Get("Authorization"))
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), b.server)
	if err != nil {
		return err
	}
	mark, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || len(mark) != 64 {
		return fmt.Errorf("a signature of %d bytes: %w", len(mark), err)
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if !ecdsa.Verify(public, sum[:], new(big.Int).SetBytes(mark[:32]), new(big.Int).SetBytes(mark[32:])) {
		return fmt.Errorf("a signature by another key")
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return err
	}
	var claims struct {
		Aud, Sub string
		Exp      int64
	}
	if err := json.Unmarshal(text, &claims); err != nil {
		return err
	}
	if left := time.Until(time.Unix(claims.Exp, 0)); claims.Aud != "https://"+r.Host || claims.Sub != "mailto:no-reply@example.org" ||
		left <= 0 || left > 24*time.Hour {
		return fmt.Errorf("claims %+v", claims)
	}
	return nil
}

// said returns the received pushes, as "title: body".
func (b *browser) said() string {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	var all []string
	for _, p := range b.got {
		all = append(all, p.Title+": "+p.Body)
	}
	return strings.Join(all, " | ")
}

// gets waits until exactly these pushes have arrived.
func (b *browser) gets(want ...string) {
	b.of.t.Helper()
	eventually.Equal(b.of.t, "what a browser gets", strings.Join(want, " | "), b.said)
}

// forget deletes the received pushes.
func (b *browser) forget() {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	b.got, b.headers = nil, nil
}

// settled is longer than messages wait after a push, plus the interval of checks for missed messages.
const settled = 50 * time.Second

// pushed is a server with its push service, and two friends.
type pushed struct {
	*testkit.Server
	service  *pushService
	ann, bob *client.Client
	chat     string // ann's chat with bob
	n        int
}

func newPushed(t *testing.T, change ...func(*app.Config)) *pushed {
	t.Helper()
	p := &pushed{service: newPushService(t)}
	p.Server = testkit.Start(t, append(change, func(c *app.Config) {
		c.PushTransport, c.SMTP.From = p.service.transport, "Stoa <no-reply@example.org>"
	})...)
	p.ann, p.bob = p.SignUp(t, "UTC"), p.SignUp(t, "UTC")
	asked, err := p.ann.AskFriend(t.Context(), api.FriendRequestNew{User: id(p.bob)})
	must(t, err)
	_, err = p.bob.AcceptFriend(t.Context(), asked.Request.ID, api.FriendRequestAccept{})
	must(t, err)
	p.chat = client.ChatWith(id(p.bob))
	return p
}

// says sends a message from ann to bob.
func (p *pushed) says(t *testing.T, text string) {
	t.Helper()
	p.n++
	_, err := p.ann.Send(t.Context(), p.chat, api.Send{ClientID: fmt.Sprint("m", p.n),
		Content: api.Content{Kind: api.MessageText, Text: text}})
	must(t, err)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func yes[T any](v T) *T { return &v }

// onEngines runs a story in a bubble, and again with a real MariaDB.
func onEngines(t *testing.T, story func(t *testing.T, p *pushed)) {
	t.Run("embedded", func(t *testing.T) {
		bubble.Test(t, func(t *testing.T) { story(t, newPushed(t)) })
	})
	t.Run("mariadb", func(t *testing.T) {
		i := sqldbtest.Server(t)
		story(t, newPushed(t, func(c *app.Config) { c.SQL = i.URL }))
	})
}

func TestMessagesArePushedToWhoIsAway(t *testing.T) {
	onEngines(t, func(t *testing.T, p *pushed) {
		b := p.service.subscribe(p.bob, "a.push.example")
		p.says(t, "the hidden text")
		b.gets("User 1: A new message")
		p.service.mu.Lock()
		first, header := b.got[0], b.headers[0]
		p.service.mu.Unlock()
		if first.V != 1 || first.What != api.PushMessages || first.Chat != client.ChatWith(id(p.ann)) || first.Tag != first.Chat ||
			first.Unread != 1 || first.Seq != 1 || first.Lang != "en" {
			t.Errorf("the push is %+v", first)
		}
		if header.Get("Urgency") != "high" || header.Get("Ttl") != "86400" || len(header.Get("Topic")) != 32 {
			t.Errorf("its headers are %v", header)
		}
	})
}

func TestMessagesThatComeSoonAfterAPushAreOneWithACount(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPushed(t)
		b := p.service.subscribe(p.bob, "a.push.example")
		p.says(t, "one")
		b.gets("User 1: A new message")
		for _, text := range []string{"two", "three", "four"} {
			p.says(t, text)
			bubble.Sleep(3 * time.Second)
		}
		b.gets("User 1: A new message")
		bubble.Sleep(30 * time.Second)
		b.gets("User 1: A new message", "User 1: 4 new messages")
		bubble.Sleep(settled)
		b.gets("User 1: A new message", "User 1: 4 new messages") // and no repetitions
		must(t, p.bob.Mark(t.Context(), client.ChatWith(id(p.ann)), api.MarkRequest{Read: 4}))
		p.says(t, "five")
		bubble.Sleep(5 * time.Second)
		b.gets("User 1: A new message", "User 1: 4 new messages", "User 1: A new message")
	})
}

func TestNothingIsPushedToWhoIsOnLineOrWantsNone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPushed(t)
		ctx := t.Context()
		b := p.service.subscribe(p.bob, "a.push.example")
		quiet := func(what string) {
			t.Helper()
			p.says(t, "hello")
			bubble.Sleep(settled)
			if got := b.said(); got != "" {
				t.Errorf("%s: %s", what, got)
				b.forget()
			}
			chat := client.ChatWith(id(p.ann))
			must(t, p.bob.Mark(ctx, chat, api.MarkRequest{Read: int64(p.n)}))
		}
		on, cancel := context.WithCancel(ctx)
		socket := p.bob.Socket(client.SocketListener{})
		ended := make(chan error, 1)
		go func() { ended <- socket.Run(on) }()
		eventually.True(t, "bob to be on line", func() bool {
			st, err := p.bob.MyPresence(ctx)
			return err == nil && st.Status == api.StatusOnline
		})
		quiet("on line")
		cancel()
		<-ended
		bubble.Sleep(10 * time.Second)
		_, err := p.bob.UpdatePush(ctx, api.PushUpdate{Messages: yes(false)})
		must(t, err)
		quiet("messages are off")
		_, err = p.bob.UpdatePush(ctx, api.PushUpdate{Messages: yes(true)})
		must(t, err)
		until := api.At(time.Now().Add(time.Hour))
		_, err = p.bob.SetChat(ctx, client.ChatWith(id(p.ann)), api.ChatChange{Muted: &until})
		must(t, err)
		quiet("muted")
		_, err = p.bob.SetChat(ctx, client.ChatWith(id(p.ann)), api.ChatChange{Muted: yes(api.At(time.Now()))})
		must(t, err)
		_, err = p.bob.UpdatePush(ctx, api.PushUpdate{Previews: yes(true)})
		must(t, err)
		p.says(t, "the text")
		b.gets("User 1: the text")
		b.forget()
		must(t, p.bob.Logout(ctx))
		p.says(t, "after the log-out")
		bubble.Sleep(settled)
		b.gets()
	})
}

func TestAGroupIsPushedAsItsSettingSays(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPushed(t)
		ctx := t.Context()
		made, err := p.ann.CreateGroup(ctx, api.GroupNew{Name: "Rowing", Members: []string{id(p.bob)}})
		must(t, err)
		p.chat = client.ChatIn(made.Group.ID)
		b := p.service.subscribe(p.bob, "a.push.example")
		bubble.Sleep(settled)
		b.gets() // no device had a subscription before
		p.says(t, "hello")
		b.gets("Rowing: A new message") // the system message does not count
		b.forget()
		mention := func(text string) {
			t.Helper()
			p.n++
			_, err := p.ann.Send(ctx, p.chat, api.Send{ClientID: fmt.Sprint("m", p.n),
				Content: api.Content{Kind: api.MessageText, Text: text, Mentions: []string{id(p.bob)}}})
			must(t, err)
		}
		for setting, want := range map[string][2]string{
			api.NotifyNone:     {"", ""},
			api.NotifyMentions: {"", "Rowing: ann says @bob"},
		} {
			_, err = p.bob.SetGroupSelf(ctx, made.Group.ID, api.GroupSelfUpdate{Notify: &setting})
			must(t, err)
			_, err = p.bob.UpdatePush(ctx, api.PushUpdate{Previews: yes(true)})
			must(t, err)
			p.says(t, "plain")
			bubble.Sleep(settled)
			if got := b.said(); got != want[0] {
				t.Errorf("%s, plain: %q", setting, got)
			}
			mention("ann says @bob")
			bubble.Sleep(settled)
			if got := b.said(); got != strings.Replace(want[1], "Rowing: ", "Rowing: User 1: ", 1) {
				t.Errorf("%s, mentioned: %q", setting, got)
			}
			b.forget()
			chat, err := p.bob.Chat(ctx, p.chat)
			must(t, err)
			must(t, p.bob.Mark(ctx, p.chat, api.MarkRequest{Read: chat.Seq}))
		}
		// An unread chat is pushed once, for any number of later messages.
		_, err = p.bob.SetGroupSelf(ctx, made.Group.ID, api.GroupSelfUpdate{Notify: yes(api.NotifyMentions)})
		must(t, err)
		for _, say := range []func(){func() {
			mention("@bob")
		}, func() { p.says(t, "and the others") }, func() { p.says(t, "at eight") }, func() { mention("@bob again") }} {
			say()
			bubble.Sleep(settled)
		}
		if got, want := b.said(), "Rowing: User 1: @bob | Rowing: User 1: @bob again"; got != want {
			t.Errorf("mentioned twice: %q, want %q", got, want)
		}
	})
}

func TestNoticesArePushedByTheirKind(t *testing.T) {
	onEngines(t, func(t *testing.T, p *pushed) {
		ctx := t.Context()
		b := p.service.subscribe(p.bob, "a.push.example")
		carl := p.SignUp(t, "UTC")
		_, err := carl.AskFriend(ctx, api.FriendRequestNew{User: id(p.bob)})
		must(t, err)
		b.gets("User 3: User 3 wants to be your friend.")
		b.forget()
		_, err = p.bob.UpdatePush(ctx, api.PushUpdate{Requests: yes(false)})
		must(t, err)
		dan := p.SignUp(t, "UTC")
		_, err = dan.AskFriend(ctx, api.FriendRequestNew{User: id(p.bob)})
		must(t, err)
		made, err := p.ann.CreateGroup(ctx, api.GroupNew{Name: "Rowing", Members: []string{id(p.bob)}})
		must(t, err)
		b.gets("Rowing: User 1 has added you to this group.")
		must(t, p.ann.RemoveFromGroup(ctx, made.Group.ID, id(p.bob)))
		b.gets("Rowing: User 1 has added you to this group.", "Rowing: You were removed from this group.")
		list, err := p.bob.Notices(ctx, "", 0)
		must(t, err)
		var kinds []string
		for _, n := range list.Notices {
			kinds = append(kinds, n.Kind)
		}
		if got := strings.Join(kinds, " "); got != "group.removed group.added friend.requested friend.requested" || list.Counts.Unread != 4 ||
			list.Notices[0].User.ID != id(p.ann) {
			t.Errorf("bob's notices are %s, %+v", got, list.Counts)
		}
	})
}

func TestASubscriptionThatHasEndedIsRemoved(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPushed(t)
		p.service.subscribe(p.bob, "a.push.example")
		p.service.mu.Lock()
		clear(p.service.browsers) // the browser's subscription has ended
		p.service.mu.Unlock()
		p.says(t, "hello")
		eventually.Equal(t, "bob's subscriptions", 0, func() int {
			st, err := p.bob.PushStatus(t.Context())
			must(t, err)
			return st.Devices
		})
	})
}

func TestAPushServiceThatFailsIsTriedAgainAndGivenUpInTheEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPushed(t)
		b := p.service.subscribe(p.bob, "a.push.example")
		status := func(code int, headers ...string) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				if len(headers) == 2 {
					w.Header().Set(headers[0], headers[1])
				}
				w.WriteHeader(code)
			}
		}
		asked := func() int {
			p.service.mu.Lock()
			defer p.service.mu.Unlock()
			return p.service.asked["a.push.example"]
		}
		p.service.answer("a.push.example", status(http.StatusInternalServerError))
		p.says(t, "one")
		bubble.Sleep(3 * time.Second)
		p.service.answer("a.push.example", nil)
		bubble.Sleep(time.Minute)
		b.gets("User 1: A new message")
		b.forget()
		// The server sends no pushes for the time in Retry-After.
		p.service.answer("a.push.example", status(http.StatusTooManyRequests, "Retry-After", "60"))
		before := asked()
		p.says(t, "two")
		bubble.Sleep(50 * time.Second)
		if n := asked() - before; n != 1 {
			t.Errorf("a service that asked for a minute was asked %d times", n)
		}
		p.service.answer("a.push.example", nil)
		bubble.Sleep(30 * time.Second)
		b.gets("User 1: 2 new messages")
		b.forget()
		p.service.answer("a.push.example", status(http.StatusInternalServerError))
		before = asked()
		p.says(t, "three")
		bubble.Sleep(7 * time.Minute) // a sixth try would be after 5 min 41 s
		if n := asked() - before; n != 5 {
			t.Errorf("a service that is broken was asked %d times", n)
		}
	})
}

func TestAPushServiceThatHangsStopsNobody(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPushed(t)
		p.service.subscribe(p.bob, "hangs.push.example")
		other := p.Client(t)
		_, err := other.RequestCode(t.Context(), api.CodeRequest{Email: "user2@example.org", Purpose: api.PurposeLogin})
		must(t, err)
		bubble.Sleep(time.Second) // his code for registration is a different one
		_, err = other.Login(t.Context(), api.LoginRequest{Email: "user2@example.org", Code: p.Code(t, "user2@example.org")})
		must(t, err)
		good := p.service.subscribe(other, "good.push.example")
		p.service.answer("hangs.push.example", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // otherwise the end of the client's connection is not detected
			<-r.Context().Done()
		})
		began := time.Now()
		for i := range 4 {
			p.says(t, "hello")
			bubble.Sleep(35 * time.Second)
			if good.said() == "" {
				t.Fatalf("after %d messages the other browser has nothing", i+1)
			}
		}
		p.service.mu.Lock()
		n := p.service.asked["hangs.push.example"]
		p.service.mu.Unlock()
		if most := int(time.Since(began)/(30*time.Second)) + 4; n > most { // before the first timeout, all waiting pushes are sent at once
			t.Errorf("what hangs was asked %d times in %s", n, time.Since(began))
		}
	})
}

func TestASubscriptionThatIsNoneIsRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newPushed(t)
		b := p.service.subscribe(p.bob, "a.push.example")
		key, auth := base64.RawURLEncoding.EncodeToString(b.key.PublicKey().Bytes()), base64.RawURLEncoding.EncodeToString(b.auth)
		for what, c := range map[string]struct{ endpoint, key, auth, code string }{
			"plain http":    {"http://a.push.example/x", key, auth, "push.endpoint"},
			"no host":       {"https:///x", key, auth, "push.endpoint"},
			"a password":    {"https://u:p@a.push.example/x", key, auth, "push.endpoint"},
			"a file":        {"file:///etc/passwd", key, auth, "push.endpoint"},
			"no point":      {b.endpoint, strings.Repeat("A", 87), auth, "push.keys"},
			"a short auth":  {b.endpoint, key, "AAAA", "push.keys"},
			"no base64":     {b.endpoint, "!", auth, "push.keys"},
			"as it is sent": {b.endpoint, key + "=", auth + "==", ""},
		} {
			_, err := p.bob.SubscribePush(t.Context(), api.PushSubscription{Endpoint: c.endpoint,
				Keys: api.PushSubscriptionKeys{P256DH: c.key, Auth: c.auth}})
			if client.CodeOf(err) != c.code {
				t.Errorf("%s: %v, want %s", what, err, c.code)
			}
		}
		// If another user logs in, the browser's pushes belong to that user.
		_, err := p.ann.SubscribePush(t.Context(), api.PushSubscription{Endpoint: b.endpoint,
			Keys: api.PushSubscriptionKeys{P256DH: key, Auth: auth}})
		must(t, err)
		if st, err := p.bob.PushStatus(t.Context()); err != nil || st.Subscribed || st.Devices != 0 {
			t.Errorf("bob still has it: %+v, %v", st, err)
		}
		if st, err := p.ann.UnsubscribePush(t.Context()); err != nil || st.Subscribed {
			t.Errorf("ann's: %+v, %v", st, err)
		}
	})
}
