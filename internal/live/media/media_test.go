package media_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/at-wat/ebml-go/mkvcore"
	"github.com/pion/rtp"
	"github.com/pion/sdp/v3"

	"github.com/stoa-dev/stoa/internal/live/livetest"
	"github.com/stoa-dev/stoa/internal/live/media"
	"github.com/stoa-dev/stoa/lib/testing/bubble"
	"github.com/stoa-dev/stoa/lib/testing/eventually"
)

func engine(t *testing.T) *media.Engine {
	t.Helper()
	return engineAt(t, "127.0.0.1:0")
}

func engineAt(t *testing.T, udp string, public ...string) *media.Engine {
	t.Helper()
	e, err := media.New(media.Config{UDP: udp, PublicIPs: public, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func yes() bool { return true }

func publish(t *testing.T, e *media.Engine, cam livetest.Camera) (*livetest.Publisher, *media.Source) {
	t.Helper()
	var src *media.Source
	p, err := livetest.Publish(t.Context(), cam, func(ctx context.Context, offer string) (answer string, err error) {
		src, answer, err = e.Publish(ctx, offer, yes)
		return answer, err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(); src.Close(nil) })
	return p, src
}

func watch(t *testing.T, e *media.Engine, src *media.Source) (*livetest.Viewer, *media.Viewer) {
	t.Helper()
	var inner *media.Viewer
	v, err := livetest.Watch(t.Context(), func(ctx context.Context, offer string) (answer string, err error) {
		inner, answer, err = e.Watch(ctx, src, offer)
		return answer, err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close(); inner.Close() })
	return v, inner
}

// whole checks that pictures have no gap, that the first is a key frame, and that timestamps increase.
func whole(t *testing.T, frames []livetest.Frame) {
	t.Helper()
	for i, f := range frames {
		switch {
		case i == 0 && !f.Key:
			t.Error("the first picture is no key frame")
		case i > 0 && f.First != frames[i-1].Last+1:
			t.Errorf("picture %d: sequence %d follows %d", i, f.First, frames[i-1].Last)
		case i > 0 && f.RTP-frames[i-1].RTP-1 >= 1<<31:
			t.Errorf("picture %d: timestamp %d follows %d", i, f.RTP, frames[i-1].RTP)
		case i > 0 && f.Number != frames[i-1].Number+1:
			t.Errorf("picture %d: number %d follows %d", i, f.Number, frames[i-1].Number)
		}
	}
}

// codecs are the forwarded video codecs.
var codecs = map[string]livetest.Camera{"VP8": {}, "H264": {H264: true}}

func TestForward_PublisherToViewers(t *testing.T) {
	for name, cam := range codecs {
		t.Run(name, func(t *testing.T) {
			e := engine(t)
			_, src := publish(t, e, cam)
			if f := src.Formats; f.Video == nil || f.Video.Name() != name || f.Audio == nil || f.Audio.Name() != "opus" {
				t.Fatalf("formats %+v", f)
			}
			v, _ := watch(t, e, src)
			eventually.True(t, "pictures and sound to come", func() bool { return len(v.Frames()) > 30 && v.Sounds() > 30 })
			whole(t, v.Frames())
			if c := src.Counts(); c.Packets == 0 || c.Bytes == 0 || c.Lost != 0 || c.Dropped != 0 {
				t.Errorf("counted %+v", c)
			}
		})
	}
}

func TestSimulcast_ForwardsFirstSize(t *testing.T) {
	e := engine(t)
	_, src := publish(t, e, livetest.Camera{Sizes: 3})
	v, _ := watch(t, e, src)
	eventually.True(t, "pictures to come", func() bool { return len(v.Frames()) > 60 })
	whole(t, v.Frames())
	if c := src.Counts(); c.Lost != 0 {
		t.Errorf("counted %+v", c)
	}
}

func TestViewer_LateGetsCurrentGroupOfPictures(t *testing.T) {
	for name, cam := range codecs {
		t.Run(name, func(t *testing.T) {
			e := engine(t)
			cam.Deaf, cam.KeyEvery, cam.Bitrate = true, time.Hour, 1_000_000 // one key frame, the first picture
			p, src := publish(t, e, cam)
			eventually.True(t, "some pictures", func() bool { return p.Sent.Load() > 60 })
			v, inner := watch(t, e, src)
			eventually.True(t, "pictures to come", func() bool { return len(v.Frames()) > 90 })
			frames := v.Frames()
			whole(t, frames)
			if frames[0].Number != 0 {
				t.Errorf("the first picture is %d", frames[0].Number)
			}
			<-inner.First()
			if !inner.Kept {
				t.Error("nothing was kept")
			}
			// Earlier pictures are a millisecond apart.
			if d := frames[30].RTP - frames[0].RTP; d > 60*90 {
				t.Errorf("thirty pictures of the past last %d ms", d/90)
			}
		})
	}
}

func TestJoin_PicturesFollowEachOtherByMilliseconds(t *testing.T) {
	src := media.Unconnected()
	const begin, second = ^uint32(0) - 9000, 90_000 // the timestamps wrap around
	for i, at := range []uint32{0, 2, 1, 4, 4, 3} { // in seconds, in decoding order
		frame := []byte{0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}
		if i == 0 {
			frame = []byte{0x10, 0, 0, 0, 0x9d, 1, 0x2a, 64, 1, 240, 0}
		}
		media.Forward(src, false, &rtp.Packet{Header: rtp.Header{Version: 2, SequenceNumber: uint16(i), Timestamp: begin + at*second},
			Payload: frame})
	}
	var got []uint32
	for _, p := range media.Join(src) {
		got = append(got, p.Timestamp-begin-4*second)
	}
	const ms = 90
	if want := []uint32{^uint32(4*ms - 1), ^uint32(2*ms - 1), ^uint32(3*ms - 1), 0, 0, ^uint32(ms - 1)}; !slices.Equal(got, want) {
		t.Errorf("got %d, want %d", got, want)
	}
}

// A track is known before its first packet, which may be a late retransmission.
func TestKeyFrame_RequestedBeforeFirstPacket(t *testing.T) {
	e := engine(t)
	_, src := publish(t, e, livetest.Camera{Waits: true})
	v, _ := watch(t, e, src)
	eventually.True(t, "pictures to come", func() bool { return len(v.Frames()) > 10 })
	whole(t, v.Frames())
}

func TestTrack_SurvivesUnknownPayloadType(t *testing.T) {
	e := engine(t)
	_, src := publish(t, e, livetest.Camera{Strange: true})
	v, _ := watch(t, e, src)
	eventually.True(t, "pictures to come", func() bool { return len(v.Frames()) > 10 })
}

func TestViewer_WithoutStoredGroupGetsRequestedKeyFrame(t *testing.T) {
	e := engine(t)
	p, src := publish(t, e, livetest.Camera{})
	eventually.True(t, "some pictures", func() bool { return p.Sent.Load() > 10 })
	media.Forget(src)
	v, inner := watch(t, e, src)
	eventually.True(t, "pictures to come", func() bool { return len(v.Frames()) > 10 })
	whole(t, v.Frames())
	if <-inner.First(); inner.Kept {
		t.Error("something was kept")
	}
}

// relay pulls a source of one engine to another, and returns the addresses that the pulling engine offers.
func relay(t *testing.T, from *media.Engine, src *media.Source, to *media.Engine) (again *media.Source, offered []string) {
	t.Helper()
	var inner *media.Viewer
	again, err := to.Pull(t.Context(), src.Formats, yes, func(ctx context.Context, offer string) (answer string, err error) {
		for line := range strings.Lines(offer) {
			if f := strings.Fields(line); strings.HasPrefix(line, "a=candidate:") {
				offered = append(offered, net.JoinHostPort(f[4], f[5]))
			}
		}
		inner, answer, err = from.Watch(ctx, src, offer)
		return answer, err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.Close(nil); inner.Close() })
	return again, offered
}

func TestRelay_Forwards(t *testing.T) {
	near, far := engine(t), engine(t)
	p, src := publish(t, near, livetest.Camera{})
	again, _ := relay(t, near, src, far)
	v, _ := watch(t, far, again)
	eventually.True(t, "pictures to come", func() bool { return len(v.Frames()) > 20 && v.Sounds() > 10 })
	whole(t, v.Frames())
	p.Close()
	eventually.True(t, "the viewer to be told", func() bool { return v.Ended() })
}

func TestRelays_AllStreamsOfTwoNodesArrive(t *testing.T) {
	for name, udp := range map[string]string{"one address": "127.0.0.1:0", "all addresses": ":0"} {
		t.Run(name, func(t *testing.T) {
			near, far := engineAt(t, udp), engineAt(t, udp)
			for _, way := range []struct{ from, to *media.Engine }{{near, far}, {near, far}, {far, near}} {
				_, src := publish(t, way.from, livetest.Camera{})
				again, _ := relay(t, way.from, src, way.to)
				v, _ := watch(t, way.to, again)
				eventually.True(t, "pictures to come", func() bool { return len(v.Frames()) > 5 })
				whole(t, v.Frames())
			}
		})
	}
}

func TestRelay_ClosesItsSockets(t *testing.T) {
	near, far := engine(t), engine(t)
	_, src := publish(t, near, livetest.Camera{})
	again, offered := relay(t, near, src, far)
	if len(offered) == 0 {
		t.Fatal("the relay has no address")
	}
	again.Close(nil)
	for _, addr := range offered {
		conn, err := net.ListenPacket("udp", addr)
		if err != nil {
			t.Error(err)
			continue
		}
		_ = conn.Close()
	}
}

func TestSource_RefusesWhileNotOpen(t *testing.T) {
	e := engine(t)
	open := make(chan struct{})
	var src *media.Source
	p, err := livetest.Publish(t.Context(), livetest.Camera{}, func(ctx context.Context, offer string) (answer string, err error) {
		src, answer, err = e.Publish(ctx, offer, func() bool {
			select {
			case <-open:
				return false
			default:
				return true
			}
		})
		return answer, err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	defer src.Close(nil)
	v, _ := watch(t, e, src)
	eventually.True(t, "pictures to come", func() bool { return len(v.Frames()) > 5 })
	close(open)
	before := src.Counts()
	eventually.True(t, "pictures to be refused", func() bool { return src.Counts().Refused > 30 })
	if after := src.Counts(); after.Packets > before.Packets+1 {
		t.Errorf("%d packets counted after that", after.Packets-before.Packets)
	}
	if n := v.Frames()[len(v.Frames())-1].Number; p.Sent.Load()-n < 10 {
		t.Errorf("picture %d has come", n)
	}
}

func TestOffer_InvalidIsRefused(t *testing.T) {
	e := engine(t)
	const session, section = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n", "m=video 9 UDP/TLS/RTP/SAVPF 99\r\n"
	for _, text := range []string{"", "v=0", "hello", session + section + "a=rtpmap:99 MADEUP/90000\r\n", session + strings.Repeat(section, 9),
		session + section + strings.Repeat("a=x\r\n", 2001)} {
		if _, _, err := e.Publish(t.Context(), text, yes); !errors.Is(err, media.ErrOffer) {
			t.Errorf("%.200q: got %v", text, err)
		}
	}
}

// recorded counts the pictures and sounds of a file. It checks that both are in order and that the first picture is a
// key frame.
func recorded(t *testing.T, name string) (pictures, sounds int) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	tracks, err := mkvcore.NewSimpleBlockReader(bytes.NewReader(text))
	if err != nil || len(tracks) != 2 {
		t.Fatalf("%d tracks, %v", len(tracks), err)
	}
	var all sync.WaitGroup
	for _, tr := range tracks {
		all.Go(func() {
			last := int64(-1)
			for i := 0; ; i++ {
				b, key, at, err := tr.Read()
				if err != nil {
					return
				}
				if at < last {
					t.Errorf("%s: %d ms follows %d", tr.TrackEntry().CodecID, at, last)
				}
				last = at
				if tr.TrackEntry().CodecID == "V_VP8" {
					if pictures++; i == 0 && (!key || b[0]&1 != 0) {
						t.Error("the first picture is no key frame")
					}
					continue
				}
				sounds++
			}
		})
	}
	all.Wait()
	return pictures, sounds
}

func TestRecording_BeginsWithKeyFrame(t *testing.T) {
	e := engine(t)
	p, src := publish(t, e, livetest.Camera{KeyEvery: time.Second})
	file, err := os.Create(filepath.Join(t.TempDir(), "live.webm"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := media.Record(src, file, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	from := p.Sent.Load()
	eventually.True(t, "some pictures", func() bool { return p.Sent.Load() > from+75 })
	p.Close()
	src.Close(nil)
	out, err := r.Result()
	if err != nil || out.Bytes < 1000 || out.Duration < time.Second || out.Full {
		t.Fatalf("recorded %+v, %v", out, err)
	}
	pictures, sounds := recorded(t, file.Name())
	if pictures < 40 || sounds < 40 {
		t.Errorf("%d pictures and %d sounds are in the file", pictures, sounds)
	}
}

// A recording must not be larger than the largest file.
func TestRecording_EndsAtMaxSize(t *testing.T) {
	src := media.Unconnected()
	file, err := os.Create(filepath.Join(t.TempDir(), "live.webm"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const most = 100_000
	r, err := media.Record(src, file, most)
	if err != nil {
		t.Fatal(err)
	}
	frame := append([]byte{0x10, 0, 0, 0, 0x9d, 1, 0x2a, 64, 1, 240, 0}, make([]byte, 300)...)
	for i := range uint32(500) { // a key frame every 0.9 s, and as many sounds
		media.Forward(src, false, &rtp.Packet{Header: rtp.Header{Version: 2, Marker: true, SequenceNumber: uint16(i), Timestamp: i * 81000},
			Payload: frame})
		media.Forward(src, true, &rtp.Packet{Header: rtp.Header{Version: 2, SequenceNumber: uint16(i), Timestamp: i * 43200},
			Payload: []byte{0xfc, 0}})
	}
	eventually.True(t, "the file to be full", func() bool {
		select {
		case <-r.Done():
			return true
		default:
			return false
		}
	})
	out, err := r.Result()
	if err != nil || !out.Full || out.Bytes > most || out.Bytes < most*9/10 {
		t.Errorf("recorded %+v, %v", out, err)
	}
	if info, err := os.Stat(file.Name()); err != nil || info.Size() != out.Bytes {
		t.Errorf("the file: %+v, %v", info, err)
	}
}

// A file may fail while several samples are written in a row, for example after a missing packet arrives late.
func TestRecording_EndsWhenFileFails(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(from, make([]byte, 64<<10)) // the space reserved for the index has the size of the pipe's buffer
		read <- err
	}()
	src := media.Unconnected()
	r, err := media.Record(src, to, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	sound := func(i uint32) {
		media.Forward(src, true, &rtp.Packet{Header: rtp.Header{Version: 2, SequenceNumber: uint16(i), Timestamp: i * 960},
			Payload: []byte{0xfc, 0}})
	}
	for i, frame := range [][]byte{{0x10, 0, 0, 0, 0x9d, 1, 0x2a, 64, 1, 240, 0}, {0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}} {
		media.Forward(src, false, &rtp.Packet{Header: rtp.Header{Version: 2, Marker: true, SequenceNumber: uint16(i),
			Timestamp: uint32(i) * 3600}, Payload: frame})
	}
	sound(0)
	// the sound is read after the picture that starts the file
	eventually.True(t, "the file to begin", func() bool { return media.Waiting(r) == 0 })
	if err := errors.Join(<-read, from.Close()); err != nil {
		t.Fatal(err)
	}
	const late = 40
	for i := uint32(2); i < late; i++ {
		sound(i)
	}
	sound(1)
	next := uint32(late)
	eventually.True(t, "the recording to end", func() bool {
		select {
		case <-r.Done():
			return true
		default:
			sound(next)
			next++
			return false
		}
	})
	if _, err := r.Result(); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("recorded with %v", err)
	}
}

func TestRecording_IncludesLateSound(t *testing.T) {
	src := media.Unconnected()
	file, err := os.Create(filepath.Join(t.TempDir(), "live.webm"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := media.Record(src, file, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	const n = 50
	for i := range uint32(n) { // two seconds
		frame := []byte{0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0} // not a key frame
		if i == 0 {
			frame = []byte{0x10, 0, 0, 0, 0x9d, 1, 0x2a, 64, 1, 240, 0}
		}
		media.Forward(src, false, &rtp.Packet{Header: rtp.Header{Version: 2, Marker: true, SequenceNumber: uint16(i), Timestamp: i * 3600},
			Payload: frame})
		if i == 1 { // the first picture is complete, and the file is started
			media.Forward(src, true, &rtp.Packet{Header: rtp.Header{Version: 2, SequenceNumber: 0}, Payload: []byte{0xfc, 0}})
			media.Forward(src, true, &rtp.Packet{Header: rtp.Header{Version: 2, SequenceNumber: 1, Timestamp: 960}, Payload: []byte{0xfc, 0}})
		}
	}
	for i := uint32(2); i < n; i++ {
		media.Forward(src, true, &rtp.Packet{Header: rtp.Header{Version: 2, SequenceNumber: uint16(i), Timestamp: i * 960},
			Payload: []byte{0xfc, 0}})
	}
	eventually.True(t, "all packets taken", func() bool { return media.Waiting(r) == 0 })
	r.Stop()
	if _, err := r.Result(); err != nil {
		t.Fatal(err)
	}
	// The last sample of each track waits for a next one.
	if pictures, sounds := recorded(t, file.Name()); pictures < n-1 || sounds < n-1 {
		t.Errorf("%d pictures and %d sounds are in the file, want %d of each", pictures, sounds, n-1)
	}
}

func TestEngine_OnAllAddressesAcceptsLocally(t *testing.T) {
	e := engineAt(t, ":0")
	_, src := publish(t, e, livetest.Camera{})
	v, _ := watch(t, e, src)
	eventually.True(t, "pictures to come", func() bool { return len(v.Frames()) > 5 })
}

// An address may be added after the start, for example by DHCP, or be removed. New sessions get the present addresses.
func TestEngine_FollowsAddressChanges(t *testing.T) {
	e := engineAt(t, ":0")
	var hidden atomic.Bool
	media.Hide(e, hidden.Load)
	told := errors.New("that is all")
	named := func() (yes bool) {
		t.Helper()
		_, err := livetest.Publish(t.Context(), livetest.Camera{}, func(ctx context.Context, offer string) (string, error) {
			src, answer, err := e.Publish(ctx, offer, func() bool { return true })
			if err != nil {
				return "", err
			}
			src.Close(nil)
			yes = strings.Contains(answer, " 127.0.0.1 ")
			return "", told
		})
		if !errors.Is(err, told) {
			t.Fatal(err)
		}
		return yes
	}
	hidden.Store(true)
	for i, want := range []bool{true, true, false} { // an address that is missing at one check keeps its sessions
		if named() != want {
			t.Errorf("after %d looks that did not find the address it is named: %t", i, !want)
		}
		e.UpdateAddresses()
	}
	hidden.Store(false)
	if e.UpdateAddresses(); !named() {
		t.Error("an address that has come is not named")
	}
	_, src := publish(t, e, livetest.Camera{})
	v, _ := watch(t, e, src)
	eventually.True(t, "pictures to come", func() bool { return len(v.Frames()) > 5 })
}

func TestEngine_AddressChangesAreSafeDuringCalls(t *testing.T) {
	check, addresses, end := media.OnLoopback(0, slog.New(slog.DiscardHandler))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { _ = check() }) // an address without IPv6 may be refused
		all.Go(func() { addresses() })
	}
	all.Wait()
	if err := end(); err != nil {
		t.Error(err)
	}
}

// A port may be in use on one address for some time, and an IPv6 address may not be usable yet.
func TestEngine_RetriesBusyPort(t *testing.T) {
	other, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	taken := []net.PacketConn{other}
	if six, err := net.ListenPacket("udp6", fmt.Sprintf("[::1]:%d", other.LocalAddr().(*net.UDPAddr).Port)); err == nil {
		// the machine has IPv6
		taken = append(taken, six)
	}
	free := sync.OnceFunc(func() {
		for _, conn := range taken {
			_ = conn.Close()
		}
	})
	defer free()
	look, open, end := media.OnLoopback(other.LocalAddr().(*net.UDPAddr).Port, slog.New(slog.DiscardHandler))
	defer func() { _ = end() }()
	err = look()
	if !errors.Is(err, syscall.EADDRINUSE) || slices.Contains(texts(open()), other.LocalAddr().String()) {
		t.Errorf("while another program has the port: %v, open on %s", err, open())
	}
	if text := fmt.Sprint(err); strings.Count(text, syscall.EADDRINUSE.Error()) != 1 || strings.Count(text, "127.0.0.1") != 1 {
		t.Errorf("got %q, want the cause and the first address once", text)
	}
	free()
	if err := look(); err != nil || !slices.Contains(texts(open()), other.LocalAddr().String()) {
		t.Errorf("afterwards: %v, open on %s", err, open())
	}
}

func texts(list []net.Addr) (all []string) {
	for _, a := range list {
		all = append(all, a.String())
	}
	return all
}

// The engine is outside the bubble because of its socket; the session uses the bubble's time.
func TestEngine_CreatesSessionsWhileItRuns(t *testing.T) {
	e := engine(t)
	later := time.Now().AddDate(1, 0, 0).Round(0)
	bubble.Test(t, func(t *testing.T) {
		bubble.Sleep(time.Until(later))
		if err := media.Connect(e); err != nil {
			t.Errorf("after a year: %v", err)
		}
	})
}

func TestAnswer_HasPublicAddress(t *testing.T) {
	e := engineAt(t, "127.0.0.1:0", "203.0.113.7")
	told := errors.New("that is all")
	_, err := livetest.Publish(t.Context(), livetest.Camera{}, func(ctx context.Context, offer string) (string, error) {
		src, answer, err := e.Publish(ctx, offer, yes)
		if err != nil {
			return "", err
		}
		src.Close(nil)
		if !strings.Contains(answer, " 203.0.113.7 ") || strings.Contains(answer, " 127.0.0.1 ") {
			t.Errorf("the answer is\n%s", answer)
		}
		return "", told
	})
	if !errors.Is(err, told) {
		t.Fatal(err)
	}
}

func TestAnswer_OrdersCandidatesByReach(t *testing.T) {
	want := []string{"203.0.113.5", "2001:db8::5", "10.0.0.5", "192.168.1.5", "fd00::5", "169.254.0.5", "fe80::5", "127.0.0.1", "::1"}
	const line = "a=candidate:1 1 udp 2130706431 %s 8189 typ host\r\n"
	mixed, sorted := "", ""
	for i, at := range []int{7, 8, 2, 6, 3, 4, 1, 5, 0} {
		mixed += fmt.Sprintf(line, want[at])
		sorted += fmt.Sprintf(line, want[i])
	}
	if got := media.NearestLast("a=mid:0\r\n" + mixed + "a=end-of-candidates\r\n"); got != "a=mid:0\r\n"+sorted+"a=end-of-candidates\r\n" {
		t.Errorf("the description is\n%s", got)
	}
	e := engineAt(t, ":0")
	told := errors.New("that is all")
	_, err := livetest.Publish(t.Context(), livetest.Camera{}, func(ctx context.Context, offer string) (string, error) {
		src, answer, err := e.Publish(ctx, offer, yes)
		if err != nil {
			return "", err
		}
		src.Close(nil)
		if answer != media.NearestLast(answer) {
			t.Errorf("the answer is\n%s", answer)
		}
		return "", told
	})
	if !errors.Is(err, told) {
		t.Fatal(err)
	}
}

func FuzzOffer(f *testing.F) {
	const begin = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n"
	const candidate = "a=candidate:1 1 udp 9 127.0.0.1 9 typ host\r\n"
	f.Add(begin + "m=video 9 UDP/TLS/RTP/SAVPF 96\r\n" + candidate)
	f.Add(begin + candidate + "m=video 9 UDP/TLS/RTP/SAVPF 96\r\n\r" + candidate)
	f.Add(begin + "m=audio 9 UDP/TLS/RTP/SAVPF 111\nc=IN IP4 0.0.0.0\na=x:\n\n" + candidate)
	f.Fuzz(func(t *testing.T, offer string) {
		text, err := media.WithoutCandidates(offer)
		if err != nil {
			return
		}
		var d sdp.SessionDescription
		if d.UnmarshalString(text) != nil { // the WebRTC library refuses it
			return
		}
		for _, m := range d.MediaDescriptions {
			for _, a := range m.Attributes {
				if a.IsICECandidate() {
					t.Errorf("%q has a candidate: %q", text, a)
				}
			}
		}
	})
}

func TestOffer_AddressesGetNoPacket(t *testing.T) {
	t.Parallel()
	for name, spell := range map[string]func(line string) string{
		"of the client":                func(line string) string { return line + "\r\n" },
		"after a carriage return":      func(line string) string { return "\r" + line + "\r\n" },
		"after two carriage returns":   func(line string) string { return "\r\r" + line + "\r\n" },
		"after an empty line":          func(line string) string { return "\r\n\n" + line + "\n" },
		"with carriage returns inside": func(line string) string { return line + "\r\r\r\n" },
		"after another line":           func(line string) string { return "a=x\r" + line + "\r\n" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			other, err := net.ListenPacket("udp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			var came atomic.Int64
			go func() { // until the socket is closed
				for buf := make([]byte, 1500); ; came.Add(1) {
					if _, _, err := other.ReadFrom(buf); err != nil {
						return
					}
				}
			}()
			line := fmt.Sprintf("a=candidate:1 1 udp 9 127.0.0.1 %d typ host", other.LocalAddr().(*net.UDPAddr).Port)
			e := engine(t)
			var src *media.Source
			p, err := livetest.Publish(t.Context(), livetest.Camera{}, func(ctx context.Context, offer string) (answer string, err error) {
				first, rest, _ := strings.Cut(offer, "a=mid:") // attributes of the first media section
				src, answer, err = e.Publish(ctx, first+spell(line)+"a=mid:"+rest, yes)
				return answer, err
			})
			switch {
			case errors.Is(err, media.ErrOffer):
			case err != nil:
				t.Fatal(err)
			default:
				defer p.Close()
				defer src.Close(nil)
				eventually.True(t, "pictures to come", func() bool { return src.Counts().Packets > 30 })
			}
			if n := came.Load(); n > 0 {
				t.Errorf("%d packets came to the address that the offer names", n)
			}
		})
	}
}
