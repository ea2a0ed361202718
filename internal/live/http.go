package live

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/storage/sqldb"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

// Limits for each user, or for each client network, stream and kind of key if the caller has a key.
var (
	createLimit  = ratelimit.Limit{Max: 30, Window: time.Hour}
	keysLimit    = ratelimit.Limit{Max: 30, Window: time.Hour}
	publishLimit = ratelimit.Limit{Max: 30, Window: time.Minute}
	watchLimit   = ratelimit.Limit{Max: 600, Window: time.Minute} // an office may be one client network
)

// sdp is the media type of WHIP and WHEP.
const sdp = "application/sdp"

// Routes adds the operations of this package to a.
func (s *Service) Routes(a *web.API) {
	tags := []string{"live"}
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/streams", ID: "live.create", Tags: tags, Limit: createLimit,
		Status: http.StatusCreated, NoReplay: true, Creates: true,
		Summary: "Create a stream", Description: "The response contains the keys, which are not shown again. A retry with the same " +
			"Idempotency-Key returns the same stream with new keys, which replace those of the first response.",
		Errors: []*errs.Error{ErrTitle, ErrStreams, ErrStream, accounts.ErrNoUser, ErrStore}}, s.postStream)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/streams", ID: "live.mine", Tags: tags,
		Summary: "List the caller's streams, newest first", Errors: []*errs.Error{ErrStore}}, s.getMine)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/streams/live", ID: "live.list", Tags: tags,
		Summary: "List open live streams",
		Description: "The stream that started last comes first. A page may have fewer streams than requested, because it omits publishers of " +
			"crashed nodes.", Errors: []*errs.Error{ErrCursor, ErrStore}}, s.getLive)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/streams/{stream}", ID: "live.get", Tags: tags,
		Summary:     "Get a stream",
		Description: "The caller must have the right to watch it.", Errors: []*errs.Error{ErrStream, ErrStore}}, s.getStream)
	web.Handle(a, web.Op{Method: http.MethodPatch, Path: "/v1/streams/{stream}", ID: "live.update", Tags: tags,
		Summary: "Update a stream", Errors: []*errs.Error{ErrStream, ErrTitle, ErrStore}}, s.patchStream)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/streams/{stream}", ID: "live.delete", Tags: tags, Status: http.StatusNoContent,
		Summary: "Delete a stream", Description: "Its publisher and viewers are disconnected. The caller keeps the recordings.",
		Errors: []*errs.Error{ErrStream, ErrStore}}, s.deleteStream)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/streams/{stream}/keys", ID: "live.rotate", Tags: tags, Limit: keysLimit,
		Status: http.StatusOK, NoReplay: true,
		Summary: "Rotate the keys of a stream", Description: "The old keys become invalid. Publishers and viewers that use them are " +
			"disconnected, within a second if the nodes reach each other.", Errors: []*errs.Error{ErrStream, ErrStore}}, s.postKeys)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/streams/{stream}/stop", ID: "live.stop", Tags: tags, Status: http.StatusNoContent,
		Summary:     "Disconnect the publisher of a stream",
		Description: "The publisher can reconnect with the publish key, and many programs do so automatically. Rotate the key to prevent that.",
		Errors:      []*errs.Error{ErrStream, ErrOffAir, ErrState, ErrStore}}, s.postStop)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/streams/{stream}/viewers", ID: "live.viewers", Tags: tags,
		Summary:     "List viewers of a stream",
		Description: "At most 1000.", Errors: []*errs.Error{ErrStream, ErrState, ErrStore}}, s.getViewers)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/streams/{stream}/recordings", ID: "live.recordings", Tags: tags,
		Summary:     "List recordings of a stream",
		Description: "Newest first.", Errors: []*errs.Error{ErrStream, ErrCursor, ErrStore}}, s.getRecordings)
	s.mediaRoutes(a, tags)
}

func (s *Service) mediaRoutes(a *web.API, tags []string) {
	for _, path := range []string{"/v1/streams/{stream}/whip", "/v1/streams/{stream}/whep"} { // RFC 9725, section 4.2
		a.Raw("OPTIONS "+path, http.HandlerFunc(options))
		a.Raw("OPTIONS "+path+"/{session}", http.HandlerFunc(options))
	}
	begin := []*errs.Error{ErrStream, ErrMay, ErrOffer, ErrCodec, ErrMedia, ErrFull, ErrState, ErrStore}
	statuses := map[string]int{ErrCodec.Code: http.StatusNotAcceptable, ErrOffer.Code: http.StatusBadRequest}
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/streams/{stream}/whip", ID: "live.publish", Tags: tags, Limit: publishLimit,
		Status: http.StatusCreated, Statuses: statuses, NoReplay: true, MediaType: sdp,
		Summary: "Publish a stream by WHIP",
		Description: "The bearer token is the publish key, or the owner's access token. The answer contains all candidates, and candidates of " +
			"the offer are ignored: there is no trickle ICE, and PATCH returns 405. DELETE at Location ends the session.",
		Errors: append(slices.Clone(begin), ErrBusy)}, s.postWHIP)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/streams/{stream}/whip/{session}", ID: "live.unpublish", Tags: tags,
		Status:  http.StatusOK,
		Summary: "End a publisher's session", Errors: []*errs.Error{ErrStream, ErrMay, ErrSession, ErrState, ErrStore}}, s.deleteWHIP)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/streams/{stream}/whep", ID: "live.watch", Tags: tags, Limit: watchLimit,
		Status: http.StatusCreated, Statuses: statuses, NoReplay: true, MediaType: sdp,
		Summary: "Watch a stream by WHEP",
		Description: "WHEP is draft-ietf-wish-whep. The bearer token is the play key, a token from a room's playlist, or the access token of " +
			"a user who may watch. The answer contains all candidates, and candidates of the offer are ignored: PATCH returns 405. If the stream " +
			"is not live, the response is 409 with Retry-After.",
		Errors: append(slices.Clone(begin), ErrTooMany, ErrOffAir, ErrNode)}, s.postWHEP)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/streams/{stream}/whep/{session}", ID: "live.leave", Tags: tags,
		Status:  http.StatusOK,
		Summary: "End a viewer's session", Errors: []*errs.Error{ErrStream, ErrMay, ErrSession, ErrStore}}, s.deleteWHEP)
}

// options answers OPTIONS as WHIP and WHEP require. CORS preflights of a listed origin are answered earlier.
func options(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Accept-Post", sdp) }

// StreamPath identifies a stream.
type StreamPath struct {
	ID ID `path:"stream" maxLength:"64" unknown:"live.stream_unknown" doc:"the stream's id"`
}

// as returns the stream of a path and the caller, who may have a key of that stream. It returns ErrStream.
func (p StreamPath) as(caller web.Caller) (ID, Caller, error) {
	switch c := caller.(type) {
	case accounts.Caller:
		return p.ID, Caller{User: c.User, Device: c.Device}, nil
	case *Holder:
		if c.Stream == p.ID {
			return p.ID, Caller{Key: c}, nil
		}
	}
	return p.ID, Caller{}, ErrStream
}

// SessionPath identifies a session of a stream.
type SessionPath struct {
	StreamPath
	Session SessionID `path:"session" maxLength:"64" unknown:"live.session_unknown" doc:"the session's id"`
}

func (s Shown) wire() api.Stream {
	w := api.Stream{ID: s.ID.String(), Owner: s.Owner.String(), Title: s.Title, Access: s.Access.String(), Record: s.Record,
		Created: api.At(sqldb.Time(s.Created)), LastLive: api.AtOrNil(sqldb.TimeOrZero(s.Last))}
	if a := s.OnAir; a != nil {
		w.Live = &api.StreamLive{Since: api.At(sqldb.Time(a.Started)), Recording: a.Recording, Viewers: s.Stats.Viewers, Bitrate: s.Stats.Bitrate,
			Packets: s.Stats.Packets, Bytes: s.Stats.Bytes, Lost: s.Stats.Lost}
		if f := a.Formats.Video; f != nil {
			w.Live.Video = f.Name()
		}
		if f := a.Formats.Audio; f != nil {
			w.Live.Audio = f.Name()
		}
	}
	return w
}

func (k StreamKeys) wire() api.StreamKeys { return api.StreamKeys{Publish: k.Publish, Play: k.Play} }

// accessOf returns the value of a valid name in the API, or nil for nil.
func accessOf(name *string) *Access {
	if name == nil {
		return nil
	}
	a := Access(slices.Index(accesses[:], *name))
	return &a
}

func (s *Service) postStream(ctx context.Context, caller accounts.Caller, in *web.Body[api.StreamNew]) (*web.Body[api.StreamKeyed], error) {
	st, keys, err := s.Create(ctx, caller.User, web.NewID[Stream](ctx),
		Update{Title: &in.Body.Title, Access: accessOf(in.Body.Access), Record: in.Body.Record})
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.StreamKeyed{Stream: Shown{Stream: st}.wire(), Keys: keys.wire()}), nil
}

func (s *Service) getMine(ctx context.Context, caller accounts.Caller, _ *web.Empty) (*web.Body[api.Streams], error) {
	list, err := s.Mine(ctx, caller.User)
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.Streams{Streams: web.List(list, Shown.wire)}), nil
}

func (s *Service) getLive(ctx context.Context, _ accounts.Caller, in *struct {
	Cursor string `query:"cursor" maxLength:"200" doc:"the next field of the previous page"`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50"`
}) (*web.Body[api.Streams], error) {
	list, next, err := s.List(ctx, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.Streams{Streams: web.List(list, Shown.wire), Next: next}), nil
}

func (s *Service) getStream(ctx context.Context, caller accounts.Caller, in *StreamPath) (*web.Body[api.Stream], error) {
	sh, err := s.Get(ctx, caller.User, in.ID)
	if err != nil {
		return nil, err
	}
	return web.NewBody(sh.wire()), nil
}

func (s *Service) patchStream(ctx context.Context, caller accounts.Caller, in *struct {
	StreamPath
	Body api.StreamUpdate
}) (*web.Body[api.Stream], error) {
	st, err := s.Update(ctx, caller.User, in.ID, Update{Title: in.Body.Title, Access: accessOf(in.Body.Access), Record: in.Body.Record})
	if err != nil {
		return nil, err
	}
	return web.NewBody(s.show(ctx, []Stream{st})[0].wire()), nil
}

func (s *Service) deleteStream(ctx context.Context, caller accounts.Caller, in *StreamPath) (*web.Empty, error) {
	return nil, s.Delete(ctx, caller.User, in.ID)
}

func (s *Service) postKeys(ctx context.Context, caller accounts.Caller, in *struct {
	StreamPath
	Body api.StreamRotate
}) (*web.Body[api.StreamKeys], error) {
	keys, err := s.Rotate(ctx, caller.User, in.ID, KeySet{Publish: in.Body.Publish, Play: in.Body.Play})
	if err != nil {
		return nil, err
	}
	return web.NewBody(keys.wire()), nil
}

func (s *Service) postStop(ctx context.Context, caller accounts.Caller, in *StreamPath) (*web.Empty, error) {
	return nil, s.Stop(ctx, caller.User, in.ID)
}

func (s *Service) getViewers(ctx context.Context, caller accounts.Caller, in *StreamPath) (*web.Body[api.StreamViewers], error) {
	list, err := s.Viewers(ctx, caller.User, in.ID)
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.StreamViewers{Viewers: web.List(list, func(w Watching) api.StreamViewer {
		out := api.StreamViewer{Session: w.Session.String(), Node: w.Node}
		if !w.User.IsZero() {
			out.User = w.User.String()
		}
		return out
	})}), nil
}

func (s *Service) getRecordings(ctx context.Context, caller accounts.Caller, in *struct {
	StreamPath
	Cursor string `query:"cursor" maxLength:"200" doc:"the next field of the previous page"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"200"`
}) (*web.Body[api.StreamRecordings], error) {
	list, next, err := s.Recordings(ctx, caller.User, in.ID, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.StreamRecordings{Next: next, Recordings: web.List(list, func(r Recording) api.StreamRecording {
		return api.StreamRecording{ID: r.ID.String(), File: r.File, Fault: r.Fault, Started: api.At(sqldb.Time(r.Started)), Duration: r.Duration,
			Bytes: r.Bytes}
	})}), nil
}

// answered is the response for a new session.
type answered struct {
	Type     string `header:"Content-Type"`
	Location string `header:"Location"`
	Body     []byte
}

// offering is an offer for a stream.
type offering struct {
	StreamPath
	RawBody []byte `contentType:"application/sdp"`
}

func (s *Service) postWHIP(ctx context.Context, caller web.Caller, in *offering) (*answered, error) {
	id, by, err := in.as(caller)
	if err != nil {
		return nil, err
	}
	session, answer, err := s.Publish(ctx, by, id, string(in.RawBody))
	if err != nil {
		return nil, err
	}
	return &answered{sdp, publishPath(id) + "/" + session.String(), []byte(answer)}, nil
}

func (s *Service) deleteWHIP(ctx context.Context, caller web.Caller, in *SessionPath) (*web.Empty, error) {
	id, by, err := in.as(caller)
	if err != nil {
		return nil, err
	}
	return nil, s.Unpublish(ctx, by, id, in.Session)
}

func (s *Service) postWHEP(ctx context.Context, caller web.Caller, in *offering) (*answered, error) {
	id, by, err := in.as(caller)
	if err != nil {
		return nil, err
	}
	session, answer, err := s.Watch(ctx, by, id, string(in.RawBody))
	if err != nil {
		return nil, err
	}
	return &answered{sdp, watchPath(id) + "/" + session.String(), []byte(answer)}, nil
}

func (s *Service) deleteWHEP(ctx context.Context, caller web.Caller, in *SessionPath) (*web.Empty, error) {
	id, by, err := in.as(caller)
	if err != nil {
		return nil, err
	}
	return nil, s.Leave(ctx, by, id, in.Session)
}
