package cachetest

import (
	"bytes"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stoa-dev/stoa/lib/redis/redistest"
)

// A Proxy connects a node and a server and simulates network faults. Like a network it loses no byte of a connection
// that survives: data that is held back arrives when the fault is over, however late.
type Proxy struct {
	Addr string // the address for the node

	target string
	mu     sync.Mutex
	change *sync.Cond
	listen net.Listener
	links  map[*link]struct{}
	closed bool
	held   [2]bool // by direction
	delay  time.Duration
	jitter time.Duration
	mute   bool
	lost   int
	work   sync.WaitGroup
}

// A Direction is one way through a proxy.
type Direction = redistest.Direction

// The directions.
const (
	ToServer = redistest.ToServer
	ToNode   = redistest.ToNode
)

// link is a connection through the proxy.
type link struct {
	near, far net.Conn
	cut       bool
}

// NewProxy returns a proxy to a server, which ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{target: target, links: map[*link]struct{}{},
		Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(redistest.FreePort(t)))}
	p.change = sync.NewCond(&p.mu)
	if err := p.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.Refuse()
		p.work.Wait()
	})
	return p
}

func (p *Proxy) open() error {
	l, err := net.Listen("tcp", p.Addr)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.listen = l
	p.mu.Unlock()
	p.work.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.carry(near) })
		}
	})
	return nil
}

func (p *Proxy) carry(near net.Conn) {
	far, err := net.DialTimeout("tcp", p.target, time.Second)
	if err != nil {
		near.Close()
		return
	}
	l := &link{near: near, far: far}
	p.mu.Lock()
	p.links[l] = struct{}{}
	if p.closed || p.listen == nil {
		p.sever(l)
	}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.pump(l, near, far, ToServer) })
	both.Go(func() { p.pump(l, far, near, ToNode) })
	both.Wait()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

func (p *Proxy) pump(l *link, from, to net.Conn, d Direction) {
	defer func() {
		p.mu.Lock()
		p.sever(l)
		p.mu.Unlock()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if !p.pass(l, d, buf[:n]) {
			return
		}
		if n > 0 && !(d == ToNode && p.swallows(buf[:n])) {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits until the direction is not held, and reports whether the link is still open.
func (p *Proxy) pass(l *link, d Direction, _ []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait := p.delay + rand.N(p.jitter+1); wait > 0 {
		p.mu.Unlock()
		time.Sleep(wait)
		p.mu.Lock()
	}
	for p.held[d] && !l.cut {
		p.change.Wait()
	}
	return !l.cut
}

// swallows reports whether data from the server is a message to be lost.
func (p *Proxy) swallows(text []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.mute || len(text) < 4 || text[0] != '*' && text[0] != '>' {
		return false
	}
	_, rest, _ := bytes.Cut(text, []byte("\r\n"))
	_, word, _ := bytes.Cut(rest, []byte("\r\n"))
	for _, kind := range []string{"message", "smessage", "pmessage", "invalidate"} {
		if bytes.HasPrefix(word, []byte(kind+"\r\n")) {
			p.lost++
			return true
		}
	}
	return false
}

// sever cuts a link with a reset, unlike a crash of the peer's machine.
func (p *Proxy) sever(l *link) {
	if l.cut {
		return
	}
	l.cut = true
	for _, c := range []net.Conn{l.near, l.far} {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		c.Close()
	}
	p.change.Broadcast()
}

// Reset cuts every connection; new ones are accepted.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		p.sever(l)
	}
}

// Refuse cuts every connection and accepts none until [Proxy.Heal].
func (p *Proxy) Refuse() {
	p.mu.Lock()
	l := p.listen
	p.listen = nil
	p.mu.Unlock()
	if l != nil {
		l.Close()
	}
	p.Reset()
}

// Hold stops the data in one direction.
func (p *Proxy) Hold(d Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[d] = true
}

// BlackHole stops both directions; connections are accepted and stay silent.
func (p *Proxy) BlackHole() {
	p.Hold(ToServer)
	p.Hold(ToNode)
}

// Delay delays every piece of data by d.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Jitter delays every piece of data by a random time up to most.
func (p *Proxy) Jitter(most time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.jitter = most
}

// LoseMessages drops the servers' push messages: messages of channels, and invalidations of client-side caching.
func (p *Proxy) LoseMessages() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = true
}

// Lost returns the number of dropped messages.
func (p *Proxy) Lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// Heal ends all faults.
func (p *Proxy) Heal() {
	p.mu.Lock()
	p.held, p.delay, p.jitter, p.mute = [2]bool{}, 0, 0, false
	refusing := p.listen == nil && !p.closed
	p.change.Broadcast()
	p.mu.Unlock()
	if refusing {
		for p.open() != nil { // another process may use the port for a moment
			time.Sleep(time.Millisecond)
		}
	}
}
