package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/at-wat/ebml-go"
	"github.com/at-wat/ebml-go/webm"
	"github.com/pion/webrtc/v4"
	"github.com/pion/webrtc/v4/pkg/media"
	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/client"
	"github.com/stoa-dev/stoa/internal/servicekeys"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
)

// connected are the members of the cast who are online during a demo, and their status.
var connected = map[int]string{
	bo: "online", mingyuan: "online", eunji: "online", hana: "away", jonas: "online", lin: "away", quinn: "busy", petra: "online",
	28: "online",
}

// audience lists the viewers of each room. The first one in [FilmRoom] reports the end of the film.
var audience = map[string][]int{FilmRoom: {bo, mingyuan, hana}, LiveRoom: {quinn}}

// again is the pause before a failed call is retried.
const again = 2 * time.Second

// player plays a demo on a running server.
type player struct {
	url     string
	log     *slog.Logger
	clients map[int]*client.Client
}

// Play connects some members of the cast of the demo in db to the server at url until ctx ends. They are online and
// watch the film in [FilmRoom], which restarts at its end. One member publishes the stream of [LiveRoom]. Before Play
// returns, they log out.
func Play(ctx context.Context, db *sqldb.DB, url string, log *slog.Logger) (err error) {
	found, err := users(ctx, db)
	if err != nil {
		return err
	}
	keys := servicekeys.NewAdmin(db)
	if err := keys.Revoke(ctx, playKey); err != nil && !errors.Is(err, servicekeys.ErrUnknown) { // left by a process that was killed
		return err
	}
	_, key, err := keys.Create(ctx, playKey, []servicekeys.Scope{servicekeys.TokensIssue}, maxRate, 0)
	if err != nil {
		return err
	}
	service, err := client.New(url, client.WithServiceKey(key))
	if err != nil {
		return err
	}
	p := &player{url: url, log: log, clients: map[int]*client.Client{}}
	defer func() { err = errors.Join(err, p.leave(ctx, keys)) }()
	for i, status := range connected {
		tokens, err := service.IssueTokens(ctx, found[i].ID.String(), api.ServiceTokens{Device: "Demo"})
		if err != nil {
			return err
		}
		if p.clients[i], err = client.New(url, client.WithTokens(tokens)); err != nil {
			return err
		}
		if _, err := p.clients[i].SetPresence(ctx, status); err != nil {
			return err
		}
	}
	rooms := map[string]string{}
	for name, watching := range audience {
		if rooms[name], err = p.room(ctx, watching[0], name); err != nil {
			return err
		}
	}
	var all sync.WaitGroup
	run := func(what string, fn func() error) {
		all.Go(func() {
			if err := fn(); ctx.Err() == nil { // the visitor has closed the room, or logged out the device
				log.Warn("demo: "+what, "err", err)
			}
		})
	}
	for i, c := range p.clients {
		socket := c.Socket(client.SocketListener{})
		run("user disconnected", func() error { return socket.Run(ctx) })
		for name, watching := range audience {
			if !slices.Contains(watching, i) {
				continue
			}
			moved := make(chan struct{}, 1)
			run("room no longer watched", func() error { return p.watch(ctx, socket, rooms[name], moved) })
			if name == FilmRoom && i == watching[0] {
				run("film no longer rewound", func() error { return p.rewind(ctx, c, rooms[name], moved) })
			}
		}
	}
	run("stream ended", func() error { return p.broadcast(ctx, p.clients[eunji]) })
	all.Wait()
	<-ctx.Done()
	return nil
}

// leave logs the cast out.
func (p *player) leave(ctx context.Context, keys servicekeys.Admin) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	for _, c := range p.clients {
		err = errors.Join(err, c.Logout(ctx))
	}
	return errors.Join(err, keys.Revoke(ctx, playKey))
}

// room returns the id of a room of the demo.
func (p *player) room(ctx context.Context, member int, name string) (string, error) {
	mine, err := p.clients[member].MyRooms(ctx, "", 50)
	for _, r := range mine.Rooms {
		if r.Room.Name == name {
			return r.Room.ID, nil
		}
	}
	return "", errors.Join(err, fmt.Errorf("the demo lacks the room %q", name))
}

// watch lets a member of the cast watch a room. It signals changes of the playback.
func (p *player) watch(ctx context.Context, socket *client.Socket, room string, moved chan<- struct{}) error {
	signal := func() {
		select {
		case moved <- struct{}{}:
		default:
		}
	}
	return socket.Watch(ctx, api.RoomChannel(room), client.SocketListener{Open: func(bool) { signal() }, Event: func(e api.Event) {
		if e.Type == api.EventRoomPlayback {
			signal()
		}
	}})
}

// rewind reports each end of the current item, as a player does.
func (p *player) rewind(ctx context.Context, c *client.Client, room string, moved <-chan struct{}) error {
	for {
		wait, err := p.ended(ctx, c, room)
		if err != nil {
			wait = again // another viewer may have reported it first
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
		case <-time.After(wait):
		}
	}
}

// ended reports the end of the current item if it has ended. Otherwise it returns the remaining time.
func (p *player) ended(ctx context.Context, c *client.Client, room string) (wait time.Duration, err error) {
	scene, err := c.RoomScene(ctx, room)
	if err != nil {
		return 0, err
	}
	on := scene.Playback
	for _, it := range scene.Playlist.Items {
		if it.ID != on.Item || it.Duration == 0 || on.Paused || on.Rate == 0 {
			continue
		}
		var now client.PlaybackSync
		now.Take(on)
		left := time.Duration(it.Duration)*time.Millisecond - now.Position(time.UnixMilli(scene.Clock))
		if left > 0 {
			return time.Duration(float64(left) / on.Rate), nil
		}
		_, err := c.Ended(ctx, room, api.PlaybackEnded{Generation: on.Generation, Version: on.Version})
		return 0, err
	}
	return time.Minute, nil // an event of the room ends the wait
}

// broadcast publishes the server's sample video as a live stream, in a loop.
func (p *player) broadcast(ctx context.Context, c *client.Client) error {
	frames, err := p.sample(ctx)
	if err != nil {
		return err
	}
	for {
		if err := p.publish(ctx, c, frames); ctx.Err() == nil {
			p.log.Warn("demo: stream not published", "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(again):
		}
	}
}

// frame is a picture of the sample video.
type frame struct {
	key   bool
	data  []byte
	lasts time.Duration
}

// sample returns the pictures of the video that every server has: VP8, with a key frame every ten seconds.
func (p *player) sample(ctx context.Context) ([]frame, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+api.RoomSample, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	file, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	var film struct {
		Header  webm.EBMLHeader `ebml:"EBML"`
		Segment webm.Segment    `ebml:"Segment"`
	}
	if err := ebml.Unmarshal(bytes.NewReader(file), &film, ebml.WithIgnoreUnknown(true)); err != nil {
		return nil, fmt.Errorf("%s: %w", api.RoomSample, err)
	}
	var frames []frame
	var times []time.Duration
	for _, cluster := range film.Segment.Cluster {
		for _, b := range cluster.SimpleBlock {
			frames = append(frames, frame{key: b.Keyframe, data: bytes.Join(b.Data, nil)})
			times = append(times, time.Duration(int64(cluster.Timecode)+int64(b.Timecode))*time.Millisecond)
		}
	}
	if len(frames) < 2 {
		return nil, fmt.Errorf("%s has %d pictures", api.RoomSample, len(frames))
	}
	for i := range frames[1:] {
		frames[i].lasts = times[i+1] - times[i]
	}
	frames[len(frames)-1].lasts = frames[0].lasts
	return frames, nil
}

// publish publishes one session by WHIP until it ends.
func (p *player) publish(ctx context.Context, c *client.Client, frames []frame) error {
	mine, err := c.MyStreams(ctx)
	if err != nil {
		return err
	}
	if len(mine.Streams) == 0 {
		return errors.New("the stream is gone")
	}
	// The server is this process. Both ends use the loopback interface, also on a machine without a network.
	settings := webrtc.SettingEngine{}
	settings.SetIncludeLoopbackCandidate(true)
	pc, err := webrtc.NewAPI(webrtc.WithSettingEngine(settings)).NewPeerConnection(webrtc.Configuration{})
	if err != nil {
		return err
	}
	defer pc.Close()
	track, err := webrtc.NewTrackLocalStaticSample(webrtc.RTPCodecCapability{MimeType: webrtc.MimeTypeVP8, ClockRate: 90_000}, "video", "demo")
	if err != nil {
		return err
	}
	if _, err := pc.AddTransceiverFromTrack(track, webrtc.RTPTransceiverInit{Direction: webrtc.RTPTransceiverDirectionSendonly}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	connected := make(chan struct{}, 1)
	pc.OnConnectionStateChange(func(s webrtc.PeerConnectionState) {
		switch s {
		case webrtc.PeerConnectionStateConnected:
			connected <- struct{}{}
		case webrtc.PeerConnectionStateFailed, webrtc.PeerConnectionStateClosed, webrtc.PeerConnectionStateDisconnected:
			cancel(fmt.Errorf("the connection is %s", s))
		}
	})
	session, err := p.negotiate(ctx, pc, p.url+"/v1/streams/"+mine.Streams[0].ID+"/whip", c.Tokens().AccessToken)
	if err != nil {
		return err
	}
	defer session.end(context.WithoutCancel(ctx))
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-connected:
	}
	tick := time.NewTimer(0)
	defer tick.Stop()
	for next := time.Now(); ; {
		for _, f := range frames {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-tick.C:
			}
			if err := track.WriteSample(media.Sample{Data: f.data, Duration: f.lasts}); err != nil {
				return err
			}
			next = next.Add(f.lasts)
			tick.Reset(time.Until(next))
		}
	}
}

// whip is a session of WHIP.
type whip struct{ at, token string }

// negotiate offers a connection to a server.
func (p *player) negotiate(ctx context.Context, pc *webrtc.PeerConnection, at, token string) (session whip, err error) {
	offer, err := pc.CreateOffer(nil)
	if err != nil {
		return session, err
	}
	gathered := webrtc.GatheringCompletePromise(pc)
	if err := pc.SetLocalDescription(offer); err != nil {
		return session, err
	}
	<-gathered
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, strings.NewReader(pc.LocalDescription().SDP))
	if err != nil {
		return session, err
	}
	req.Header.Set("Content-Type", "application/sdp")
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return session, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return session, err
	}
	if resp.StatusCode != http.StatusCreated {
		return session, fmt.Errorf("%s: %s", resp.Status, answer)
	}
	location, err := resp.Location()
	if err != nil {
		return session, err
	}
	return whip{location.String(), token}, pc.SetRemoteDescription(webrtc.SessionDescription{Type: webrtc.SDPTypeAnswer, SDP: string(answer)})
}

// end ends the session. The server also notices the end of the connection by itself.
func (w whip) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, w.at, nil)
	if err != nil {
		return
	}
	req.Header.Set("Authorization", "Bearer "+w.token)
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
	}
}
