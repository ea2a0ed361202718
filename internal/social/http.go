package social

import (
	"context"
	"net/http"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/base/ids"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/internal/webhooks"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

// requestLimit allows more requests than a user needs, and makes guessing ids slow.
var requestLimit = ratelimit.Limit{Max: 60, Window: time.Minute}

// Routes adds the domain's operations to a.
func (s *Service) Routes(a *web.API) {
	tags := []string{"friends"}
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/friends/requests", ID: "friends.ask", Tags: tags, Limit: requestLimit,
		Summary: "Send a friend request",
		Description: "The receiver is named by id or by the token of their card. If the receiver has already sent the caller a request, the " +
			"two become friends immediately. A blocked sender gets the same refusal as a sender to a user who accepts no requests. Limited to 60 " +
			"requests a minute.",
		Errors: []*errs.Error{ErrWhom, ErrSelf, ErrText, ErrSource, accounts.ErrNoUser, accounts.ErrNoCard, ErrAlready, ErrYouBlock, ErrTooSoon,
			ErrNotAccepting, ErrOutFull, ErrFull, ErrOtherFull, webhooks.ErrRefused, webhooks.ErrUnavailable, ErrStore}}, s.postRequest)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/friends/requests", ID: "friends.requests", Tags: tags,
		Summary:     "List pending friend requests",
		Description: "Newest first.", Errors: []*errs.Error{ErrCursor, ErrStore}}, s.getRequests)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/friends/requests/{request}/accept", ID: "friends.accept", Tags: tags,
		Summary: "Accept a friend request", Errors: []*errs.Error{ErrText, ErrNoRequest, ErrClosed, accounts.ErrNoUser, ErrFull, ErrOtherFull,
			ErrStore}}, s.postAccept)
	web.Handle(a, web.Op{Method: http.MethodPost, Path: "/v1/friends/requests/{request}/refuse", ID: "friends.refuse", Tags: tags,
		Status:  http.StatusNoContent,
		Summary: "Refuse a friend request", Errors: []*errs.Error{ErrNoRequest, ErrClosed, ErrStore}}, s.postRefuse)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/friends/requests/{request}", ID: "friends.withdraw", Tags: tags,
		Status:  http.StatusNoContent,
		Summary: "Withdraw a friend request", Errors: []*errs.Error{ErrNoRequest, ErrClosed, ErrStore}}, s.deleteRequest)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/friends/requests/unread", ID: "friends.unread", Tags: tags,
		Summary:     "Count new friend requests",
		Description: "Counts the pending requests to the caller that are newer than the last call of `friends.seen`.",
		Errors:      []*errs.Error{ErrStore}}, s.getUnread)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/friends/requests/unread", ID: "friends.seen", Tags: tags,
		Status:  http.StatusNoContent,
		Summary: "Mark friend requests as seen", Errors: []*errs.Error{ErrStore}}, s.deleteUnread)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/friends", ID: "friends.list", Tags: tags,
		Summary: "List friends",
		Description: "Sorted by order, then newest first. A client that stores the list loads all pages and stores the version of the first. " +
			"Later it lists the changes since this version.",
		Errors: []*errs.Error{ErrCursor, ErrStore}}, s.getFriends)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/friends/changes", ID: "friends.changes", Tags: tags,
		Summary:     "List friend changes since a version",
		Description: "Removals are stored for 90 days. If the version is older, `reset` is true.",
		Errors:      []*errs.Error{ErrStore}}, s.getChanges)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/friends/{user}", ID: "friends.get", Tags: tags,
		Summary: "Get a friend", Errors: []*errs.Error{ErrNoFriend, ErrStore}}, s.getFriend)
	web.Handle(a, web.Op{Method: http.MethodPatch, Path: "/v1/friends/{user}", ID: "friends.note", Tags: tags,
		Summary:     "Update a friend",
		Description: "Changes the remark, the tag or the order.", Errors: []*errs.Error{ErrText, ErrOrder, ErrNoFriend, ErrStore}}, s.patchFriend)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/friends/{user}", ID: "friends.remove", Tags: tags, Status: http.StatusNoContent,
		Summary: "End a friendship", Errors: []*errs.Error{ErrNoFriend, ErrStore}}, s.deleteFriend)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/relations", ID: "friends.relations", Tags: tags,
		Summary:     "Get relations to users",
		Description: "Returns the relations to up to 100 users, with the pending requests between them and the caller.",
		Errors:      []*errs.Error{ErrTooMany, ids.ErrMalformed, ErrStore}}, s.getRelations)
	tags = []string{"blocks"}
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/blocks", ID: "blocks.list", Tags: tags,
		Summary:     "List blocked users",
		Description: "Newest block first.", Errors: []*errs.Error{ErrCursor, ErrStore}}, s.getBlocks)
	web.Handle(a, web.Op{Method: http.MethodPut, Path: "/v1/blocks/{user}", ID: "blocks.add", Tags: tags, Status: http.StatusNoContent,
		Summary: "Block a user",
		Description: "Ends the friendship and any pending request between the two. The other user gets no event of the block. A second block " +
			"changes nothing.",
		Errors: []*errs.Error{ErrSelf, accounts.ErrNoUser, ErrBlocksFull, ErrStore}}, s.putBlock)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/blocks/{user}", ID: "blocks.remove", Tags: tags, Status: http.StatusNoContent,
		Summary:     "Unblock a user",
		Description: "The friendship and the requests that the block ended are not restored.",
		Errors:      []*errs.Error{accounts.ErrNoUser, ErrStore}}, s.deleteBlock)
}

// UserPath names a user.
type UserPath struct {
	User accounts.ID `path:"user" maxLength:"64" unknown:"friends.not_friends,account.unknown" doc:"the user's id"`
}

// RequestPath names a request.
type RequestPath struct {
	Request RequestID `path:"request" maxLength:"64" unknown:"friends.request_unknown" doc:"the request's id"`
}

// PageQuery selects a page of a list.
type PageQuery struct {
	Cursor string `query:"cursor" maxLength:"120" doc:"the next field of the previous page"`
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"maximum number of results"`
}

func (s *Service) postRequest(ctx context.Context, caller accounts.Caller,
	in *web.Body[api.FriendRequestNew]) (*web.Body[api.FriendRequestReply], error) {
	b := in.Body
	a := RequestDraft{Card: b.Card, Message: b.Message, Source: b.Source, Remark: b.Remark, Tag: b.Tag}
	if b.User != "" {
		var err error
		if a.User, err = ids.Parse[accounts.User](b.User); err != nil {
			return nil, accounts.ErrNoUser
		}
	}
	r, isNew, err := s.SendRequest(ctx, caller.User, a)
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.FriendRequestReply{Request: r.wire(s.people.ProfilesOrNone(ctx, r.From, r.To)), New: isNew}), nil
}

type requestsInput struct {
	PageQuery
	Box string `query:"box" enum:"in,out" default:"in" doc:"in: requests to the caller; out: requests of the caller"`
}

func (s *Service) getRequests(ctx context.Context, caller accounts.Caller, in *requestsInput) (*web.Body[api.FriendRequests], error) {
	list := s.Received
	if in.Box == "out" {
		list = s.Sent
	}
	found, next, err := list(ctx, caller.User, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	users := []accounts.ID{caller.User}
	for _, r := range found {
		users = append(users, r.From, r.To)
	}
	profiles, err := s.people.Profiles(ctx, users)
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.FriendRequests{Requests: web.List(found, func(r Request) api.FriendRequest {
		return r.wire(profiles)
	}), Next: next}), nil
}

func (s *Service) postAccept(ctx context.Context, caller accounts.Caller, in *struct {
	RequestPath
	Body *api.FriendRequestAccept
}) (*web.Body[api.Friend], error) {
	var note api.FriendRequestAccept
	if in.Body != nil {
		note = *in.Body
	}
	f, err := s.Accept(ctx, caller.User, in.Request, note.Remark, note.Tag)
	if err != nil {
		return nil, err
	}
	return web.NewBody(f.wire(s.people.ProfilesOrNone(ctx, f.User))), nil
}

func (s *Service) postRefuse(ctx context.Context, caller accounts.Caller, in *RequestPath) (*web.Empty, error) {
	return &web.Empty{}, s.Refuse(ctx, caller.User, in.Request)
}

func (s *Service) deleteRequest(ctx context.Context, caller accounts.Caller, in *RequestPath) (*web.Empty, error) {
	return &web.Empty{}, s.Withdraw(ctx, caller.User, in.Request)
}

func (s *Service) getUnread(ctx context.Context, caller accounts.Caller, _ *web.Empty) (*web.Body[api.Unread], error) {
	n, err := s.Unread(ctx, caller.User)
	return web.NewBody(api.Unread{Unread: n}), err
}

func (s *Service) deleteUnread(ctx context.Context, caller accounts.Caller, _ *web.Empty) (*web.Empty, error) {
	return &web.Empty{}, s.Seen(ctx, caller.User)
}

type friendsInput struct {
	PageQuery
	Tag string `query:"tag" maxLength:"20" doc:"only friends with this tag"`
}

func (s *Service) getFriends(ctx context.Context, caller accounts.Caller, in *friendsInput) (*web.Body[api.Friends], error) {
	found, next, version, err := s.Friends(ctx, caller.User, in.Tag, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	friends, err := s.wire(ctx, found)
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.Friends{Friends: friends, Next: next, Version: version}), nil
}

type changesInput struct {
	Since int64 `query:"since" minimum:"0" default:"0" doc:"version of the caller's stored list; 0 for an empty list"`
	Limit int   `query:"limit" minimum:"1" maximum:"500" default:"100" doc:"maximum number of results"`
}

func (s *Service) getChanges(ctx context.Context, caller accounts.Caller, in *changesInput) (*web.Body[api.FriendChanges], error) {
	c, err := s.Changes(ctx, caller.User, in.Since, in.Limit)
	if err != nil {
		return nil, err
	}
	changed, err := s.wire(ctx, c.Changed)
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.FriendChanges{Changed: changed, Removed: web.List(c.Removed, accounts.ID.String),
		Version: c.Version, More: c.More, Reset: c.Reset}), nil
}

func (s *Service) getFriend(ctx context.Context, caller accounts.Caller, in *UserPath) (*web.Body[api.Friend], error) {
	f, err := s.Friend(ctx, caller.User, in.User)
	if err != nil {
		return nil, err
	}
	friends, err := s.wire(ctx, []Friend{f})
	if err != nil {
		return nil, err
	}
	return web.NewBody(friends[0]), nil
}

func (s *Service) patchFriend(ctx context.Context, caller accounts.Caller, in *struct {
	UserPath
	Body api.FriendUpdate
}) (*web.Body[api.Friend], error) {
	f, err := s.UpdateFriend(ctx, caller.User, in.User, FriendUpdate{Remark: in.Body.Remark, Tag: in.Body.Tag, Order: in.Body.Order})
	if err != nil {
		return nil, err
	}
	return web.NewBody(f.wire(s.people.ProfilesOrNone(ctx, in.User))), nil
}

func (s *Service) deleteFriend(ctx context.Context, caller accounts.Caller, in *UserPath) (*web.Empty, error) {
	return &web.Empty{}, s.Unfriend(ctx, caller.User, in.User)
}

type relationsInput struct {
	IDs []accounts.ID `query:"ids" required:"true" minItems:"1" maxItems:"100" unknown:"id.malformed" doc:"ids of users, separated by commas"`
}

func (s *Service) getRelations(ctx context.Context, caller accounts.Caller, in *relationsInput) (*web.Body[api.Relations], error) {
	found, err := s.Relations(ctx, caller.User, in.IDs)
	if err != nil {
		return nil, err
	}
	pending, err := s.PendingBetween(ctx, caller.User, in.IDs, found)
	if err != nil {
		return nil, err
	}
	out := api.Relations{Relations: make([]api.Relation, len(found))}
	for i, r := range found {
		wire := api.Relation{User: in.IDs[i].String(), Friend: r.Friend, Blocked: r.Blocked}
		if q, ok := pending[in.IDs[i]]; ok {
			request := &api.RelationRequest{ID: q.ID.String(), Message: q.Message}
			if q.To == caller.User {
				wire.Asks = request
			} else {
				wire.Asked = request
			}
		}
		out.Relations[i] = wire
	}
	return web.NewBody(out), nil
}

func (s *Service) getBlocks(ctx context.Context, caller accounts.Caller, in *PageQuery) (*web.Body[api.Blocks], error) {
	found, next, err := s.Blocks(ctx, caller.User, in.Cursor, in.Limit)
	if err != nil {
		return nil, err
	}
	profiles, err := s.people.Profiles(ctx, web.List(found, func(b Block) accounts.ID { return b.User }))
	if err != nil {
		return nil, err
	}
	wire := func(b Block) api.Block { return api.Block{User: profiles.Wire(b.User), Since: api.At(b.Since)} }
	return web.NewBody(api.Blocks{Blocks: web.List(found, wire), Next: next}), nil
}

func (s *Service) putBlock(ctx context.Context, caller accounts.Caller, in *UserPath) (*web.Empty, error) {
	return &web.Empty{}, s.Block(ctx, caller.User, in.User)
}

func (s *Service) deleteBlock(ctx context.Context, caller accounts.Caller, in *UserPath) (*web.Empty, error) {
	return &web.Empty{}, s.Unblock(ctx, caller.User, in.User)
}

// wire adds profiles and streaks to friends, each in one round trip for all. It omits streaks that cannot be read.
func (s *Service) wire(ctx context.Context, found []Friend) ([]api.Friend, error) {
	users := web.List(found, func(f Friend) accounts.ID { return f.User })
	profiles, err := s.people.Profiles(ctx, users)
	if err != nil {
		return nil, err
	}
	out := web.List(found, func(f Friend) api.Friend { return f.wire(profiles) })
	if s.streaks == nil || len(users) == 0 {
		return out, nil
	}
	streaks, err := s.streaks(ctx, users)
	if err != nil {
		s.log.Warn("social: streaks omitted: not read", "err", err)
	}
	for i, u := range users {
		if n, ok := streaks[u]; ok {
			out[i].Streak = &n
		}
	}
	return out, nil
}
