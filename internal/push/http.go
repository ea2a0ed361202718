package push

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/stoa-dev/stoa/api"
	"github.com/stoa-dev/stoa/internal/accounts"
	"github.com/stoa-dev/stoa/internal/base/errs"
	"github.com/stoa-dev/stoa/internal/httpapi/web"
	"github.com/stoa-dev/stoa/lib/ratelimit"
)

// subscribeLimit is more than a browser needs, and makes trying out addresses slow.
var subscribeLimit = ratelimit.Limit{Max: 30, Window: time.Minute}

// Routes adds the domain's operations to a.
func (s *Service) Routes(a *web.API) {
	tags := []string{"notices"}
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/push/key", ID: "push.key", Tags: tags,
		Summary: "The server's key, with which a browser subscribes", Errors: []*errs.Error{ErrStore}}, s.getKey)
	web.Handle(a, web.Op{Method: http.MethodGet, Path: "/v1/push", ID: "push.get", Tags: tags,
		Summary: "What is pushed to the caller", Errors: []*errs.Error{ErrStore}}, s.getStatus)
	web.Handle(a, web.Op{Method: http.MethodPatch, Path: "/v1/push", ID: "push.set", Tags: tags, Status: http.StatusOK,
		Summary: "Change what is pushed to the caller",
		Description: "A chat that is muted is never pushed, and a group as its notification setting says. " +
			"A push has the text of a message only with previews.",
		Errors: []*errs.Error{ErrStore}}, s.patchStatus)
	web.Handle(a, web.Op{Method: http.MethodPut, Path: "/v1/push/subscription", ID: "push.subscribe", Tags: tags, Status: http.StatusOK, Limit: subscribeLimit,
		Summary:     "Push to the calling device while none of the caller's is on line",
		Description: "Takes what PushSubscription.toJSON returns. It ends with the device's session. An endpoint that another device has is taken over only with the same keys.",
		Errors:      []*errs.Error{ErrEndpoint, ErrKeys, ErrStore}}, s.putSubscription)
	web.Handle(a, web.Op{Method: http.MethodDelete, Path: "/v1/push/subscription", ID: "push.unsubscribe", Tags: tags, Status: http.StatusOK,
		Summary: "Push nothing to the calling device any more", Errors: []*errs.Error{ErrStore}}, s.deleteSubscription)
}

func (s *Service) getKey(ctx context.Context, _ accounts.Caller, _ *web.Empty) (*web.Body[api.PushKey], error) {
	k, err := s.Key(ctx)
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.PushKey{Key: k}), nil
}

func (s *Service) getStatus(ctx context.Context, caller accounts.Caller, _ *web.Empty) (*web.Body[api.PushStatus], error) {
	st, err := s.Status(ctx, caller.User)
	if err != nil {
		return nil, err
	}
	return web.NewBody(api.PushStatus{Subscribed: slices.Contains(st.Devices, caller.Device), Devices: len(st.Devices),
		Messages: st.Messages, Requests: st.Requests, Notices: st.Notices, Previews: st.Previews}), nil
}

func (s *Service) patchStatus(ctx context.Context, caller accounts.Caller, in *web.Body[api.PushUpdate]) (*web.Body[api.PushStatus], error) {
	if err := s.Choose(ctx, caller.User, Update(in.Body)); err != nil {
		return nil, err
	}
	return s.getStatus(ctx, caller, nil)
}

func (s *Service) putSubscription(ctx context.Context, caller accounts.Caller, in *web.Body[api.PushSubscription]) (*web.Body[api.PushStatus], error) {
	if err := s.Subscribe(ctx, Subscription{User: caller.User, Device: caller.Device, Endpoint: in.Body.Endpoint, P256DH: in.Body.Keys.P256DH, Auth: in.Body.Keys.Auth}); err != nil {
		return nil, err
	}
	return s.getStatus(ctx, caller, nil)
}

func (s *Service) deleteSubscription(ctx context.Context, caller accounts.Caller, _ *web.Empty) (*web.Body[api.PushStatus], error) {
	if err := s.Unsubscribe(ctx, caller.User, caller.Device); err != nil {
		return nil, err
	}
	return s.getStatus(ctx, caller, nil)
}
